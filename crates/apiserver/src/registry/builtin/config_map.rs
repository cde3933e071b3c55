//! ConfigMaps.
//!
//! Upstream: pkg/apis/core/validation/validation.go (ValidateConfigMap)

use serde_json::Value;

use crate::field_error::FieldError;
use crate::registry::base64;
use crate::registry::checks::Errors;
use crate::registry::edit;
use crate::registry::field::Field;
use crate::registry::names;
use crate::registry::strategy::Strategy;

pub const BYTES_MAX: usize = 1024 * 1024;

pub struct ConfigMap;

impl Strategy for ConfigMap {
    fn validate(&self, map: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(map);
        let mut bytes = 0;
        for (name, other) in [("data", "binaryData"), ("binaryData", "data")] {
            for (key, entry) in root.entries(name) {
                for fault in names::config_key(key) {
                    errors.push(entry.invalid_value(key, fault));
                }
                if root.key(other, key).is_set() {
                    let detail = format!("duplicate of key present in {other}");
                    errors.push(entry.invalid_value(key, detail));
                }
                let text = entry.as_text();
                let binary = name == "binaryData";
                bytes += if binary { base64::decoded_len(text) } else { text.len() };
            }
        }
        if bytes > BYTES_MAX {
            errors.push(FieldError::too_long("[]", BYTES_MAX));
        }
        errors
    }

    fn validate_update(&self, map: &Value, old: &Value, _subresource: &str) -> Errors {
        let mut errors = Errors::new();
        validate_frozen(&Field::root(map), old, &["data", "binaryData"], &mut errors);
        errors.extend(self.validate(map));
        errors
    }
}

/// What is marked immutable stays so, and so does its content.
pub fn validate_frozen(root: &Field<'_>, old: &Value, content: &[&str], errors: &mut Errors) {
    if edit::at(old, &["immutable"]) != &Value::Bool(true) {
        return;
    }
    let detail = "field is immutable when `immutable` is set";
    if !root.flag("immutable") {
        errors.push(root.at("immutable").forbidden(detail));
    }
    for name in content {
        let field = root.at(name);
        if !edit::same(field.value, edit::at(old, &[name])) {
            errors.push(field.forbidden(detail));
        }
    }
}
