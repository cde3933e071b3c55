//! Runtimes: whether the jobs that TrainJobs fill in are of the form that they need.

use serde_json::Value;

use super::{Answer, Question};
use crate::blueprint::{ANCESTOR, DATASET_INITIALIZER, MODEL_INITIALIZER, NODE, TRAINER};
use crate::field_error::FieldError;
use crate::training_runtime::SUPPORT;
use crate::value::{find, list, text};

pub const DEPRECATION_POLICY: &str = "https://trainer.kubeflow.org/en/latest/operator-guides/runtime.html#runtime-deprecation-policy";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Namespace,
    Cluster,
}

pub fn is_deprecated(runtime: &Value) -> bool {
    runtime["metadata"]["labels"][SUPPORT] == "deprecated"
}

pub fn validate(question: &Question<'_>, scope: Scope) -> Answer {
    let mut answer = Answer::judge_by(403, &errors(question.new));
    let is_new = question.old.is_null();
    if scope == Scope::Cluster && is_new && is_deprecated(question.new) {
        answer.warnings.push(format!(
            "ClusterTrainingRuntime {:?} is deprecated and will be removed in a future release of \
             Kubeflow Trainer. See runtime deprecation policy: {DEPRECATION_POLICY}",
            text(&question.new["metadata"]["name"])
        ));
    }
    answer
}

fn errors(runtime: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let jobs = list(&runtime["spec"]["template"]["spec"]["replicatedJobs"]);
    for (number, job) in jobs.iter().enumerate() {
        let ancestor = text(&job["template"]["metadata"]["labels"][ANCESTOR]);
        let container = match ancestor {
            TRAINER => NODE,
            DATASET_INITIALIZER | MODEL_INITIALIZER => ancestor,
            _ => continue,
        };
        let field = format!("spec.template.spec.replicatedJobs[{number}]");
        let replicas = job["replicas"].as_i64().unwrap_or(1);
        if replicas != 1 {
            let field = format!("{field}.replicas");
            errors.push(FieldError::invalid(field, replicas, "always must be 1"));
        }
        let containers = &job["template"]["spec"]["template"]["spec"]["containers"];
        if find(containers, "name", container).is_none() {
            let field = format!("{field}.template.spec.template.spec.containers");
            let detail =
                format!("must contain the required container for the ancestor: {ancestor}");
            errors.push(FieldError::invalid(field, containers.clone(), detail));
        }
    }
    errors
}
