//! The JobSet that a TrainJob becomes.

mod validate;

use reconcile::Kind;
use serde_json::{Value, json};

use crate::blueprint::{
    Blueprint, DATASET_INITIALIZER, MODEL_INITIALIZER, NODE, TRAINER, set_env, set_variable,
};
use crate::field_error::FieldError;
use crate::kinds::JOB_SET;
use crate::plugin::{Make, Plugin, Review, Unless, Wanted};
use crate::train_job::TrainJob;
use crate::value::{list, list_mut, overlay};

pub struct JobSet;

impl Plugin for JobSet {
    fn name(&self) -> &'static str {
        "JobSet"
    }

    fn makes(&self, job: &str) -> Vec<(Kind, String)> {
        vec![(JOB_SET, job.to_owned())]
    }

    fn validate(&self, review: &Review<'_>) -> Vec<FieldError> {
        validate::validate(review)
    }

    fn objects(&self, make: &Make<'_>) -> Result<Vec<Wanted>, String> {
        let found = make.found.get(&(JOB_SET, make.job.name().to_owned()));
        // Suspending one that runs is the one change that it takes.
        let found = found.and_then(|found| found.full());
        let is_held = found.is_some_and(|set| set.value["spec"]["suspend"] == true);
        let unless = if is_held { Unless::Same } else { Unless::Running };
        let object = build(make.job, make.blueprint);
        Ok(vec![Wanted { kind: JOB_SET, object, unless }])
    }
}

/// The JobSet as it is applied.
pub fn build(job: &TrainJob<'_>, blueprint: &Blueprint) -> Value {
    let mut blueprint = blueprint.clone();
    initialize(job, &mut blueprint);
    train(job, &mut blueprint);
    schedule(&mut blueprint);
    let mut set = job.child(JOB_SET, job.name());
    for (field, map) in [("labels", &blueprint.labels), ("annotations", &blueprint.annotations)] {
        if map.as_object().is_some_and(|map| !map.is_empty()) {
            set["metadata"][field] = map.clone();
        }
    }
    set["spec"] = blueprint.spec;
    set["spec"]["suspend"] = json!(job.is_suspended());
    set
}

/// What the steps before training are told.
fn initialize(job: &TrainJob<'_>, blueprint: &mut Blueprint) {
    for (step, source) in [(DATASET_INITIALIZER, "dataset"), (MODEL_INITIALIZER, "model")] {
        let Some(set) = blueprint.ancestor(step) else { continue };
        blueprint.spec["replicatedJobs"][set]["replicas"] = json!(1);
        let source = &job.spec()["initializer"][source];
        let container = blueprint.container_mut(set, step).filter(|_| source.is_object());
        let Some(container) = container else { continue };
        if let Some(uri) = source["storageUri"].as_str() {
            set_variable(container, "STORAGE_URI", uri);
        }
        set_env(container, list(&source["env"]));
        if source["secretRef"].is_object() {
            let from = json!({"secretRef": {"name": source["secretRef"]["name"]}});
            list_mut(&mut container["envFrom"]).push(from);
        }
    }
}

/// What the job says of the container that trains.
fn train(job: &TrainJob<'_>, blueprint: &mut Blueprint) {
    let trainer = blueprint.trainer.clone();
    for set in 0..blueprint.pod_sets.len() {
        let is_trainer = blueprint.pod_sets[set].ancestor.as_deref() == Some(TRAINER);
        let is_worker = blueprint.launcher_is_node() && blueprint.pod_sets[set].name == NODE;
        if is_trainer {
            blueprint.spec["replicatedJobs"][set]["replicas"] = json!(1);
        }
        let Some(node) = blueprint.container_mut(set, NODE) else { continue };
        for field in ["image", "command", "args"] {
            if is_trainer && !trainer[field].is_null() {
                node[field] = trainer[field].clone();
            }
        }
        if is_trainer || is_worker {
            set_env(node, job.env());
        }
    }
}

/// What schedulers look for, on every pod that they are to start together.
fn schedule(blueprint: &mut Blueprint) {
    let (labels, annotations) = (blueprint.pod_labels.clone(), blueprint.pod_annotations.clone());
    for set in 0..blueprint.pod_sets.len() {
        if blueprint.is_in_gang(set) {
            let meta = &mut blueprint.job_mut(set)["template"];
            for (field, map) in [("labels", &labels), ("annotations", &annotations)] {
                if map.as_object().is_some_and(|map| !map.is_empty()) {
                    overlay(&mut meta["metadata"], field, map);
                }
            }
        }
    }
}
