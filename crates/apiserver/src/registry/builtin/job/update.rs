//! What may change in a job.
//!
//! Upstream: pkg/apis/batch/validation/validation.go (ValidateJobSpecUpdate, status updates)

use serde_json::Value;

use super::{may_be_placed, undo_placement};
use crate::registry::checks::{self, Errors};
use crate::registry::edit;
use crate::registry::field::Field;

pub fn validate(root: &Field<'_>, old: &Value, errors: &mut Errors) {
    let spec = root.at("spec");
    let placed = may_be_placed(old);
    let old = edit::at(old, &["spec"]);
    let was = |name: &str| edit::at(old, &[name]);
    validate_completions(&spec, old, errors);
    checks::immutable(&spec.at("selector"), was("selector"), errors);
    let template = spec.at("template");
    let mut same = template.value.clone();
    if placed {
        undo_placement(&mut same, was("template"));
    }
    if same != *was("template") {
        errors.push(template.invalid(checks::IMMUTABLE));
    }
    let fixed = [
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ];
    for name in fixed {
        checks::immutable(&spec.at(name), was(name), errors);
    }
}

/// An indexed job grows and shrinks when its parallelism does.
fn validate_completions(spec: &Field<'_>, old: &Value, errors: &mut Errors) {
    let completions = spec.at("completions");
    let was = edit::at(old, &["completions"]);
    if completions.value == was {
        return;
    }
    let elastic = spec.text("completionMode") == "Indexed"
        && completions.is_set()
        && !was.is_null()
        && completions.value == spec.raw("parallelism");
    if !elastic {
        let detail = match spec.text("completionMode") {
            "Indexed" => "can only be modified in tandem with spec.parallelism",
            _ => checks::IMMUTABLE,
        };
        errors.push(completions.invalid(detail));
    }
}

fn condition(status: &Value, kind: &str) -> bool {
    let holds =
        |it: &&Value| edit::text(it, &["type"]) == kind && edit::text(it, &["status"]) == "True";
    edit::list(status, &["conditions"]).iter().find(holds).is_some()
}

/// A job that is over stays so, and is over in one way only.
pub fn validate_status(root: &Field<'_>, old: &Value, errors: &mut Errors) {
    let status = root.at("status");
    for name in ["active", "succeeded", "failed", "ready", "terminating"] {
        checks::non_negative(&status.at(name), errors);
    }
    let old = edit::at(old, &["status"]);
    let conditions = status.at("conditions");
    for kind in ["Complete", "Failed"] {
        if condition(old, kind) && !condition(status.value, kind) {
            let detail = format!("cannot disable the terminal {kind} condition");
            errors.push(conditions.invalid(detail));
        }
    }
    if condition(status.value, "Complete") && condition(status.value, "Failed") {
        let detail = "cannot set Complete=True and Failed=true conditions";
        errors.push(conditions.invalid(detail));
    }
    let completion = status.at("completionTime");
    if completion.is_set() && !condition(status.value, "Complete") {
        let detail = "cannot set completionTime when there is no Complete=True condition";
        errors.push(completion.invalid(detail));
    }
    if edit::has(old, &["completionTime"]) && completion.value != edit::at(old, &["completionTime"])
    {
        errors.push(completion.invalid(checks::IMMUTABLE));
    }
}
