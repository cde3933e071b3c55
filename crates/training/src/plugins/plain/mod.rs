//! No framework: so many pods, with the environment that the job names.

use crate::blueprint::{Blueprint, NODE, set_env};
use crate::plugin::Plugin;
use crate::train_job::TrainJob;

pub struct Plain;

impl Plugin for Plain {
    fn name(&self) -> &'static str {
        "PlainML"
    }

    fn enforce_policy(&self, job: &TrainJob<'_>, blueprint: &mut Blueprint) -> Result<(), String> {
        // Those count their nodes themselves.
        if ["torch", "mpi", "jax"].iter().any(|one| blueprint.policy[one].is_object()) {
            return Ok(());
        }
        blueprint.count_nodes(job);
        let set = blueprint.trainer_set();
        if let Some(node) = set.and_then(|set| blueprint.container_mut(set, NODE)) {
            set_env(node, job.env());
        }
        Ok(())
    }
}
