//! The plugins, in the order in which they are asked.

pub mod coscheduling;
pub mod flux;
pub mod groups;
pub mod jax;
pub mod job_set;
pub mod mpi;
pub mod plain;
pub mod progress;
#[cfg(test)]
mod tests;
pub mod torch;
pub mod volcano;
pub mod xgboost;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::blueprint::Blueprint;
use crate::plugin::{Found, Plugin, Settings};
use crate::train_job::TrainJob;

/// Every plugin, one line each. The JobSet comes last: what it mounts is there before it.
pub const ALL: &[&dyn Plugin] = &[
    &plain::Plain,
    &torch::Torch,
    &mpi::Mpi,
    &jax::Jax,
    &xgboost::XgBoost,
    &flux::Flux,
    &coscheduling::Coscheduling,
    &volcano::Volcano,
    &progress::Progress,
    &job_set::JobSet,
];

/// Fills in the blueprint of a job: policies, groups, pods, then the counts.
pub fn enforce(
    settings: &Settings,
    job: &TrainJob<'_>,
    runtime: &Value,
) -> Result<Blueprint, String> {
    let mut blueprint = Blueprint::begin(job, runtime);
    for plugin in ALL {
        plugin.enforce_policy(job, &mut blueprint)?;
    }
    for plugin in ALL {
        plugin.enforce_pod_group(job, &mut blueprint);
    }
    for plugin in ALL {
        plugin.enforce_pods(settings, job, &mut blueprint);
    }
    blueprint.sync_counts();
    Ok(blueprint)
}

/// What plugins make up for objects that are not there.
pub fn fresh(
    job: &TrainJob<'_>,
    blueprint: &Blueprint,
    found: &Found,
) -> Result<BTreeMap<&'static str, Value>, String> {
    let made = ALL.iter().map(|one| Ok((one.name(), one.fresh(job, blueprint, found)?)));
    made.collect()
}
