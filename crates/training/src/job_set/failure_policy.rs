//! What the failure of a Job means for all.

use std::sync::Arc;

use reconcile::{Object, conditions};
use regex::Regex;
use serde_json::Value;

use super::build::REPLICATED_JOB;
use super::children::Children;
use super::spec::Spec;
use crate::value::{list, text};

/// What is to be done.
#[derive(Debug, PartialEq)]
pub enum Verdict {
    Fail { reason: &'static str, message: &'static str },
    Restart { counts: Counts, reason: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    TowardsMax,
    Not,
}

/// Decides by the earliest failure that a rule is for; without a rule for any, by the earliest.
/// Returns the Job that decided, too. There must be a failed Job.
pub fn judge<'a>(spec: &Spec<'_>, children: &Children<'a>) -> (Verdict, &'a Arc<Object>) {
    let mut failed = children.failed.clone();
    failed.sort_by_key(|job| (failed_at(job), job.name.clone()));
    let first = failed.first().copied().expect("a verdict must be about a failed Job");
    let policy = &spec.value()["failurePolicy"];
    if policy.is_null() {
        let message = "jobset failed due to one or more job failures";
        return (Verdict::Fail { reason: "FailedJobs", message }, first);
    }
    for (number, rule) in list(&policy["rules"]).iter().enumerate() {
        if let Some(job) = failed.iter().find(|job| is_for(rule, job)) {
            let name = rule["name"].as_str().filter(|name| !name.is_empty());
            let name = name.map_or_else(|| format!("failurePolicyRule{number}"), str::to_owned);
            let reason = format!("FailurePolicy_{name}");
            return (perform(spec, text(&rule["action"]), reason), job);
        }
    }
    (perform(spec, "RestartJobSet", "DefaultFailurePolicy".to_owned()), first)
}

fn perform(spec: &Spec<'_>, action: &str, reason: String) -> Verdict {
    match action {
        "FailJobSet" => Verdict::Fail {
            reason: "FailJobSetFailurePolicyAction",
            message: "applying FailJobSet failure policy action",
        },
        "RestartJobSetAndIgnoreMaxRestarts" | "RestartJobAndIgnoreMaxRestarts" => {
            Verdict::Restart { counts: Counts::Not, reason }
        }
        _ => {
            let most = spec.value()["failurePolicy"]["maxRestarts"].as_i64().unwrap_or(0);
            if spec.restarts_counted >= most {
                return Verdict::Fail {
                    reason: "ReachedMaxRestarts",
                    message: "jobset failed due to reaching max number of restarts",
                };
            }
            Verdict::Restart { counts: Counts::TowardsMax, reason }
        }
    }
}

fn is_for(rule: &Value, job: &Object) -> bool {
    let failure = conditions::find(&job.value["status"], "Failed").unwrap_or(&Value::Null);
    let names = |field: &str, value: &str| {
        let wanted = list(&rule[field]);
        wanted.is_empty() || wanted.iter().any(|one| one == value)
    };
    let patterns = list(&rule["onJobFailureMessagePatterns"]);
    let message = text(&failure["message"]);
    let says = patterns.is_empty()
        || patterns
            .iter()
            .filter_map(|one| Regex::new(text(one)).ok())
            .any(|p| p.is_match(message));
    names("onJobFailureReasons", text(&failure["reason"]))
        && says
        && names("targetReplicatedJobs", job.label(REPLICATED_JOB).unwrap_or_default())
}

fn failed_at(job: &Object) -> String {
    let failure = conditions::find(&job.value["status"], "Failed");
    failure.map(|one| text(&one["lastTransitionTime"]).to_owned()).unwrap_or_default()
}
