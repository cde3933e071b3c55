//! What the node may write into a pod's status.
//!
//! Upstream: pkg/registry/core/pod/strategy.go (podStatusStrategy), ValidatePodStatusUpdate

use serde_json::{Value, json};

use crate::registry::checks::{self, Errors};
use crate::registry::edit;
use crate::registry::field::Field;
use crate::registry::names;

pub fn prepare(pod: &mut Value, old: &Value) {
    if let Some(metadata) = edit::object(pod, "metadata") {
        edit::copy_field(metadata, edit::at(old, &["metadata"]), "ownerReferences");
    }
    let Some(status) = edit::object(pod, "status") else { return };
    if edit::text(status, &["qosClass"]).is_empty() {
        edit::copy_field(status, edit::at(old, &["status"]), "qosClass");
    }
    mirror_address(status, "podIP", "podIPs");
}

/// The one address and the first of the list are the same.
fn mirror_address(status: &mut Value, one: &str, many: &str) {
    let single = edit::text(status, &[one]).to_owned();
    let first = edit::list(status, &[many]).first();
    let first = first.map(|it| edit::text(it, &["ip"]).to_owned()).unwrap_or_default();
    match (single.is_empty(), first.is_empty()) {
        (false, true) => edit::set(status, many, json!([{"ip": single}])),
        (true, false) => edit::set(status, one, first),
        (false, false) if single != first => edit::set(status, many, json!([{"ip": single}])),
        _ => {}
    }
}

pub fn validate(root: &Field<'_>, old: &Value, errors: &mut Errors) {
    let status = root.at("status");
    let metadata = root.at("metadata");
    for (index, condition) in status.items("conditions").enumerate() {
        let kind = condition.text("type");
        if ["PodScheduled", "Ready", "Initialized"].contains(&kind) {
            continue;
        }
        // Upstream says metadata here, though conditions are in the status.
        let path = format!("{}.conditions[{index}].Type", metadata.path());
        for fault in names::qualified_name(kind) {
            errors.push(crate::field_error::FieldError::invalid(path.clone(), kind, fault));
        }
    }
    let nominated = status.at("nominatedNodeName");
    checks::absent_or_named(&nominated, names::subdomain, errors);
    let class = edit::at(old, &["status", "qosClass"]);
    checks::immutable(&status.at("qosClass"), class, errors);
    let restart = edit::text(old, &["spec", "restartPolicy"]);
    let old = edit::at(old, &["status"]);
    validate_states(&status, old, ("containerStatuses", restart), errors);
    validate_states(&status, old, ("initContainerStatuses", restart), errors);
    validate_states(&status, old, ("ephemeralContainerStatuses", "Never"), errors);
    for list in ["podIPs", "hostIPs"] {
        validate_addresses(&status, list, errors);
    }
}

/// What ended for good does not run again.
fn validate_states(
    status: &Field<'_>,
    old: &Value,
    (list, restart): (&str, &str),
    errors: &mut Errors,
) {
    if restart == "Always" {
        return;
    }
    let terminated = |status: &Value| edit::has(status, &["state", "terminated"]);
    for (index, old) in edit::list(old, &[list]).iter().enumerate() {
        let code = edit::int(old, &["state", "terminated", "exitCode"]).unwrap_or(0);
        if !terminated(old) || (code != 0 && restart == "OnFailure") {
            continue;
        }
        let same = |new: &&Value| new.get("name") == old.get("name");
        let new = status.list(list).iter().find(same);
        if new.is_some_and(|new| !terminated(new)) {
            let path = format!("{}.{list}[{index}].state", status.path());
            let detail = "may not be transitioned to non-terminated state";
            errors.push(crate::field_error::FieldError::forbidden(path, detail));
        }
    }
}

fn validate_addresses(status: &Field<'_>, list: &str, errors: &mut Errors) {
    let mut seen: Vec<&str> = Vec::new();
    for address in status.items(list) {
        let text = address.text("ip");
        if let Some(fault) = names::address(text) {
            errors.push(address.invalid_value(text, fault));
        }
        if seen.contains(&text) {
            errors.push(address.duplicate());
        }
        seen.push(text);
    }
    let families = seen.iter().filter(|it| names::is_ipv6(it)).count();
    if seen.len() > 2 || (seen.len() == 2 && families != 1) {
        let detail = "may specify no more than one IP for each IP family";
        errors.push(status.at(list).invalid(detail));
    }
}
