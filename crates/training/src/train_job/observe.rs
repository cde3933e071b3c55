//! What a TrainJob has: its runtime as it was or is, and the objects of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use reconcile::{Context, Error, Kind, Name, Object};
use serde_json::Value;

use super::deadline;
use super::job::{TrainJob, runtime_kind};
use super::snapshot;
use crate::kinds::{CONFIG_MAP, JOB_SET, LIMIT_RANGE, RUNTIME_CLASS, TRAIN_JOB, TRAINING_RUNTIME};
use crate::plugin::{Found, Settings, Surroundings};
use crate::plugins;
use crate::timers::Timers;

pub struct Observed {
    /// The job went, ended or was changed, though the cache does not show it yet.
    pub is_outdated: bool,
    pub runtime: Runtime,
    /// Objects of the names that the job's own have.
    pub found: Found,
    pub surroundings: Surroundings,
    /// What plugins made up, by their names.
    pub fresh: BTreeMap<&'static str, Value>,
    pub until_deadline: Option<Duration>,
    pub until_deletion: Option<Duration>,
}

/// The runtime that a job refers to.
pub enum Runtime {
    /// Nobody knows such runtimes.
    Unsupported,
    /// The job has ended or is another's: it is not looked at.
    Unread,
    Missing(String),
    /// As it was when the job began.
    Kept(Value),
    /// As it is; it is to be kept.
    Live(Value),
}

/// What observing takes.
pub struct Means<'a> {
    pub kinds: &'a BTreeSet<Kind>,
    pub settings: &'a Settings,
    pub timers: &'a Timers,
}

pub async fn observe(
    context: &Context,
    object: &Arc<Object>,
    means: &Means<'_>,
) -> Result<Observed, Error> {
    let job = TrainJob::of(object);
    let now = context.environment.now();
    let found = find(context, &job, means.kinds);
    let runtime = runtime(context, &job, &found).await?;
    let fresh = match &runtime {
        Runtime::Kept(runtime) | Runtime::Live(runtime) => {
            let blueprint = plugins::enforce(means.settings, &job, &runtime["spec"]);
            let fresh = blueprint.and_then(|blueprint| plugins::fresh(&job, &blueprint, &found));
            fresh.unwrap_or_default()
        }
        _ => BTreeMap::new(),
    };
    let surroundings = match &runtime {
        Runtime::Kept(runtime) | Runtime::Live(runtime)
            if runtime["spec"]["podGroupPolicy"].is_object() =>
        {
            surroundings(context, &job, means.settings)
        }
        _ => Surroundings::default(),
    };
    let is_outdated = makes(&job, &runtime, &found) && is_outdated(context, object).await?;
    Ok(Observed {
        is_outdated,
        surroundings,
        runtime,
        found,
        fresh,
        until_deadline: deadline::left(&job, means.timers, now),
        until_deletion: deadline::until_deletion(&job, means.timers, now),
    })
}

/// Whether something may be made for a job that it does not have yet.
fn makes(job: &TrainJob<'_>, runtime: &Runtime, found: &Found) -> bool {
    match runtime {
        Runtime::Live(_) => true,
        Runtime::Kept(_) => !found.contains_key(&(JOB_SET, job.name().to_owned())),
        Runtime::Unsupported | Runtime::Unread | Runtime::Missing(_) => false,
    }
}

/// Whether the server knows better. A job has one JobSet in its life: what is made for one that is
/// over, or that was held since, would run what must not run.
async fn is_outdated(context: &Context, object: &Object) -> Result<bool, Error> {
    let live = context.get_live(TRAIN_JOB, &object.name).await?;
    Ok(live.is_none_or(|live| {
        let is_same = live.uid == object.uid && live.generation() == object.generation();
        !is_same || live.is_terminating() || TrainJob::of(&live).is_finished()
    }))
}

fn find(context: &Context, job: &TrainJob<'_>, kinds: &BTreeSet<Kind>) -> Found {
    let made = plugins::ALL.iter().flat_map(|plugin| plugin.makes(job.name()));
    let named = made.chain([(CONFIG_MAP, snapshot::name(job.name()))]);
    let mut found = Found::new();
    for (kind, name) in named.filter(|(kind, _)| kinds.contains(kind)) {
        let full = Name::new(job.namespace(), name.as_str());
        if let Some(object) = context.owned_cache(kind).get(&full) {
            found.insert((kind, name), object);
        }
    }
    found
}

/// Only gangs need to know, where there are any.
fn surroundings(context: &Context, job: &TrainJob<'_>, settings: &Settings) -> Surroundings {
    if !settings.groups.coscheduling && !settings.groups.volcano {
        return Surroundings::default();
    }
    let mut limit_ranges = context.cache(LIMIT_RANGE).all();
    limit_ranges.retain(|range| &*range.name.namespace == job.namespace());
    Surroundings { limit_ranges, runtime_classes: context.cache(RUNTIME_CLASS).all() }
}

async fn runtime(context: &Context, job: &TrainJob<'_>, found: &Found) -> Result<Runtime, Error> {
    let Some(kind) = runtime_kind(&job.runtime_key()) else { return Ok(Runtime::Unsupported) };
    if job.is_finished() || job.is_managed_elsewhere() || job.object.is_terminating() {
        return Ok(Runtime::Unread);
    }
    if let Some(map) = found.get(&(CONFIG_MAP, snapshot::name(job.name()))) {
        return Ok(match snapshot::read(job, map) {
            Ok(runtime) => Runtime::Kept(runtime),
            Err(why) => Runtime::Missing(why),
        });
    }
    let namespace = if kind.namespaced { job.namespace() } else { "" };
    let name = Name::new(namespace, job.runtime_name());
    // A snapshot cannot be taken back, so it is of what there is now.
    let live = context.get_live(kind, &name).await?;
    Ok(match live {
        Some(mut runtime) => {
            if let Some(meta) = runtime.value["metadata"].as_object_mut() {
                meta.remove("managedFields");
            }
            Runtime::Live(runtime.value.clone())
        }
        None if kind == TRAINING_RUNTIME => Runtime::Missing(format!(
            "TrainingRuntime specified in TrainJob is not found: {} {:?} not found",
            kind.plural, &*name.name
        )),
        None => Runtime::Missing(format!(
            "not found ClusterTrainingRuntime specified in TrainJob: {} {:?} not found",
            kind.plural, &*name.name
        )),
    })
}

/// Whether a job might wait for a runtime to be there.
pub fn waits_for(object: &Object, kind: Kind, runtime: &Object) -> bool {
    let job = TrainJob::of(object);
    runtime_kind(&job.runtime_key()) == Some(kind)
        && job.runtime_name() == &*runtime.name.name
        && (!kind.namespaced || job.namespace() == &*runtime.name.namespace)
        && job.status()["jobsStatus"].is_null()
        && !job.is_finished()
}
