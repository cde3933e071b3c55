//! Whether a Job is over, and why.

use k8s_openapi::jiff::Timestamp;
use reconcile::conditions;
use serde_json::Value;

use super::census::{Census, Pod};
use super::policies::{self, Failure};
use crate::pods;

/// A job that is over, or will be when its pods are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub outcome: Outcome,
    pub reason: String,
    pub message: String,
    /// Whether the job says so already.
    pub is_recorded: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Success,
    Failure,
}

impl Outcome {
    /// The condition that says how the job will end, and the one that says that it has.
    pub fn conditions(self) -> (&'static str, &'static str) {
        match self {
            Outcome::Success => ("SuccessCriteriaMet", "Complete"),
            Outcome::Failure => ("FailureTarget", "Failed"),
        }
    }
}

impl Verdict {
    fn new(outcome: Outcome, reason: &str, message: &str) -> Verdict {
        let (reason, message) = (reason.to_owned(), message.to_owned());
        Verdict { outcome, reason, message, is_recorded: false }
    }

    fn failure(reason: &str, message: &str) -> Option<Verdict> {
        Some(Verdict::new(Outcome::Failure, reason, message))
    }

    /// All that was wanted is there.
    pub fn completed() -> Verdict {
        let message = "Reached expected number of succeeded pods";
        Verdict::new(Outcome::Success, "CompletionsReached", message)
    }
}

/// What the job has said before stays; then failures; then success by rule.
pub fn verdict(census: &Census<'_>, now: Timestamp) -> Option<Verdict> {
    recorded(census)
        .or_else(|| by_policy(census))
        .or_else(|| by_limits(census, now))
        .or_else(|| by_indexes(census))
        .or_else(|| {
            let (spec, done) = (&census.spec, &census.completed);
            let message = policies::success(spec.success_policy, spec.index_count(), done)?;
            Some(Verdict::new(Outcome::Success, "SuccessPolicy", &message))
        })
}

fn recorded(census: &Census<'_>) -> Option<Verdict> {
    let status = &census.spec.job.value["status"];
    [Outcome::Success, Outcome::Failure].into_iter().find_map(|outcome| {
        let found = conditions::find(status, outcome.conditions().0);
        let found = found.filter(|found| found["status"] == "True")?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (reason, message) = (text(&found["reason"]), text(&found["message"]));
        Some(Verdict { outcome, reason, message, is_recorded: true })
    })
}

fn by_policy(census: &Census<'_>) -> Option<Verdict> {
    let mut failed = census.held.iter().filter(|pod| census.spec.is_failed(pod));
    failed.find_map(|pod| match census.failure(pod) {
        Failure::FailJob(message) => Verdict::failure("PodFailurePolicy", &message),
        _ => None,
    })
}

fn by_limits(census: &Census<'_>, now: Timestamp) -> Option<Verdict> {
    let spec = &census.spec;
    if census.failed > spec.backoff_limit || restarts_too_often(census) {
        let message = "Job has reached the specified backoff limit";
        return Verdict::failure("BackoffLimitExceeded", message);
    }
    if seconds_left(census, now).is_some_and(|left| left <= 0) {
        let message = "Job was active longer than specified deadline";
        return Verdict::failure("DeadlineExceeded", message);
    }
    None
}

/// How long the job may still take.
pub fn seconds_left(census: &Census<'_>, now: Timestamp) -> Option<i64> {
    let spec = &census.spec;
    if spec.is_suspended {
        return None;
    }
    let (start, deadline) = (spec.start()?, spec.deadline_seconds?);
    Some(start.as_second() + deadline - now.as_second())
}

/// Pods that restart their containers themselves fail without being replaced.
fn restarts_too_often(census: &Census<'_>) -> bool {
    let spec = &census.spec;
    if spec.job.value["spec"]["template"]["spec"]["restartPolicy"] != "OnFailure" {
        return false;
    }
    let all = |pod: &Pod<'_>| -> u64 {
        let status = &pod.value["status"];
        let lists = [&status["initContainerStatuses"], &status["containerStatuses"]];
        let containers = lists.into_iter().filter_map(Value::as_array).flatten();
        containers.filter_map(|one| one["restartCount"].as_u64()).sum()
    };
    let alive = census.held.iter();
    let alive = alive.filter(|pod| matches!(pods::phase(pod), "Running" | "Pending"));
    let restarts = alive.map(all).sum::<u64>();
    let restarts = usize::try_from(restarts).unwrap_or(usize::MAX);
    if spec.backoff_limit == 0 { restarts > 0 } else { restarts >= spec.backoff_limit }
}

fn by_indexes(census: &Census<'_>) -> Option<Verdict> {
    let spec = &census.spec;
    spec.backoff_limit_per_index?;
    let failed = census.failed_indexes.len();
    if spec.failed_indexes_max.is_some_and(|max| failed > max) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return Verdict::failure("MaxFailedIndexesExceeded", message);
    }
    let all = usize::try_from(spec.index_count()).unwrap_or(usize::MAX);
    if failed > 0 && failed + census.completed.len() >= all {
        return Verdict::failure("FailedIndexes", "Job has failed indexes");
    }
    None
}
