//! StorageClasses.
//!
//! Upstream: pkg/registry/storage/storageclass/strategy.go, pkg/apis/storage/validation

use serde_json::Value;

use crate::registry::checks::{self, Errors};
use crate::registry::edit::{self, set_default};
use crate::registry::field::Field;
use crate::registry::names;
use crate::registry::strategy::{Properties, Strategy};

const PARAMETERS_MAX: usize = 512;

pub struct StorageClass;

impl Strategy for StorageClass {
    fn properties(&self) -> Properties {
        Properties { returns_deleted_object: true, ..Properties::DEFAULT }
    }

    fn default(&self, class: &mut Value) {
        set_default(class, "reclaimPolicy", "Delete");
        set_default(class, "volumeBindingMode", "Immediate");
    }

    fn validate(&self, class: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(class);
        let provisioner = root.at("provisioner");
        match provisioner.as_text() {
            "" => errors.push(provisioner.required("")),
            text => {
                let lower = text.to_lowercase();
                checks::faults(&provisioner, names::qualified_name(&lower), &mut errors);
            }
        }
        let parameters = root.at("parameters");
        if root.count("parameters") > PARAMETERS_MAX {
            let mut error = parameters.too_long(PARAMETERS_MAX);
            error.detail = "Provisioner Parameters exceeded max allowed".to_owned();
            errors.push(error);
        }
        for key in root.map("parameters").into_iter().flatten().map(|(key, _)| key) {
            if key.is_empty() {
                errors.push(parameters.invalid_value("", "field can not be empty."));
            }
        }
        let reclaim = root.at("reclaimPolicy");
        checks::absent_or_one_of(&reclaim, &["Delete", "Retain"], &mut errors);
        let mode = root.at("volumeBindingMode");
        match mode.is_set() {
            false => errors.push(mode.required("")),
            true => {
                checks::one_of(&mode, &["Immediate", "WaitForFirstConsumer"], &mut errors);
            }
        }
        for term in root.items("allowedTopologies") {
            for expression in term.items("matchLabelExpressions") {
                if expression.count("values") == 0 {
                    errors.push(expression.at("values").required(""));
                }
                checks::label_name(&expression.at("key"), &mut errors);
            }
        }
        errors
    }

    fn validate_update(&self, class: &Value, old: &Value, _subresource: &str) -> Errors {
        let mut errors = self.validate(class);
        let root = Field::root(class);
        for name in ["parameters", "provisioner", "reclaimPolicy"] {
            let field = root.at(name);
            if !edit::same(field.value, edit::at(old, &[name])) {
                errors.push(field.forbidden(format!("updates to {name} are forbidden.")));
            }
        }
        let mode = root.at("volumeBindingMode");
        checks::immutable(&mode, edit::at(old, &["volumeBindingMode"]), &mut errors);
        errors
    }
}
