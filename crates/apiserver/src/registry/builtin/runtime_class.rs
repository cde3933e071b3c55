//! RuntimeClasses.
//!
//! Upstream: pkg/registry/node/runtimeclass/strategy.go, pkg/apis/node/validation

use serde_json::Value;

use super::pod_spec::{resources, scheduling};
use crate::registry::checks::{self, Errors};
use crate::registry::edit;
use crate::registry::field::Field;
use crate::registry::names;
use crate::registry::strategy::{Properties, Strategy};

pub struct RuntimeClass;

impl Strategy for RuntimeClass {
    fn properties(&self) -> Properties {
        Properties {
            allows_create_on_update: true,
            allows_unconditional_update: false,
            ..Properties::DEFAULT
        }
    }

    fn validate(&self, class: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(class);
        let handler = root.at("handler");
        checks::faults(&handler, names::label(handler.as_text()), &mut errors);
        let overhead = root.at("overhead");
        resources::validate_fixed(&overhead, "podFixed", &mut errors);
        let placement = root.at("scheduling");
        checks::labels(&placement.at("nodeSelector"), &mut errors);
        scheduling::validate_tolerations(&placement, &mut errors);
        errors
    }

    fn validate_update(&self, class: &Value, old: &Value, _subresource: &str) -> Errors {
        let mut errors = Errors::new();
        let handler = edit::at(old, &["handler"]);
        checks::immutable(&Field::root(class).at("handler"), handler, &mut errors);
        errors
    }
}
