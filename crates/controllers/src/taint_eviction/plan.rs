//! When a pod has to go.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::conditions::{self, Condition, Truth};
use reconcile::plan::{Notice, Target};
use reconcile::{Object, Plan, Wake};
use serde_json::{Value, json};

use super::observe::{Observed, Taint};
use crate::kinds::POD;

/// When a pod leaves a node for its taints.
#[derive(Debug, PartialEq)]
enum Leave {
    Never,
    AtOnce,
    After(Duration),
}

pub fn plan(pod: &Object, observed: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::nothing();
    if pod.is_terminating() {
        return plan;
    }
    let tolerations = pod.value["spec"]["tolerations"].as_array().map_or(&[][..], Vec::as_slice);
    let leaves = match leave(tolerations, &observed.taints) {
        Leave::Never => false,
        Leave::AtOnce => true,
        Leave::After(after) => {
            plan.wake = Wake::After(after);
            false
        }
    };
    let before = pod.value["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let mut after = before.clone();
    if observed.is_unheard {
        not_ready(&mut after, now);
    }
    if leaves {
        let disrupted = Condition {
            kind: "DisruptionTarget",
            status: Truth::True,
            reason: "DeletionByTaintManager",
            message: "Taint manager: deleting due to NoExecute taint",
            observed_generation: Some(pod.generation()),
        };
        conditions::set(&mut after, &disrupted, now);
    }
    if after != before {
        let patch = json!({"status": {"conditions": after}});
        plan.patch(Target::unchanged(POD, pod).part("status"), patch);
    }
    if leaves {
        plan.delete(Target::of(POD, pod));
        let message = format!("Marking for deletion Pod {}", pod.name);
        plan.notices.push(Notice::normal("TaintManagerEviction", message));
    }
    plan
}

/// Nobody is there to say it of the pod itself.
fn not_ready(conditions: &mut [Value], now: Timestamp) {
    for condition in conditions {
        if condition["type"] == "Ready" && condition["status"] == "True" {
            condition["status"] = json!("False");
            condition["lastTransitionTime"] = json!(conditions::time(now));
        }
    }
}

/// A pod stays as long as it tolerates every taint; of several limits the first counts.
fn leave(tolerations: &[Value], taints: &[Taint]) -> Leave {
    let mut first = Leave::Never;
    for taint in taints {
        let Some(toleration) = tolerations.iter().find(|it| tolerates(it, taint)) else {
            return Leave::AtOnce;
        };
        let Some(seconds) = toleration["tolerationSeconds"].as_i64() else { continue };
        let tolerated = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        let left = tolerated.saturating_sub(taint.age);
        if left.is_zero() {
            return Leave::AtOnce;
        }
        first = match first {
            Leave::After(earlier) => Leave::After(earlier.min(left)),
            _ => Leave::After(left),
        };
    }
    first
}

fn tolerates(toleration: &Value, taint: &Taint) -> bool {
    let text = |field: &str| toleration[field].as_str().unwrap_or_default();
    let is_effect = matches!(text("effect"), "" | "NoExecute");
    let is_key = text("key").is_empty() || text("key") == taint.key;
    let is_value = match text("operator") {
        "Exists" => true,
        _ => text("value") == taint.value,
    };
    is_effect && is_key && is_value
}
