//! JAX: how many processes there are, which one this is, and where the coordinator is.

use serde_json::json;

use crate::blueprint::{Blueprint, NODE, open_port, set_env};
use crate::plugin::{PORT, Plugin, completion_index};
use crate::train_job::TrainJob;

pub struct Jax;

impl Plugin for Jax {
    fn name(&self) -> &'static str {
        "JAX"
    }

    fn enforce_policy(&self, job: &TrainJob<'_>, blueprint: &mut Blueprint) -> Result<(), String> {
        if !blueprint.policy["jax"].is_object() {
            return Ok(());
        }
        blueprint.count_nodes(job);
        let Some(set) = blueprint.trainer_set() else { return Ok(()) };
        let coordinator = format!("{}:{PORT}", blueprint.first_node(job));
        let count = blueprint.pod_sets[set].count;
        if job.trainer().is_object()
            && let Some(node) = blueprint.container_mut(set, NODE)
        {
            set_env(
                node,
                &[
                    json!({"name": "JAX_NUM_PROCESSES", "value": count.to_string()}),
                    json!({"name": "JAX_PROCESS_ID", "valueFrom": completion_index()}),
                    json!({"name": "JAX_COORDINATOR_ADDRESS", "value": coordinator}),
                ],
            );
            open_port(node, PORT);
        }
        Ok(())
    }
}
