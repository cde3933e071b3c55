//! Jobs.
//!
//! Upstream: pkg/registry/batch/job/strategy.go, pkg/apis/batch/v1/defaults.go

use serde_json::{Value, json};

use super::{pod_spec, workload};
use crate::registry::checks::Errors;
use crate::registry::edit::{self, at_mut, each_mut, object, set_default, text};
use crate::registry::field::Field;
use crate::registry::strategy::{Context, DefaultPropagation, Properties, Strategy};

mod policies;
mod update;
mod validate;

pub use validate::validate_spec;

const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
const JOB_NAME: &str = "batch.kubernetes.io/job-name";
const OLD_CONTROLLER_UID: &str = "controller-uid";
const OLD_JOB_NAME: &str = "job-name";

pub struct Job;

impl Strategy for Job {
    fn properties(&self) -> Properties {
        Properties {
            default_propagation: DefaultPropagation::Orphan,
            ..Properties::WITH_STATUS_AND_GENERATION
        }
    }

    fn default(&self, job: &mut Value) {
        label_as_template(job);
        if let Some(spec) = object(job, "spec") {
            default_spec(spec);
        }
    }

    fn prepare_create(&self, job: &mut Value, _context: &Context<'_>) {
        generate_selector(job);
        label_as_template(job);
    }

    fn validate(&self, job: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(job);
        validate::validate(&root, &mut errors);
        errors
    }

    fn validate_update(&self, job: &Value, old: &Value, subresource: &str) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(job);
        match subresource {
            "status" => update::validate_status(&root, old, &mut errors),
            _ => {
                validate::validate_spec(&root.at("spec"), &mut errors);
                update::validate(&root, old, &mut errors);
            }
        }
        errors
    }

    fn warnings(&self, job: &Value, old: Option<&Value>) -> Vec<String> {
        workload::warnings(job, old, &["spec", "template", "spec"])
    }
}

/// A job without labels has those of its pods.
fn label_as_template(job: &mut Value) {
    let labels = edit::at(job, &["spec", "template", "metadata", "labels"]).clone();
    if let Some(metadata) = object(job, "metadata")
        && edit::is_empty(edit::at(metadata, &["labels"]))
        && !edit::is_empty(&labels)
    {
        edit::set(metadata, "labels", labels);
    }
}

/// Defaults of a `JobSpec`: also of a cron job's template.
pub fn default_spec(spec: &mut Value) {
    if !edit::has(spec, &["completions"]) && !edit::has(spec, &["parallelism"]) {
        edit::set(spec, "completions", 1);
    }
    set_default(spec, "parallelism", 1);
    let backoff = match edit::has(spec, &["backoffLimitPerIndex"]) {
        true => i64::from(i32::MAX),
        false => 6,
    };
    set_default(spec, "backoffLimit", backoff);
    set_default(spec, "completionMode", "NonIndexed");
    set_default(spec, "suspend", false);
    set_default(spec, "manualSelector", false);
    let replacement = match edit::has(spec, &["podFailurePolicy"]) {
        true => "Failed",
        false => "TerminatingOrFailed",
    };
    set_default(spec, "podReplacementPolicy", replacement);
    for rule in each_mut(spec, &["podFailurePolicy", "rules"]) {
        for condition in each_mut(rule, &["onPodConditions"]) {
            set_default(condition, "status", "True");
        }
    }
    if let Some(template) = object(spec, "template") {
        pod_spec::default_template(template);
    }
}

/// A job selects the pods that carry its uid, unless its owner insists on another way.
fn generate_selector(job: &mut Value) {
    if edit::at(job, &["spec", "manualSelector"]) == &Value::Bool(true) {
        return;
    }
    let uid = text(job, &["metadata", "uid"]).to_owned();
    let name = text(job, &["metadata", "name"]).to_owned();
    let Some(spec) = object(job, "spec") else { return };
    let template = object(spec, "template").and_then(|it| object(it, "metadata"));
    if let Some(labels) = template.and_then(|it| object(it, "labels")) {
        let given = [
            (JOB_NAME, &name),
            (CONTROLLER_UID, &uid),
            (OLD_JOB_NAME, &name),
            (OLD_CONTROLLER_UID, &uid),
        ];
        for (label, value) in given {
            edit::set(labels, label, value.as_str());
        }
    }
    let selector = object(spec, "selector");
    if let Some(labels) = selector.and_then(|it| object(it, "matchLabels"))
        && !edit::has(labels, &[CONTROLLER_UID])
    {
        edit::set(labels, CONTROLLER_UID, uid);
    }
}

/// A job that never started may still be told where its pods should run.
fn may_be_placed(old: &Value) -> bool {
    edit::at(old, &["spec", "suspend"]) == &json!(true) && !edit::has(old, &["status", "startTime"])
}

/// The parts of a template that say where pods run, made as they were.
fn undo_placement(template: &mut Value, old: &Value) {
    let old_spec = edit::at(old, &["spec"]);
    if let Some(spec) = at_mut(template, &["spec"]) {
        for name in ["nodeSelector", "affinity", "tolerations", "schedulingGates"] {
            edit::copy_field(spec, old_spec, name);
        }
    }
    if let Some(metadata) = at_mut(template, &["metadata"]) {
        for name in ["labels", "annotations"] {
            edit::copy_field(metadata, edit::at(old, &["metadata"]), name);
        }
    }
}
