//! What the kinds that run pods from a template share.
//!
//! Upstream: pkg/apis/apps/validation/validation.go

use serde_json::Value;

use super::pod_spec;
use crate::registry::checks::{self, Errors};
use crate::registry::edit;
use crate::registry::field::Field;
use crate::registry::label_selector;

pub const MISMATCH: &str = "`selector` does not match template `labels`";

/// A selector is there, is no wildcard, and stays as it is.
pub fn validate_selector(spec: &Field<'_>, kind: &str, errors: &mut Errors) {
    let selector = spec.at("selector");
    if !selector.is_set() {
        return errors.push(selector.required(""));
    }
    label_selector::validate(&selector, errors);
    if label_selector::is_empty(selector.value) {
        errors.push(selector.invalid(format!("empty selector is invalid for {kind}")));
    }
}

/// The template of pods that run for ever: its labels match, and nothing ends them.
pub fn validate_template(spec: &Field<'_>, kind: &str, errors: &mut Errors) {
    let template = spec.at("template");
    let metadata = template.at("metadata");
    let selector = spec.raw("selector");
    if !label_selector::is_empty(selector)
        && !label_selector::matches(selector, metadata.raw("labels"))
    {
        errors.push(metadata.at("labels").invalid(MISMATCH));
    }
    pod_spec::validate_template(&template, errors);
    validate_endless(&template, kind, errors);
}

pub fn validate_endless(template: &Field<'_>, kind: &str, errors: &mut Errors) {
    let spec = template.at("spec");
    let restart = spec.at("restartPolicy");
    if restart.as_text() != "Always" {
        errors.push(restart.not_supported(&["Always"]));
    }
    let deadline = spec.at("activeDeadlineSeconds");
    if deadline.is_set() {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.push(deadline.forbidden(detail));
    }
}

pub fn validate_selector_update(root: &Field<'_>, old: &Value, errors: &mut Errors) {
    let selector = edit::at(old, &["spec", "selector"]);
    checks::immutable(&root.at("spec").at("selector"), selector, errors);
}

/// Numbers that a status counts with.
pub fn validate_counts(status: &Field<'_>, names: &[&str], errors: &mut Errors) {
    for name in names {
        checks::non_negative(&status.at(name), errors);
    }
    let replicas = status.int("replicas").unwrap_or(0);
    let details = [
        ("fullyLabeledReplicas", "cannot be greater than status.replicas"),
        ("readyReplicas", "cannot be greater than status.replicas"),
        ("availableReplicas", "cannot be greater than status.replicas"),
        ("updatedReplicas", "cannot be greater than status.replicas"),
    ];
    for (name, detail) in details {
        let count = status.at(name);
        if names.contains(&name) && count.as_int().is_some_and(|count| count > replicas) {
            errors.push(count.invalid(detail));
        }
    }
    let available = status.at("availableReplicas");
    let ready = status.int("readyReplicas").unwrap_or(0);
    if names.contains(&"availableReplicas") && available.as_int().is_some_and(|it| it > ready) {
        errors.push(available.invalid("cannot be greater than readyReplicas"));
    }
}

/// The warnings of a template, when it is new.
pub fn warnings(object: &Value, old: Option<&Value>, path: &[&str]) -> Vec<String> {
    if old.is_some_and(|old| edit::at(old, path) == edit::at(object, path)) {
        return Vec::new();
    }
    warn_at(&Field::root(object), path)
}

fn warn_at(field: &Field<'_>, path: &[&str]) -> Vec<String> {
    match path {
        [] => pod_spec::warnings::of_spec(field),
        [name, rest @ ..] => warn_at(&field.at(name), rest),
    }
}
