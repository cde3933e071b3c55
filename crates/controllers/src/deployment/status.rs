//! What a Deployment says of its rollout.
//!
//! Upstream: pkg/controller/deployment/progress.go, util/deployment_util.go

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::conditions::time;
use reconcile::{Object, Wake};
use serde_json::{Value, json};

use super::observe::Observed;
use super::rollout::Rollout;
use crate::options::Match;
use crate::pods;

const COMPLETE: &str = "NewReplicaSetAvailable";
const LATE: &str = "ProgressDeadlineExceeded";

/// Pods of nobody's that count as replicas.
#[derive(Debug, Default)]
pub struct Provided {
    pub replicas: i64,
    ready: i64,
    available: i64,
}

pub fn provided(
    observed: &Observed,
    matching: Match,
    deployment: &Object,
    now: Timestamp,
) -> Provided {
    if matching != Match::Labels {
        return Provided::default();
    }
    let seconds = deployment.value["spec"]["minReadySeconds"].as_i64().unwrap_or(0);
    let count = |holds: &dyn Fn(&Object) -> bool| {
        i64::try_from(observed.loose.iter().filter(|pod| holds(pod)).count()).unwrap_or(i64::MAX)
    };
    Provided {
        replicas: count(&|_| true),
        ready: count(&pods::is_ready),
        available: count(&|pod| pods::is_available(pod, seconds, now)),
    }
}

/// The whole status; the conditions are those of the rollout.
pub fn status(rollout: &mut Rollout<'_>, provided: &Provided, is_rollout: bool) -> Value {
    let mut status = counts(rollout, provided);
    note_availability(rollout, &status, provided);
    if is_rollout {
        note_progress(rollout, &status);
        note_failures(rollout);
    }
    if !rollout.conditions.is_empty() {
        status["conditions"] = json!(rollout.conditions);
    }
    status
}

fn counts(rollout: &Rollout<'_>, provided: &Provided) -> Value {
    let replicas = rollout.sum("replicas") + provided.replicas;
    let available = rollout.sum("availableReplicas") + provided.available;
    let updated = rollout.new_set().map_or(0, |set| set.count("replicas")) + provided.replicas;
    let mut status = json!({"observedGeneration": rollout.deployment.generation()});
    // Zero is how the API says nothing.
    for (field, number) in [
        ("replicas", replicas),
        ("updatedReplicas", updated),
        ("readyReplicas", rollout.sum("readyReplicas") + provided.ready),
        ("availableReplicas", available),
        ("unavailableReplicas", replicas - available),
    ] {
        if number > 0 {
            status[field] = json!(number);
        }
    }
    let going = rollout.sets.iter().filter_map(|set| set.object());
    let going: Option<i64> =
        going.map(|set| set.value["status"]["terminatingReplicas"].as_i64()).sum();
    if let Some(going) = going {
        status["terminatingReplicas"] = json!(going);
    }
    let collisions = &rollout.deployment.value["status"]["collisionCount"];
    if !collisions.is_null() {
        status["collisionCount"] = collisions.clone();
    }
    status
}

fn note_availability(rollout: &mut Rollout<'_>, status: &Value, provided: &Provided) {
    let enough = rollout.spec.replicas + provided.replicas - rollout.spec.unavailable();
    let condition = if number(status, "availableReplicas") >= enough {
        let message = "Deployment has minimum availability.";
        condition("Available", "True", "MinimumReplicasAvailable", message)
    } else {
        let message = "Deployment does not have minimum availability.";
        condition("Available", "False", "MinimumReplicasUnavailable", message)
    };
    set(&mut rollout.conditions, condition, rollout.now);
}

/// A rollout that rests by its user's wish makes no progress and misses no deadline.
pub fn note_pause(rollout: &mut Rollout<'_>) {
    if rollout.spec.deadline_seconds.is_none() {
        return;
    }
    let reason = find(&rollout.conditions, "Progressing").map(|found| found["reason"].clone());
    let reason = reason.as_ref().and_then(Value::as_str).unwrap_or_default();
    let note = match (rollout.spec.is_paused, reason) {
        (_, LATE) | (true, "DeploymentPaused") => return,
        (true, _) => progressing("Unknown", "DeploymentPaused", "Deployment is paused"),
        (false, "DeploymentPaused") => {
            progressing("Unknown", "DeploymentResumed", "Deployment is resumed")
        }
        (false, _) => return,
    };
    set(&mut rollout.conditions, note, rollout.now);
}

fn note_progress(rollout: &mut Rollout<'_>, status: &Value) {
    let Some(deadline) = rollout.spec.deadline_seconds else {
        rollout.conditions.retain(|condition| condition["type"] != "Progressing");
        return;
    };
    let subject = match rollout.new_set() {
        Some(set) => format!("ReplicaSet {:?}", set.name),
        None => format!("Deployment {:?}", &*rollout.deployment.name.name),
    };
    let done = format!("{subject} has successfully progressed.");
    let current = find(&rollout.conditions, "Progressing").cloned();
    let is_done = current.as_ref().is_some_and(|current| {
        current["reason"] == COMPLETE && current["message"] == done.as_str()
    });
    if is_done && number(status, "replicas") == number(status, "updatedReplicas") {
        return;
    }
    if is_complete(rollout, status) {
        set(&mut rollout.conditions, progressing("True", COMPLETE, &done), rollout.now);
    } else if is_progress(&rollout.deployment.value["status"], status) {
        let message = format!("{subject} is progressing.");
        let note = progressing("True", "ReplicaSetUpdated", &message);
        renew(&mut rollout.conditions, note, rollout.now);
    } else if current.is_some_and(|current| is_late(&current, deadline, rollout.now)) {
        let message = format!("{subject} has timed out progressing.");
        set(&mut rollout.conditions, progressing("False", LATE, &message), rollout.now);
    }
}

/// The failures of ReplicaSets are those of their Deployment, the new one's first.
fn note_failures(rollout: &mut Rollout<'_>) {
    let failure = |set: &super::sets::Set<'_>| {
        let object = set.object()?;
        reconcile::conditions::find(&object.value["status"], "ReplicaFailure").cloned()
    };
    let new = rollout.new_set().and_then(failure);
    let found = new.or_else(|| rollout.sets.iter().find_map(failure));
    match found {
        None => rollout.conditions.retain(|condition| condition["type"] != "ReplicaFailure"),
        Some(found) => {
            let text = |field: &str| found[field].as_str().unwrap_or_default();
            let (state, reason, message) = (text("status"), text("reason"), text("message"));
            let note = condition("ReplicaFailure", state, reason, message);
            set(&mut rollout.conditions, note, rollout.now);
        }
    }
}

/// Whether all pods are of the new template, available, and no others are left.
pub fn is_complete(rollout: &Rollout<'_>, status: &Value) -> bool {
    let wanted = rollout.deployment.value["spec"]["replicas"].as_i64().unwrap_or(1).max(0);
    let counts = ["updatedReplicas", "replicas", "availableReplicas"];
    counts.iter().all(|field| number(status, field) == wanted)
        && number(status, "observedGeneration") >= rollout.deployment.generation()
}

fn is_progress(before: &Value, after: &Value) -> bool {
    let old = |status: &Value| number(status, "replicas") - number(status, "updatedReplicas");
    let grows = ["updatedReplicas", "readyReplicas", "availableReplicas"];
    old(after) < old(before)
        || grows.iter().any(|field| number(after, field) > number(before, field))
}

fn is_late(current: &Value, deadline: i64, now: Timestamp) -> bool {
    match current["reason"].as_str() {
        Some(COMPLETE) => false,
        Some(LATE) => true,
        _ => updated(current).is_some_and(|at| at + deadline < now.as_second()),
    }
}

/// When a rollout that makes no progress is late, nothing else may happen.
pub fn wake(rollout: &Rollout<'_>, status: &Value) -> Wake {
    let Some(deadline) = rollout.spec.deadline_seconds else { return Wake::OnChange };
    let Some(current) = find(&rollout.conditions, "Progressing") else { return Wake::OnChange };
    let is_over = matches!(current["reason"].as_str(), Some(COMPLETE | LATE));
    if is_over || rollout.spec.is_paused || is_complete(rollout, status) {
        return Wake::OnChange;
    }
    let at = updated(current).unwrap_or(rollout.now.as_second()) + deadline + 1;
    let left = (at - rollout.now.as_second()).max(1);
    Wake::After(Duration::from_secs(left.unsigned_abs()))
}

fn updated(condition: &Value) -> Option<i64> {
    let at = condition["lastUpdateTime"].as_str()?.parse::<Timestamp>().ok()?;
    Some(at.as_second())
}

fn number(status: &Value, field: &str) -> i64 {
    status[field].as_i64().unwrap_or(0)
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message})
}

pub fn progressing(status: &str, reason: &str, message: &str) -> Value {
    condition("Progressing", status, reason, message)
}

pub fn find<'a>(conditions: &'a [Value], kind: &str) -> Option<&'a Value> {
    conditions.iter().find(|condition| condition["type"] == kind)
}

/// Sets a condition, unless it says the same already.
pub fn set(conditions: &mut Vec<Value>, condition: Value, now: Timestamp) {
    let kind = condition["type"].as_str().unwrap_or_default();
    let is_same = find(conditions, kind).is_some_and(|found| {
        ["status", "reason", "message"].iter().all(|field| found[field] == condition[field])
    });
    if !is_same {
        renew(conditions, condition, now);
    }
}

/// Sets a condition and the time it was last heard of; the time of the transition changes only
/// with the status.
fn renew(conditions: &mut Vec<Value>, mut condition: Value, now: Timestamp) {
    condition["lastUpdateTime"] = json!(time(now));
    condition["lastTransitionTime"] = json!(time(now));
    match conditions.iter_mut().find(|found| found["type"] == condition["type"]) {
        Some(found) => {
            if found["status"] == condition["status"] && found["lastTransitionTime"].is_string() {
                condition["lastTransitionTime"] = found["lastTransitionTime"].clone();
            }
            *found = condition;
        }
        None => conditions.push(condition),
    }
}
