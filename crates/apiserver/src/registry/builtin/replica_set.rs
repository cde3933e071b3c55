//! ReplicaSets.
//!
//! Upstream: pkg/registry/apps/replicaset/strategy.go

use serde_json::{Value, json};

use super::{pod_spec, workload};
use crate::registry::checks::{self, Errors};
use crate::registry::edit::{object, set_default};
use crate::registry::field::Field;
use crate::registry::strategy::{Properties, Strategy};

pub struct ReplicaSet;

impl Strategy for ReplicaSet {
    fn properties(&self) -> Properties {
        Properties::WITH_STATUS_AND_GENERATION
    }

    fn default(&self, set: &mut Value) {
        let Some(spec) = object(set, "spec") else { return };
        set_default(spec, "replicas", 1);
        if let Some(template) = object(spec, "template") {
            pod_spec::default_template(template);
        }
    }

    fn empty_status(&self) -> Value {
        json!({"replicas": 0})
    }

    fn validate(&self, set: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(set);
        let spec = root.at("spec");
        checks::non_negative(&spec.at("replicas"), &mut errors);
        checks::non_negative(&spec.at("minReadySeconds"), &mut errors);
        // Upstream says deployment here too.
        workload::validate_selector(&spec, "deployment", &mut errors);
        workload::validate_template(&spec, "ReplicaSet", &mut errors);
        errors
    }

    fn validate_update(&self, set: &Value, old: &Value, subresource: &str) -> Errors {
        let root = Field::root(set);
        if subresource == "status" {
            return validate_status(&root.at("status"));
        }
        let mut errors = self.validate(set);
        workload::validate_selector_update(&root, old, &mut errors);
        errors
    }

    fn warnings(&self, set: &Value, old: Option<&Value>) -> Vec<String> {
        workload::warnings(set, old, &["spec", "template", "spec"])
    }
}

/// Also of replication controllers.
pub fn validate_status(status: &Field<'_>) -> Errors {
    let mut errors = Errors::new();
    let names = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
    ];
    workload::validate_counts(status, &names, &mut errors);
    errors
}
