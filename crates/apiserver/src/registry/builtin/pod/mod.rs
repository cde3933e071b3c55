//! Pods.
//!
//! Upstream: pkg/registry/core/pod/strategy.go, pkg/apis/core/validation/validation.go

use serde_json::{Value, json};

use super::pod_spec::{self, Within, defaults, warnings};
use crate::registry::checks::Errors;
use crate::registry::edit::{self, object, text};
use crate::registry::field::Field;
use crate::registry::strategy::{Context, DeleteRequest, Deletion, Properties, Strategy};

mod match_label_keys;
pub mod qos;
mod resize;
mod status;
mod update;

pub struct Pod;

impl Strategy for Pod {
    fn properties(&self) -> Properties {
        Properties { returns_deleted_object: true, ..Properties::WITH_STATUS_AND_GENERATION }
    }

    fn default(&self, pod: &mut Value) {
        if let Some(spec) = object(pod, "spec") {
            defaults::default_spec(spec);
            defaults::default_pod_only(spec);
        }
    }

    fn prepare_create(&self, pod: &mut Value, _context: &Context<'_>) {
        let mut status = json!({"phase": "Pending", "qosClass": qos::class(pod)});
        if !edit::list(pod, &["spec", "schedulingGates"]).is_empty() {
            edit::set(&mut status, "conditions", json!([gated()]));
        }
        edit::set(pod, "status", status);
        match_label_keys::apply(pod);
    }

    fn prepare_update(&self, pod: &mut Value, old: &Value, context: &Context<'_>) {
        match context.subresource {
            "status" => status::prepare(pod, old),
            "ephemeralcontainers" => keep_all_but(pod, old, &["ephemeralContainers"]),
            "resize" => resize::prepare(pod, old),
            _ => {}
        }
    }

    fn validate(&self, pod: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(pod);
        let spec = root.at("spec");
        validate_annotations(&root, &mut errors);
        pod_spec::validate(&spec, root.raw("metadata"), Within::Pod, &mut errors);
        if spec.count("ephemeralContainers") > 0 {
            errors.push(spec.at("ephemeralContainers").forbidden("cannot be set on create"));
        }
        if !spec.text("nodeName").is_empty() && spec.count("schedulingGates") > 0 {
            let detail = "cannot be set until all schedulingGates have been cleared";
            errors.push(spec.at("nodeName").forbidden(detail));
        }
        errors
    }

    fn validate_update(&self, pod: &Value, old: &Value, subresource: &str) -> Errors {
        let root = Field::root(pod);
        let mut errors = Errors::new();
        if subresource == "status" {
            status::validate(&root, old, &mut errors);
            return errors;
        }
        let spec = root.at("spec");
        validate_annotations(&root, &mut errors);
        pod_spec::validate(&spec, root.raw("metadata"), Within::Pod, &mut errors);
        match subresource {
            "ephemeralcontainers" => update::validate_ephemeral(&spec, old, &mut errors),
            "resize" => resize::validate(&root, old, &mut errors),
            _ => update::validate(&spec, old, &mut errors),
        }
        errors
    }

    fn warnings(&self, pod: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some_and(|old| old.get("spec") == pod.get("spec")) {
            return Vec::new();
        }
        warnings::of_spec(&Field::root(pod).at("spec"))
    }

    /// The longest of what was asked for; a pod that runs nowhere needs no time.
    fn deletion(&self, pod: &Value, request: &DeleteRequest) -> Deletion {
        let own = edit::int(pod, &["spec", "terminationGracePeriodSeconds"]);
        let over = ["Succeeded", "Failed"].contains(&text(pod, &["status", "phase"]));
        let seconds = match request.grace_period_seconds.or(own).unwrap_or(0) {
            _ if over || text(pod, &["spec", "nodeName"]).is_empty() => 0,
            ..0 => 1,
            seconds => seconds,
        };
        if seconds == 0 { Deletion::Now } else { Deletion::Graceful { seconds } }
    }
}

fn gated() -> Value {
    json!({
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": null,
        "lastTransitionTime": null,
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    })
}

/// The old pod with some fields of the new one's specification.
fn keep_all_but(pod: &mut Value, old: &Value, fields: &[&str]) {
    let mut kept = old.get("spec").cloned().unwrap_or(json!({}));
    for field in fields {
        edit::copy_field(&mut kept, edit::at(pod, &["spec"]), field);
    }
    edit::set(pod, "spec", kept);
}

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const MIRROR: &str = "kubernetes.io/config.mirror";

fn validate_annotations(root: &Field<'_>, errors: &mut Errors) {
    let metadata = root.at("metadata");
    let mirror = metadata.key("annotations", MIRROR);
    if mirror.is_set() && edit::text(root.value, &["spec", "nodeName"]).is_empty() {
        errors.push(mirror.invalid("must set spec.nodeName if mirror pod annotation is set"));
    }
    let cost = metadata.key("annotations", DELETION_COST);
    let plain = |text: &str| !text.starts_with('+') && text.parse::<i32>().is_ok();
    if cost.is_set() && !plain(cost.as_text()) {
        errors.push(cost.invalid("must be a 32bit integer"));
    }
}
