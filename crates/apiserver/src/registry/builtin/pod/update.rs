//! What may change in a pod that exists.
//!
//! Upstream: pkg/apis/core/validation/validation.go (ValidatePodUpdate)

use serde_json::{Value, json};

use super::super::difference;
use super::super::pod_spec::scheduling;
use crate::registry::checks::Errors;
use crate::registry::edit::{self, each_mut};
use crate::registry::field::Field;
use crate::registry::names;

const CHANGEABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,\
    `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
    `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub fn validate(spec: &Field<'_>, old: &Value, errors: &mut Errors) {
    let old = edit::at(old, &["spec"]);
    for kind in ["containers", "initContainers"] {
        if spec.count(kind) != edit::list(old, &[kind]).len() {
            let detail = "pod updates may not add or remove containers";
            return errors.push(spec.at(kind).forbidden(detail));
        }
    }
    validate_deadline(spec, old, errors);
    validate_tolerations(spec, old, errors);
    validate_scheduling_gates(spec, old, errors);
    if edit::same(spec.value, old) {
        return;
    }
    let mut allowed = spec.value.clone();
    undo_changeable(&mut allowed, old);
    if !edit::list(old, &["schedulingGates"]).is_empty() {
        validate_gated(spec, old, errors);
        undo_gated(&mut allowed, old);
    }
    if allowed != *old {
        let detail = format!(
            "pod updates may not change fields other than {CHANGEABLE}\n{}",
            difference::of(old, &allowed)
        );
        errors.push(spec.forbidden(detail));
    }
}

/// Makes all that may change as it was.
fn undo_changeable(spec: &mut Value, old: &Value) {
    for kind in ["containers", "initContainers"] {
        let old = edit::list(old, &[kind]);
        for (container, old) in each_mut(spec, &[kind]).zip(old) {
            edit::copy_field(container, old, "image");
        }
    }
    for name in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        edit::copy_field(spec, old, name);
    }
    let grace = |spec: &Value| edit::int(spec, &["terminationGracePeriodSeconds"]);
    if grace(old).is_some_and(|seconds| seconds < 0) && grace(spec) == Some(1) {
        edit::copy_field(spec, old, "terminationGracePeriodSeconds");
    }
}

fn validate_deadline(spec: &Field<'_>, old: &Value, errors: &mut Errors) {
    let deadline = spec.at("activeDeadlineSeconds");
    let old = edit::int(old, &["activeDeadlineSeconds"]);
    match (deadline.as_int(), old) {
        (Some(value), _) if !(0..=i64::from(i32::MAX)).contains(&value) => {
            errors.push(deadline.invalid(names::range(0, i64::from(i32::MAX))));
        }
        (Some(value), Some(old)) if old < value => {
            errors.push(deadline.invalid("must be less than or equal to previous value"));
        }
        (None, Some(_)) => {
            errors.push(deadline.invalid("must not update from a positive integer to nil value"));
        }
        _ => {}
    }
}

fn validate_tolerations(spec: &Field<'_>, old: &Value, errors: &mut Errors) {
    let timeless = |toleration: &Value| {
        let mut toleration = toleration.clone();
        edit::remove(&mut toleration, "tolerationSeconds");
        toleration
    };
    let new: Vec<Value> = spec.list("tolerations").iter().map(timeless).collect();
    if edit::list(old, &["tolerations"]).iter().any(|it| !new.contains(&timeless(it))) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        return errors.push(spec.at("tolerations").forbidden(detail));
    }
    scheduling::validate_tolerations(spec, errors);
}

fn validate_scheduling_gates(spec: &Field<'_>, old: &Value, errors: &mut Errors) {
    let old = edit::list(old, &["schedulingGates"]);
    for gate in spec.items("schedulingGates") {
        if !old.iter().any(|it| it.get("name") == gate.value.get("name")) {
            let name = gate.text("name");
            errors.push(gate.at("name").forbidden(format!(
                "only deletion is allowed, but found new scheduling gate '{name}'"
            )));
        }
    }
}

/// A pod that waits at a gate may be told more about where it should run.
fn validate_gated(spec: &Field<'_>, old: &Value, errors: &mut Errors) {
    let selector = spec.at("nodeSelector");
    for (key, value) in edit::map(old, &["nodeSelector"]).into_iter().flatten() {
        if selector.value.get(key) != Some(value) {
            let detail = "only additions to spec.nodeSelector are allowed (no mutations or \
                          deletions)";
            return errors.push(selector.invalid(detail));
        }
    }
}

fn undo_gated(spec: &mut Value, old: &Value) {
    edit::copy_field(spec, old, "nodeSelector");
    let had = edit::has(old, &["affinity"]);
    if let Some(affinity) = edit::object(spec, "affinity") {
        let old = edit::at(old, &["affinity"]);
        edit::copy_field(affinity, old, "nodeAffinity");
        if !had && *affinity == json!({}) {
            edit::remove(spec, "affinity");
        }
    }
}

/// Ephemeral containers are added, never changed or removed.
pub fn validate_ephemeral(spec: &Field<'_>, old: &Value, errors: &mut Errors) {
    let field = spec.at("ephemeralContainers");
    if edit::has(old, &["metadata", "annotations", super::MIRROR]) {
        errors.clear();
        let detail = "static pods do not support ephemeral containers";
        return errors.push(crate::field_error::FieldError::forbidden("[]", detail));
    }
    for container in edit::list(old, &["spec", "ephemeralContainers"]) {
        let name = edit::text(container, &["name"]);
        let kept = spec
            .list("ephemeralContainers")
            .iter()
            .find(|it| it.get("name") == container.get("name"));
        match kept {
            None => {
                errors.push(field.forbidden(format!(
                    "existing ephemeral containers {name:?} may not be removed\n"
                )))
            }
            Some(kept) if kept != container => errors.push(field.forbidden(format!(
                "existing ephemeral containers {name:?} may not be changed\n{}",
                difference::of(container, kept)
            ))),
            Some(_) => {}
        }
    }
}
