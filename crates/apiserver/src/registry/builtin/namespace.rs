//! Namespaces.
//!
//! Upstream: pkg/registry/core/namespace/strategy.go

use serde_json::{Value, json};

use crate::admission::pod_security;
use crate::object::labels;
use crate::registry::checks::Errors;
use crate::registry::edit::{self, object, text};
use crate::registry::field::Field;
use crate::registry::names::{self, NameRule};
use crate::registry::strategy::{Context, Properties, Strategy};

const NAME_LABEL: &str = "kubernetes.io/metadata.name";
const FINALIZER: &str = "kubernetes";

pub struct Namespace;

impl Strategy for Namespace {
    fn properties(&self) -> Properties {
        Properties {
            name_rule: NameRule::Label,
            returns_deleted_object: true,
            ..Properties::WITH_STATUS
        }
    }

    /// Every namespace can be selected by its name.
    fn default(&self, namespace: &mut Value) {
        let name = text(namespace, &["metadata", "name"]).to_owned();
        if name.is_empty() {
            return;
        }
        let Some(metadata) = object(namespace, "metadata") else { return };
        if let Some(labels) = object(metadata, "labels") {
            edit::set(labels, NAME_LABEL, name);
        }
    }

    fn prepare_create(&self, namespace: &mut Value, _context: &Context<'_>) {
        edit::set(namespace, "status", json!({"phase": "Active"}));
        let Some(spec) = object(namespace, "spec") else { return };
        let mut finalizers = edit::list(spec, &["finalizers"]).to_vec();
        if !finalizers.iter().any(|it| it == FINALIZER) {
            finalizers.push(json!(FINALIZER));
        }
        edit::set(spec, "finalizers", finalizers);
    }

    fn prepare_update(&self, namespace: &mut Value, old: &Value, context: &Context<'_>) {
        if context.subresource != "finalize" {
            edit::copy_field(namespace, old, "spec");
        }
    }

    fn validate(&self, namespace: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(namespace);
        let metadata = root.at("metadata");
        for (label, value) in labels(namespace) {
            if let Some(fault) = pod_security::label_fault(label, value) {
                errors.push(metadata.key("labels", label).invalid(fault));
            }
        }
        let spec = root.at("spec");
        for finalizer in spec.items("finalizers") {
            let text = finalizer.as_text();
            let faults = names::qualified_name(text);
            if faults.is_empty() && !text.contains('/') && text != FINALIZER {
                let detail = "name is neither a standard finalizer name nor is it fully qualified";
                errors.push(finalizer.invalid(detail));
            }
            errors.extend(faults.into_iter().map(|fault| finalizer.invalid(fault)));
        }
        errors
    }

    fn validate_update(&self, namespace: &Value, _old: &Value, subresource: &str) -> Errors {
        if subresource != "status" {
            return self.validate(namespace);
        }
        let root = Field::root(namespace);
        let phase = text(namespace, &["status", "phase"]);
        let terminating = root.at("metadata").has("deletionTimestamp");
        let (wanted, detail) = match terminating {
            false => ("Active", "may only be 'Active' if `deletionTimestamp` is empty"),
            true => {
                ("Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty")
            }
        };
        if phase == wanted {
            return Errors::new();
        }
        vec![root.at("status").at("Phase").invalid_value(phase, detail)]
    }
}
