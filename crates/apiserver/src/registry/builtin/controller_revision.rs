//! ControllerRevisions: what a workload was, kept for going back to it.
//!
//! Upstream: pkg/registry/apps/controllerrevision/strategy.go

use serde_json::Value;

use crate::registry::checks::{self, Errors};
use crate::registry::edit;
use crate::registry::field::Field;
use crate::registry::strategy::Strategy;

pub struct ControllerRevision;

impl Strategy for ControllerRevision {
    fn validate(&self, revision: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(revision);
        if !root.has("data") {
            errors.push(root.at("data").required("data is mandatory"));
        }
        checks::non_negative(&root.at("revision"), &mut errors);
        errors
    }

    fn validate_update(&self, revision: &Value, old: &Value, _subresource: &str) -> Errors {
        let mut errors = self.validate(revision);
        checks::immutable(&Field::root(revision).at("data"), edit::at(old, &["data"]), &mut errors);
        errors
    }
}
