//! PodTemplates.
//!
//! Upstream: pkg/registry/core/podtemplate/strategy.go

use serde_json::Value;

use super::{pod_spec, workload};
use crate::registry::checks::Errors;
use crate::registry::edit::object;
use crate::registry::field::Field;
use crate::registry::strategy::{Properties, Strategy};

pub struct PodTemplate;

impl Strategy for PodTemplate {
    fn properties(&self) -> Properties {
        Properties { returns_deleted_object: true, ..Properties::WITH_GENERATION }
    }

    fn default(&self, template: &mut Value) {
        if let Some(template) = object(template, "template") {
            pod_spec::default_template(template);
        }
    }

    fn validate(&self, template: &Value) -> Errors {
        let mut errors = Errors::new();
        pod_spec::validate_template(&Field::root(template).at("template"), &mut errors);
        errors
    }

    fn warnings(&self, template: &Value, old: Option<&Value>) -> Vec<String> {
        workload::warnings(template, old, &["template", "spec"])
    }
}
