//! Changing the requests and limits of a pod that runs.
//!
//! Upstream: pkg/apis/core/validation/validation.go (ValidatePodResize)

use serde_json::{Value, json};

use super::qos;
use crate::field_error::FieldError;
use crate::registry::amount;
use crate::registry::checks::Errors;
use crate::registry::edit::{self, each_mut};
use crate::registry::field::Field;

/// Nothing but resources and resize policies is taken from the new pod.
pub fn prepare(pod: &mut Value, old: &Value) {
    let new = pod.get("spec").cloned().unwrap_or(json!({}));
    let mut spec = old.get("spec").cloned().unwrap_or(json!({}));
    for kind in ["containers", "initContainers"] {
        let wanted = edit::list(&new, &[kind]);
        for container in each_mut(&mut spec, &[kind]) {
            let same = |it: &&Value| it.get("name") == container.get("name");
            let Some(wanted) = wanted.iter().find(same) else { continue };
            edit::copy_field(container, wanted, "resources");
            edit::copy_field(container, wanted, "resizePolicy");
        }
    }
    edit::set(pod, "spec", spec);
}

pub fn validate(root: &Field<'_>, old: &Value, errors: &mut Errors) {
    let refused = |what: &str| vec![FieldError::forbidden("[]", what)];
    if edit::has(old, &["metadata", "annotations", super::MIRROR]) {
        *errors = refused("static pods cannot be resized");
        return;
    }
    if edit::text(old, &["spec", "os", "name"]) == "windows" {
        *errors = refused("windows pods cannot be resized");
        return;
    }
    let spec = root.at("spec");
    let class = qos::class(root.value);
    if class != edit::text(old, &["status", "qosClass"]) {
        let detail = "Pod QOS Class may not change as a result of resizing";
        errors.push(spec.invalid_value(class, detail));
    }
    for kind in ["containers", "initContainers"] {
        let old = edit::list(old, &["spec", kind]);
        for (container, old) in spec.items(kind).zip(old) {
            let sidecar = container.text("restartPolicy") == "Always";
            if kind == "containers" || sidecar {
                validate_container(&container, old, errors);
            } else if container.raw("resources") != edit::at(old, &["resources"]) {
                let detail = "resources for non-sidecar init containers are immutable";
                errors.push(spec.forbidden(detail));
            }
            if others_differ(&container, old) {
                errors.push(spec.forbidden("only cpu and memory resources are mutable"));
            }
        }
    }
}

fn others_differ(container: &Field<'_>, old: &Value) -> bool {
    let others = |resources: &Value| {
        let mut resources = resources.clone();
        for list in ["requests", "limits"] {
            if let Some(amounts) = edit::at_mut(&mut resources, &[list]) {
                edit::remove(amounts, "cpu");
                edit::remove(amounts, "memory");
            }
        }
        resources
    };
    let stripped = |list: &str, of: &Value| edit::at(&others(of), &[list]).clone();
    let (new, old) = (container.raw("resources"), edit::at(old, &["resources"]));
    ["requests", "limits"]
        .iter()
        .any(|list| !edit::same(&stripped(list, new), &stripped(list, old)))
}

fn validate_container(container: &Field<'_>, old: &Value, errors: &mut Errors) {
    let resources = container.at("resources");
    for (list, what) in [("requests", "requests"), ("limits", "limits")] {
        let gone = |(name, _): (&String, &Value)| !edit::has(resources.value, &[list, name]);
        if edit::map(old, &["resources", list]).into_iter().flatten().any(gone) {
            let detail = format!("resource {what} cannot be removed");
            errors.push(resources.at(list).forbidden(detail));
        }
    }
    let restarts = container.list("resizePolicy").iter().any(|policy| {
        edit::text(policy, &["resourceName"]) == "memory"
            && edit::text(policy, &["restartPolicy"]) == "RestartContainer"
    });
    let limit = resources.key("limits", "memory");
    let old = amount::read(edit::at(old, &["resources", "limits", "memory"]));
    if !restarts && limit.is_set() && old.is_none() {
        let detail = "memory limits cannot be added unless resizePolicy is RestartContainer";
        errors.push(limit.forbidden(detail));
    }
}
