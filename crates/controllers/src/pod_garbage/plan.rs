//! Which pods go.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::conditions::{self, Condition, Truth};
use reconcile::plan::{Deletion, Target};
use reconcile::{Object, Plan, Step, Wake};
use serde_json::{Value, json};

use super::observe::Home;
use crate::kinds::POD;
use crate::pods;

/// How long a node may be missing before its pods go: it may just be registered anew.
const QUARANTINE_SECONDS: i64 = 40;

pub fn plan(pod: &Object, home: &Home, now: Timestamp) -> Plan {
    let mut plan = Plan::nothing();
    match home {
        Home::None | Home::OutOfService if pod.is_terminating() => end(&mut plan, pod, None, now),
        Home::Missing(since) => {
            let left = since.as_second() + QUARANTINE_SECONDS - now.as_second();
            if left > 0 {
                plan.wake = Wake::After(Duration::from_secs(left.unsigned_abs()));
            } else {
                end(&mut plan, pod, Some("PodGC: node no longer exists"), now);
            }
        }
        Home::None | Home::OutOfService | Home::There => {}
    }
    plan
}

/// Says that the pod has failed, for those who count it, and removes it.
fn end(plan: &mut Plan, pod: &Object, why: Option<&str>, now: Timestamp) {
    if !pods::is_finished(pod) {
        let status = failed(pod, why, now);
        let target = Target::unchanged(POD, pod).part("status");
        plan.patch(target, json!({"status": status}));
    }
    if !is_only_held(pod) {
        let options = Deletion { grace_seconds: Some(0), propagation: None };
        plan.steps.push(Step::Delete { target: Target::of(POD, pod), options });
    }
}

fn failed(pod: &Object, why: Option<&str>, now: Timestamp) -> Value {
    let mut status = json!({"phase": "Failed"});
    if let Some(message) = why {
        let known = pod.value["status"]["conditions"].as_array();
        let mut conditions = known.cloned().unwrap_or_default();
        let condition = Condition {
            kind: "DisruptionTarget",
            status: Truth::True,
            reason: "DeletionByPodGC",
            message,
            observed_generation: None,
        };
        conditions::set(&mut conditions, &condition, now);
        status["conditions"] = json!(conditions);
    }
    status
}

/// Whether the pod is deleted already and waits for nothing but its finalizers.
fn is_only_held(pod: &Object) -> bool {
    pod.is_terminating() && pod.value["metadata"]["deletionGracePeriodSeconds"] == 0
}
