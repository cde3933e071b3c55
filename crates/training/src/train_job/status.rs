//! What a TrainJob says of itself.

use k8s_openapi::jiff::Timestamp;
use reconcile::Object;
use reconcile::conditions::{self, Condition, Truth};
use serde_json::{Value, json};

use super::job::{COMPLETE, DEADLINE_EXCEEDED, FAILED, NOT_SUPPORTED, SUSPENDED, TrainJob};
use super::observe::Runtime;
use crate::value::{list, text};

/// The whole status, or nothing where there is nothing to say.
pub fn status(
    job: &TrainJob<'_>,
    (runtime, set): (&Runtime, Option<&Object>),
    is_late: bool,
    now: Timestamp,
) -> Option<Value> {
    let mut conditions = list(&job.status()["conditions"]).to_vec();
    let generation = Some(job.object.generation()).filter(|generation| *generation > 0);
    let mut set_condition = |kind: &str, status: Truth, reason: &str, message: &str| {
        let condition =
            Condition { kind, status, reason, message, observed_generation: generation };
        conditions::set(&mut conditions, &condition, now);
    };
    let was_suspended = conditions::is_true(job.status(), SUSPENDED);
    if job.is_suspended() {
        set_condition(SUSPENDED, Truth::True, "Suspended", "TrainJob is suspended");
    } else if was_suspended {
        set_condition(SUSPENDED, Truth::False, "Resumed", "TrainJob is resumed");
    }
    if !job.is_finished() {
        if let Runtime::Unsupported = runtime {
            let message = format!("unsupported runtime: {}", job.runtime_key());
            set_condition(FAILED, Truth::True, NOT_SUPPORTED, &message);
        } else {
            conditions.retain(|one| one["reason"] != NOT_SUPPORTED);
            end(&mut conditions, (set, is_late), generation, now);
        }
    }
    let mut status = json!({});
    if !conditions.is_empty() {
        status["conditions"] = json!(conditions);
    }
    let jobs = match set {
        Some(set) if !job.has_exceeded_deadline() && !is_late => jobs(set),
        _ => job.status()["jobsStatus"].clone(),
    };
    for (field, value) in [("jobsStatus", jobs), ("trainerStatus", reported(job))] {
        if !value.is_null() {
            status[field] = value;
        }
    }
    let is_empty = status.as_object().is_some_and(serde_json::Map::is_empty);
    (!is_empty).then_some(status)
}

/// How the job has ended, if it has: its time is over, or its JobSet says so.
fn end(
    conditions: &mut Vec<Value>,
    (set, is_late): (Option<&Object>, bool),
    generation: Option<i64>,
    now: Timestamp,
) {
    if is_late {
        let message = "TrainJob exceeded its active deadline";
        let condition = Condition {
            kind: FAILED,
            status: Truth::True,
            reason: DEADLINE_EXCEEDED,
            message,
            observed_generation: generation,
        };
        return conditions::set(conditions, &condition, now);
    }
    let Some((kind, found)) = set.and_then(end_of) else { return };
    let condition = Condition {
        kind,
        status: Truth::True,
        reason: text(&found["reason"]),
        message: text(&found["message"]),
        observed_generation: generation,
    };
    // The job ended when its JobSet did.
    let since = text(&found["lastTransitionTime"]).parse().unwrap_or(now);
    conditions::set(conditions, &condition, since);
}

/// Whether a JobSet says that it is over.
pub fn has_ended(set: &Object) -> bool {
    end_of(set).is_some()
}

/// How a JobSet has ended, if it has: what its job calls that, and what it says.
fn end_of(set: &Object) -> Option<(&'static str, &Value)> {
    [("Completed", COMPLETE), ("Failed", FAILED)].into_iter().find_map(|(theirs, ours)| {
        let found = conditions::find(&set.value["status"], theirs)?;
        (found["status"] == "True").then_some((ours, found))
    })
}

fn jobs(set: &Object) -> Value {
    let status = &set.value["status"]["replicatedJobsStatus"];
    let one = |job: &Value| {
        let count = |field: &str| job[field].as_i64().unwrap_or(0);
        json!({"name": job["name"], "ready": count("ready"), "succeeded": count("succeeded"),
            "failed": count("failed"), "active": count("active"),
            "suspended": count("suspended")})
    };
    match list(status) {
        [] => Value::Null,
        jobs => jobs.iter().map(one).collect(),
    }
}

/// What the trainer reports is not ours to change.
fn reported(job: &TrainJob<'_>) -> Value {
    job.status()["trainerStatus"].clone()
}
