//! What a JobSet says of itself.

use k8s_openapi::jiff::Timestamp;
use reconcile::conditions::{self, Condition, Truth};
use reconcile::plan::{Notice, Severity};
use serde_json::{Value, json};

use super::children::Tallies;
use super::spec::{COMPLETED, FAILED, RESTARTING, Spec};
use crate::value::list;

pub struct Status<'a> {
    spec: &'a Spec<'a>,
    conditions: Vec<Value>,
    pub restarts: i64,
    pub restarts_counted: i64,
    terminal: Option<&'static str>,
    pub notices: Vec<Notice>,
    now: Timestamp,
}

impl<'a> Status<'a> {
    pub fn of(spec: &'a Spec<'a>, now: Timestamp) -> Status<'a> {
        Status {
            spec,
            conditions: list(&spec.set.value["status"]["conditions"]).to_vec(),
            restarts: spec.restarts,
            restarts_counted: spec.restarts_counted,
            terminal: None,
            notices: Vec::new(),
            now,
        }
    }

    /// Makes a condition true.
    pub fn begin(&mut self, kind: &'static str, reason: &str, message: &str) {
        self.set(kind, Truth::True, (reason, message));
    }

    /// Makes a condition false, if there is one.
    pub fn end(&mut self, kind: &'static str, reason: &str, message: &str) {
        if self.conditions.iter().any(|one| one["type"] == kind) {
            self.set(kind, Truth::False, (reason, message));
        }
    }

    fn set(&mut self, kind: &'static str, status: Truth, (reason, message): (&str, &str)) {
        let found = self.conditions.iter().find(|one| one["type"] == kind);
        // A restart that follows another one is a fact of its own, also for the same reason.
        let is_same = found.is_some_and(|one| {
            let says_same = one["reason"] == reason && one["message"] == message;
            one["status"] == status.name() && (kind != RESTARTING || says_same)
        });
        if is_same {
            return;
        }
        let condition = Condition { kind, status, reason, message, observed_generation: None };
        conditions::set(&mut self.conditions, &condition, self.now);
        let is_bad = matches!(kind, FAILED | RESTARTING) && status == Truth::True;
        let severity = if is_bad { Severity::Warning } else { Severity::Normal };
        let reason = event_reason(reason);
        self.notices.push(Notice { severity, reason, message: message.to_owned() });
    }

    pub fn complete(&mut self) {
        self.begin(COMPLETED, "AllJobsCompleted", "jobset completed successfully");
        self.end(RESTARTING, "JobSetCompleted", "jobset completed successfully");
        self.terminal = Some(COMPLETED);
    }

    pub fn fail(&mut self, reason: &str, message: &str) {
        self.begin(FAILED, reason, message);
        self.end(RESTARTING, "JobSetFailed", message);
        self.terminal = Some(FAILED);
    }

    /// The whole status; Jobs in descending order of their names.
    pub fn value(&self, tallies: &Tallies<'_>) -> Value {
        let jobs: Vec<Value> =
            tallies.iter().rev().map(|(name, tally)| tally.value(name)).collect();
        let mut status = json!({"restarts": self.restarts, "replicatedJobsStatus": jobs});
        if self.restarts_counted > 0 {
            status["restartsCountTowardsMax"] = json!(self.restarts_counted);
        }
        if !self.conditions.is_empty() {
            status["conditions"] = json!(self.conditions);
        }
        let before = &self.spec.set.value["status"]["terminalState"];
        match (before, self.terminal) {
            (Value::String(_), _) => status["terminalState"] = before.clone(),
            (_, Some(terminal)) => status["terminalState"] = json!(terminal),
            (_, None) => {}
        }
        status
    }
}

/// The reason of an event; rules of failure policies have names that users chose.
fn event_reason(reason: &str) -> &'static str {
    const KNOWN: [&str; 14] = [
        "AllJobsCompleted",
        "JobSetCompleted",
        "JobSetFailed",
        "JobSetSuspended",
        "JobsReady",
        "FailedJobs",
        "ReachedMaxRestarts",
        "FailJobSetFailurePolicyAction",
        "SuspendedJobs",
        "ResumeJobs",
        "InOrderStartupPolicyInProgress",
        "InOrderStartupPolicyCompleted",
        "DefaultFailurePolicy",
        "RestartJobSetFailurePolicyAction",
    ];
    let known = KNOWN.into_iter().find(|known| *known == reason);
    known.unwrap_or("RestartJobSetFailurePolicyAction")
}
