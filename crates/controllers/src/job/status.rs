//! What a Job says of itself.

use k8s_openapi::jiff::Timestamp;
use reconcile::conditions::{self, time};
use reconcile::plan::Notice;
use serde_json::{Value, json};

use super::census::Census;
use super::track::Tracked;
use super::verdict::{Outcome, Verdict};

/// What the reconcile came to.
pub struct Result<'a> {
    /// Pods that are active after it.
    pub active: usize,
    pub tracked: &'a Tracked,
    pub verdict: Option<&'a Verdict>,
}

pub fn status(
    census: &Census<'_>,
    result: &Result<'_>,
    notices: &mut Vec<Notice>,
    now: Timestamp,
) -> Value {
    let before = &census.spec.job.value["status"];
    let mut status = json!({});
    for field in ["startTime", "completionTime", "conditions"] {
        if !before[field].is_null() {
            status[field] = before[field].clone();
        }
    }
    if status["startTime"].is_null() && !census.spec.is_suspended {
        status["startTime"] = json!(time(now));
    }
    numbers(&mut status, census, result);
    if result.verdict.is_none() {
        suspension(&mut status, census, notices, now);
    }
    if let Some(verdict) = result.verdict {
        end(&mut status, census, (result, verdict), notices, now);
    }
    // A status says nothing where there is nothing to say.
    if let Some(fields) = status.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    status
}

fn numbers(status: &mut Value, census: &Census<'_>, result: &Result<'_>) {
    let (spec, tracked) = (&census.spec, result.tracked);
    let before = &spec.job.value["status"];
    let counter = |field: &str| before[field].as_u64().unwrap_or(0);
    let succeeded = match spec.is_indexed {
        true => tracked.completed.len() as u64,
        false => counter("succeeded") + tracked.succeeded as u64,
    };
    let failed = counter("failed") + tracked.failed as u64;
    for (field, number) in
        [("active", result.active as u64), ("succeeded", succeeded), ("failed", failed)]
    {
        if number > 0 {
            status[field] = json!(number);
        }
    }
    // Those that are deleted in this reconcile are neither.
    status["ready"] = json!(census.ready.min(result.active));
    status["terminating"] = json!(census.terminating);
    let mut uncounted = json!({});
    for (field, uids) in
        [("succeeded", &tracked.uncounted.succeeded), ("failed", &tracked.uncounted.failed)]
    {
        if !uids.is_empty() {
            uncounted[field] = json!(uids);
        }
    }
    status["uncountedTerminatedPods"] = uncounted;
    if spec.is_indexed && !tracked.completed.is_empty() {
        status["completedIndexes"] = json!(tracked.completed.to_string());
    }
    if spec.backoff_limit_per_index.is_some() {
        status["failedIndexes"] = json!(census.failed_indexes.to_string());
    }
}

fn suspension(status: &mut Value, census: &Census<'_>, notices: &mut Vec<Notice>, now: Timestamp) {
    if census.spec.job.is_terminating() {
        return;
    }
    let was = conditions::find(status, "Suspended").map(|found| found["status"] == "True");
    match (census.spec.is_suspended, was) {
        (true, None | Some(false)) => {
            set(status, ("Suspended", "True"), ("JobSuspended", "Job suspended"), now);
            notices.push(Notice::normal("Suspended", "Job suspended"));
        }
        (false, Some(true)) => {
            set(status, ("Suspended", "False"), ("JobResumed", "Job resumed"), now);
            status["startTime"] = json!(time(now));
            notices.push(Notice::normal("Resumed", "Job resumed"));
        }
        (true, Some(true)) | (false, None | Some(false)) => {}
    }
}

/// First it is said how the job will end; when no pod is left to wait for, that it has.
fn end(
    status: &mut Value,
    census: &Census<'_>,
    (result, verdict): (&Result<'_>, &Verdict),
    notices: &mut Vec<Notice>,
    now: Timestamp,
) {
    let (interim, last) = verdict.outcome.conditions();
    let why = (verdict.reason.as_str(), verdict.message.as_str());
    if !verdict.is_recorded {
        set(status, (interim, "True"), why, now);
        return;
    }
    let tracked = result.tracked;
    let is_over = tracked.uncounted.is_empty()
        && tracked.waiting == 0
        && census.terminating == 0
        && census.active.is_empty();
    if !is_over {
        return;
    }
    set(status, (last, "True"), why, now);
    match verdict.outcome {
        Outcome::Success => {
            status["completionTime"] = json!(time(now));
            let succeeded = status["succeeded"].as_u64().unwrap_or(0);
            let wanted = census.spec.completions.map(u64::from);
            if wanted.is_some_and(|wanted| succeeded > wanted) {
                let message = "Too many succeeded pods exist";
                notices.push(Notice::warning("TooManySucceededPods", message));
            }
            notices.push(Notice::normal("Completed", "Job completed"));
        }
        Outcome::Failure => {
            let reason = known_reason(&verdict.reason);
            notices.push(Notice::warning(reason, verdict.message.clone()));
        }
    }
}

/// The reasons of failures are a closed set.
fn known_reason(reason: &str) -> &'static str {
    const ALL: [&str; 5] = [
        "BackoffLimitExceeded",
        "DeadlineExceeded",
        "MaxFailedIndexesExceeded",
        "FailedIndexes",
        "PodFailurePolicy",
    ];
    ALL.into_iter().find(|known| *known == reason).unwrap_or("Failed")
}

fn set(
    status: &mut Value,
    (kind, truth): (&str, &str),
    (reason, message): (&str, &str),
    now: Timestamp,
) {
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    conditions.retain(|one| one["type"] != kind);
    conditions.push(json!({"type": kind, "status": truth, "reason": reason, "message": message,
        "lastProbeTime": time(now), "lastTransitionTime": time(now)}));
    status["conditions"] = json!(conditions);
}
