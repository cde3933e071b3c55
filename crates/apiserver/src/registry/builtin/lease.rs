//! Leases.
//!
//! Upstream: pkg/registry/coordination/lease/strategy.go, pkg/apis/coordination/validation

use serde_json::Value;

use crate::registry::checks::{self, Errors};
use crate::registry::field::Field;
use crate::registry::strategy::{Properties, Strategy};

pub struct Lease;

impl Strategy for Lease {
    fn properties(&self) -> Properties {
        Properties {
            allows_create_on_update: true,
            allows_unconditional_update: false,
            ..Properties::DEFAULT
        }
    }

    fn validate(&self, lease: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(lease);
        let spec = root.at("spec");
        let duration = spec.at("leaseDurationSeconds");
        if duration.as_int().is_some_and(|seconds| seconds <= 0) {
            errors.push(duration.invalid("must be greater than 0"));
        }
        let transitions = spec.at("leaseTransitions");
        if transitions.as_int().is_some_and(|count| count < 0) {
            errors.push(transitions.invalid("must be greater than or equal to 0"));
        }
        let holder = spec.at("holderIdentity");
        if holder.is_set() && holder.as_text().is_empty() {
            errors.push(holder.invalid("must not be empty"));
        }
        let strategy = spec.at("strategy");
        checks::absent_or_one_of(&strategy, &["OldestEmulationVersion"], &mut errors);
        if spec.has("preferredHolder") && !strategy.is_set() {
            let detail = "must not be specified when `strategy` is not set";
            errors.push(spec.at("preferredHolder").forbidden(detail));
        }
        errors
    }
}
