//! PodDisruptionBudgets.
//!
//! Upstream: pkg/registry/policy/poddisruptionbudget/strategy.go, pkg/apis/policy/validation

use serde_json::{Value, json};

use crate::registry::checks::{self, Errors};
use crate::registry::field::Field;
use crate::registry::label_selector;
use crate::registry::strategy::{Properties, Strategy};

pub struct PodDisruptionBudget;

impl Strategy for PodDisruptionBudget {
    fn properties(&self) -> Properties {
        Properties { allows_unconditional_update: false, ..Properties::WITH_STATUS_AND_GENERATION }
    }

    fn empty_status(&self) -> Value {
        json!({
            "disruptionsAllowed": 0,
            "currentHealthy": 0,
            "desiredHealthy": 0,
            "expectedPods": 0,
        })
    }

    fn validate(&self, budget: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(budget);
        let spec = root.at("spec");
        if spec.has("minAvailable") && spec.has("maxUnavailable") {
            errors.push(spec.invalid("minAvailable and maxUnavailable cannot be both set"));
        }
        for name in ["minAvailable", "maxUnavailable"] {
            let field = spec.at(name);
            checks::count_or_percent(&field, &mut errors);
            checks::not_more_than_whole(&field, &mut errors);
        }
        label_selector::validate(&spec.at("selector"), &mut errors);
        let policy = spec.at("unhealthyPodEvictionPolicy");
        checks::absent_or_one_of(&policy, &["AlwaysAllow", "IfHealthyBudget"], &mut errors);
        errors
    }

    fn validate_update(&self, budget: &Value, _old: &Value, subresource: &str) -> Errors {
        if subresource != "status" {
            return self.validate(budget);
        }
        let mut errors = Errors::new();
        let root = Field::root(budget);
        let status = root.at("status");
        for name in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            checks::non_negative(&status.at(name), &mut errors);
        }
        errors
    }
}
