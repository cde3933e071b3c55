//! Secrets.
//!
//! Upstream: pkg/registry/core/secret/strategy.go, ValidateSecret

use serde_json::{Value, json};

use super::config_map::{BYTES_MAX, validate_frozen};
use crate::field_error::FieldError;
use crate::registry::base64;
use crate::registry::checks::{self, Errors};
use crate::registry::edit::{self, object, set_default};
use crate::registry::field::Field;
use crate::registry::names;
use crate::registry::strategy::{Context, Strategy};

const SERVICE_ACCOUNT: &str = "kubernetes.io/service-account.name";

pub struct Secret;

impl Strategy for Secret {
    /// What is given in the clear is kept as bytes, and never given back in the clear.
    fn default(&self, secret: &mut Value) {
        set_default(secret, "type", "Opaque");
        let Some(plain) = edit::remove(secret, "stringData") else { return };
        let plain = plain.as_object().filter(|map| !map.is_empty());
        let Some(data) = plain.and_then(|_| object(secret, "data")) else { return };
        for (key, text) in plain.into_iter().flatten() {
            edit::set(data, key, base64::encode(text.as_str().unwrap_or("").as_bytes()));
        }
    }

    /// The type may be left out of an update.
    fn prepare_update(&self, secret: &mut Value, old: &Value, _context: &Context<'_>) {
        if edit::text(secret, &["type"]).is_empty() {
            edit::copy_field(secret, old, "type");
        }
    }

    fn validate(&self, secret: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(secret);
        let mut bytes = 0;
        for (key, entry) in root.entries("data") {
            for fault in names::config_key(key) {
                errors.push(entry.invalid_value(key, fault));
            }
            bytes += base64::decoded_len(entry.as_text());
        }
        if bytes > BYTES_MAX {
            errors.push(FieldError::too_long("data", BYTES_MAX));
        }
        validate_type(&root, &mut errors);
        errors
    }

    fn validate_update(&self, secret: &Value, old: &Value, _subresource: &str) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(secret);
        checks::immutable(&root.at("type"), edit::at(old, &["type"]), &mut errors);
        validate_frozen(&root, old, &["data"], &mut errors);
        errors.extend(self.validate(secret));
        errors
    }
}

/// Some types promise their readers some keys.
fn validate_type(root: &Field<'_>, errors: &mut Errors) {
    match root.text("type") {
        "kubernetes.io/service-account-token" => {
            let metadata = root.at("metadata");
            let name = metadata.key("annotations", SERVICE_ACCOUNT);
            checks::present(&name, errors);
        }
        "kubernetes.io/dockercfg" => require_json(root, ".dockercfg", errors),
        "kubernetes.io/dockerconfigjson" => require_json(root, ".dockerconfigjson", errors),
        "kubernetes.io/basic-auth" => {
            let given = |key| root.key("data", key).is_set();
            if !given("username") && !given("password") {
                errors.push(root.key("data", "username").required(""));
                errors.push(root.key("data", "password").required(""));
            }
        }
        "kubernetes.io/ssh-auth" => checks::present(&root.key("data", "ssh-privatekey"), errors),
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"] {
                let field = root.key("data", key);
                if !field.is_set() {
                    errors.push(field.required(""));
                }
            }
        }
        _ => {}
    }
}

fn require_json(root: &Field<'_>, key: &str, errors: &mut Errors) {
    let field = root.key("data", key);
    if !field.is_set() {
        return errors.push(field.required(""));
    }
    let bytes = base64::decode(field.as_text()).unwrap_or_default();
    if let Err(error) = serde_json::from_slice::<serde_json::Map<String, Value>>(&bytes) {
        let shown = json!("<secret contents redacted>");
        errors.push(field.invalid_value(shown, error.to_string()));
    }
}
