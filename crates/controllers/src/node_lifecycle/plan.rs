//! Which taints a node has.

use k8s_openapi::jiff::Timestamp;
use reconcile::plan::{Notice, Target};
use reconcile::{Object, Plan, Wake, conditions};
use serde_json::{Value, json};

use super::observe::{Eviction, Observed};
use super::status;
use crate::kinds::NODE;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Conditions that keep pods away while they are true.
const BY_CONDITION: [(&str, &str); 4] = [
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
];

pub fn plan(node: &Object, observed: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::nothing();
    if observed.silence >= observed.grace
        && let Some(status) = status::unknown(node, now)
    {
        // What follows from it is decided when the node says so.
        plan.status = Some(status);
        if conditions::is_true(&node.value["status"], "Ready") {
            let message = format!("Node {} status is now: NodeNotReady", node.name);
            plan.notices.push(Notice::normal("NodeNotReady", message));
        }
        return plan;
    }
    let wanted = wanted(node, observed.eviction);
    let taints = changed(node, &wanted, now);
    if let Some(taints) = taints {
        let patch = json!({"spec": {"taints": taints}});
        plan.patch(Target::unchanged(NODE, node), patch);
    }
    plan.wake = wake(node, observed);
    plan
}

/// When the grace period ends, or the turn of the node comes.
fn wake(node: &Object, observed: &Observed) -> Wake {
    let turn = match observed.eviction {
        Eviction::After(after) => Wake::After(after),
        Eviction::Now | Eviction::Held | Eviction::Suspended => Wake::OnChange,
    };
    let is_silent = observed.silence >= observed.grace;
    let end = match readiness(node) {
        // It stays as it is until the node speaks.
        _ if is_silent => Wake::OnChange,
        "Unknown" => Wake::OnChange,
        _ => Wake::After(observed.grace - observed.silence),
    };
    turn.or_earlier(end)
}

/// A taint of ours: its key and effect.
type Taint = (&'static str, &'static str);

/// The status of the condition Ready; empty before the node first reported.
fn readiness(node: &Object) -> &str {
    let ready = conditions::find(&node.value["status"], "Ready");
    ready.and_then(|ready| ready["status"].as_str()).unwrap_or_default()
}

fn wanted(node: &Object, eviction: Eviction) -> Vec<Taint> {
    let mut wanted: Vec<Taint> = Vec::new();
    let lost = match readiness(node) {
        "True" => None,
        "Unknown" => Some(UNREACHABLE),
        // A node that has never reported is not ready.
        _ => Some(NOT_READY),
    };
    if let Some(key) = lost {
        wanted.push((key, "NoSchedule"));
        let has_begun =
            has(node, (NOT_READY, "NoExecute")) || has(node, (UNREACHABLE, "NoExecute"));
        let drives_away = match eviction {
            Eviction::Now => true,
            Eviction::After(_) | Eviction::Held => has_begun,
            Eviction::Suspended => false,
        };
        let is_reported = !readiness(node).is_empty();
        if drives_away && is_reported {
            wanted.push((key, "NoExecute"));
        }
    }
    for (condition, key) in BY_CONDITION {
        if conditions::is_true(&node.value["status"], condition) {
            wanted.push((key, "NoSchedule"));
        }
    }
    if node.value["spec"]["unschedulable"] == json!(true) {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    wanted
}

fn taints(node: &Object) -> &[Value] {
    node.value["spec"]["taints"].as_array().map_or(&[], Vec::as_slice)
}

fn is(taint: &Value, (key, effect): Taint) -> bool {
    taint["key"] == key && taint["effect"] == effect
}

fn has(node: &Object, wanted: Taint) -> bool {
    taints(node).iter().any(|taint| is(taint, wanted))
}

/// Whether a taint is ours to set and to take away.
fn is_ours(taint: &Value) -> bool {
    let keys = BY_CONDITION.iter().map(|(_, key)| *key);
    let lost = [NOT_READY, UNREACHABLE];
    keys.chain(lost).chain([UNSCHEDULABLE]).any(|key| is(taint, (key, "NoSchedule")))
        || lost.iter().any(|key| is(taint, (key, "NoExecute")))
}

/// The taints of the node with ours as they are wanted; `None` if they are so.
fn changed(node: &Object, wanted: &[Taint], now: Timestamp) -> Option<Vec<Value>> {
    let stays = |taint: &Value| !is_ours(taint) || wanted.iter().any(|one| is(taint, *one));
    let mut all: Vec<Value> = taints(node).iter().filter(|taint| stays(taint)).cloned().collect();
    for (key, effect) in wanted.iter().filter(|one| !has(node, **one)) {
        all.push(json!({"key": key, "effect": effect, "timeAdded": conditions::time(now)}));
    }
    (all != taints(node)).then_some(all)
}
