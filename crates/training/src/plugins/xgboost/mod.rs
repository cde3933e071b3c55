//! XGBoost: where the tracker is, how many workers there are, and which one this is.

use serde_json::json;

use crate::blueprint::{Blueprint, NODE, open_port, set_env};
use crate::field_error::FieldError;
use crate::plugin::{PORT, Plugin, Review, completion_index};
use crate::resources;
use crate::train_job::TrainJob;
use crate::value::text;

const RESERVED: [&str; 4] =
    ["DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER"];

pub struct XgBoost;

impl Plugin for XgBoost {
    fn name(&self) -> &'static str {
        "XGBoost"
    }

    fn validate(&self, review: &Review<'_>) -> Vec<FieldError> {
        if !review.blueprint.policy["xgboost"].is_object() {
            return Vec::new();
        }
        let names = review.job.env().iter().map(|one| text(&one["name"])).enumerate();
        let taken = names.filter(|(_, name)| RESERVED.contains(name));
        let error = |(number, name): (usize, &str)| {
            let detail = format!("{name} is reserved for the XGBoost runtime");
            FieldError::forbidden(format!("spec.trainer.env[{number}]"), detail)
        };
        taken.map(error).collect()
    }

    fn enforce_policy(&self, job: &TrainJob<'_>, blueprint: &mut Blueprint) -> Result<(), String> {
        let Some(set) = blueprint.trainer_set().filter(|_| blueprint.policy["xgboost"].is_object())
        else {
            return Ok(());
        };
        blueprint.count_nodes(job);
        let tracker = blueprint.first_node(job);
        let per_node = resources::gpus(blueprint.resources_per_node()).max(1);
        let workers = blueprint.pod_sets[set].count.saturating_mul(per_node);
        if job.trainer().is_object()
            && let Some(node) = blueprint.container_mut(set, NODE)
        {
            set_env(
                node,
                &[
                    json!({"name": "DMLC_TRACKER_URI", "value": tracker}),
                    json!({"name": "DMLC_TRACKER_PORT", "value": PORT.to_string()}),
                    json!({"name": "DMLC_TASK_ID", "valueFrom": completion_index()}),
                    json!({"name": "DMLC_NUM_WORKER", "value": workers.to_string()}),
                ],
            );
            open_port(node, PORT);
        }
        Ok(())
    }
}
