//! PriorityClasses.
//!
//! Upstream: pkg/registry/scheduling/priorityclass/strategy.go, pkg/apis/scheduling/validation

use serde_json::Value;

use crate::registry::checks::{self, Errors};
use crate::registry::edit::{self, set_default};
use crate::registry::field::Field;
use crate::registry::strategy::{Properties, Strategy};

/// Users stay below it.
pub const VALUE_MAX: i64 = 1_000_000_000;
/// The classes that exist at birth.
pub const SYSTEM: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

pub struct PriorityClass;

impl Strategy for PriorityClass {
    fn properties(&self) -> Properties {
        Properties::WITH_GENERATION
    }

    fn default(&self, class: &mut Value) {
        set_default(class, "preemptionPolicy", "PreemptLowerPriority");
        set_default(class, "value", 0);
    }

    fn validate(&self, class: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(class);
        let metadata = root.at("metadata");
        let name = metadata.text("name");
        let value = root.int("value").unwrap_or(0);
        if name.starts_with("system-") {
            let known = SYSTEM.iter().find(|(known, _)| *known == name);
            let fault = match known {
                None => Some(format!("{name} is not a known system priority class")),
                Some((_, right)) if *right != value => {
                    Some(format!("value of {name} PriorityClass must be {right}"))
                }
                Some(_) if root.flag("globalDefault") => {
                    Some(format!("globalDefault of {name} PriorityClass must be false"))
                }
                Some(_) => None,
            };
            if let Some(fault) = fault {
                errors.push(metadata.at("name").forbidden(format!(
                    "priority class names with 'system-' prefix are reserved for system use \
                     only. error: {fault}"
                )));
            }
        } else if value > VALUE_MAX {
            errors.push(root.at("value").forbidden(format!(
                "maximum allowed value of a user defined priority is {VALUE_MAX}"
            )));
        }
        let policy = root.at("preemptionPolicy");
        checks::absent_or_one_of(&policy, &["Never", "PreemptLowerPriority"], &mut errors);
        errors
    }

    fn validate_update(&self, class: &Value, old: &Value, _subresource: &str) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(class);
        if root.raw("value") != edit::at(old, &["value"]) {
            errors.push(root.at("value").forbidden("may not be changed in an update."));
        }
        let policy = root.at("preemptionPolicy");
        checks::immutable(&policy, edit::at(old, &["preemptionPolicy"]), &mut errors);
        errors
    }

    /// It is 1 for ever.
    fn changes_generation(&self, _class: &Value, _old: &Value) -> bool {
        false
    }
}
