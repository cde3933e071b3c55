//! Deployments.
//!
//! Upstream: pkg/registry/apps/deployment/strategy.go, pkg/apis/apps/v1/defaults.go

use serde_json::{Value, json};

use super::{pod_spec, workload};
use crate::registry::checks::{self, Errors};
use crate::registry::edit::{self, object, set_default, text};
use crate::registry::field::Field;
use crate::registry::strategy::{Context, Properties, Strategy, content_differs};

pub struct Deployment;

impl Strategy for Deployment {
    fn properties(&self) -> Properties {
        Properties::WITH_STATUS_AND_GENERATION
    }

    fn default(&self, deployment: &mut Value) {
        let Some(spec) = object(deployment, "spec") else { return };
        set_default(spec, "replicas", 1);
        set_default(spec, "revisionHistoryLimit", 10);
        set_default(spec, "progressDeadlineSeconds", 600);
        if let Some(strategy) = object(spec, "strategy") {
            set_default(strategy, "type", "RollingUpdate");
            if text(strategy, &["type"]) == "RollingUpdate"
                && let Some(rolling) = object(strategy, "rollingUpdate")
            {
                set_default(rolling, "maxUnavailable", "25%");
                set_default(rolling, "maxSurge", "25%");
            }
        }
        if let Some(template) = object(spec, "template") {
            pod_spec::default_template(template);
        }
    }

    /// Status writers may not relabel.
    fn prepare_update(&self, deployment: &mut Value, old: &Value, context: &Context<'_>) {
        if context.subresource == "status"
            && let Some(metadata) = object(deployment, "metadata")
        {
            edit::copy_field(metadata, edit::at(old, &["metadata"]), "labels");
        }
    }

    fn validate(&self, deployment: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(deployment);
        let spec = root.at("spec");
        checks::non_negative(&spec.at("replicas"), &mut errors);
        workload::validate_selector(&spec, "deployment", &mut errors);
        workload::validate_template(&spec, "ReplicaSet", &mut errors);
        validate_strategy(&spec.at("strategy"), &mut errors);
        checks::non_negative(&spec.at("minReadySeconds"), &mut errors);
        checks::non_negative(&spec.at("revisionHistoryLimit"), &mut errors);
        let deadline = spec.at("progressDeadlineSeconds");
        checks::non_negative(&deadline, &mut errors);
        let ready = spec.int("minReadySeconds").unwrap_or(0);
        if deadline.as_int().is_some_and(|seconds| seconds <= ready) {
            errors.push(deadline.invalid("must be greater than minReadySeconds"));
        }
        errors
    }

    fn validate_update(&self, deployment: &Value, old: &Value, subresource: &str) -> Errors {
        let root = Field::root(deployment);
        if subresource == "status" {
            return validate_status(&root.at("status"));
        }
        let mut errors = self.validate(deployment);
        workload::validate_selector_update(&root, old, &mut errors);
        errors
    }

    fn warnings(&self, deployment: &Value, old: Option<&Value>) -> Vec<String> {
        workload::warnings(deployment, old, &["spec", "template", "spec"])
    }

    /// Controllers copy annotations too.
    fn changes_generation(&self, deployment: &Value, old: &Value) -> bool {
        let annotations = |it: &Value| json!(edit::at(it, &["metadata", "annotations"]));
        content_differs(deployment, old) || annotations(deployment) != annotations(old)
    }
}

fn validate_strategy(strategy: &Field<'_>, errors: &mut Errors) {
    let rolling = strategy.at("rollingUpdate");
    match strategy.text("type") {
        "Recreate" => {
            if rolling.is_set() {
                let detail = "may not be specified when strategy `type` is 'Recreate'";
                errors.push(rolling.forbidden(detail));
            }
        }
        "RollingUpdate" if !rolling.is_set() => {
            errors.push(rolling.required("this should be defaulted and never be nil"));
        }
        "RollingUpdate" => validate_rolling(&rolling, errors),
        _ => errors.push(strategy.at("type").not_supported(&["Recreate", "RollingUpdate"])),
    }
}

fn validate_rolling(rolling: &Field<'_>, errors: &mut Errors) {
    let unavailable = rolling.at("maxUnavailable");
    let surge = rolling.at("maxSurge");
    checks::count_or_percent(&unavailable, errors);
    checks::count_or_percent(&surge, errors);
    if checks::is_zero(unavailable.value) && checks::is_zero(surge.value) {
        errors.push(unavailable.invalid("may not be 0 when `maxSurge` is 0"));
    }
    checks::not_more_than_whole(&unavailable, errors);
}

fn validate_status(status: &Field<'_>) -> Errors {
    let mut errors = Errors::new();
    let names = [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
    ];
    workload::validate_counts(status, &names, &mut errors);
    errors
}
