//! Which rank of a job failed first, and how.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::follow::rank;

const ATTEMPT: &str = "jobset.sigs.k8s.io/restart-attempt";

/// Why a program did not even begin, as a node says it.
const START_ERROR: &str = "StartError";

/// The end of a rank that went wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Failure {
    pub rank: String,
    #[serde(rename = "exitCode")]
    pub exit_code: i64,
    /// `OOMKilled`, `StartError`; empty where the code says it all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What the node says of a program that could not be started, which has said nothing itself.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip)]
    pub pod: String,
    #[serde(skip)]
    pub container: String,
    /// Whether its container has been started again since, so that its output is the one before.
    #[serde(skip)]
    pub is_previous: bool,
    /// How often everything had begun again.
    #[serde(skip)]
    pub attempt: u64,
    /// As the server writes it, so that the earlier one is the smaller one.
    #[serde(skip)]
    pub ended: String,
    /// Whether it was ended because others had failed.
    #[serde(skip)]
    pub was_deleted: bool,
}

/// What has gone wrong so far. Pods may be gone by the time somebody asks.
#[derive(Default)]
pub struct Failures {
    by_pod: BTreeMap<String, Failure>,
}

impl Failures {
    pub fn look_at(&mut self, pod: &Value) {
        let Some(failure) = of(pod) else { return };
        // The same end is looked at again: the container may have been started again since.
        let earlier = self.by_pod.get(&failure.pod).is_some_and(|one| one.ended < failure.ended);
        if !earlier {
            self.by_pod.insert(failure.pod.clone(), failure);
        }
    }

    /// The first, of the last attempt: what failed before everything began again does not count.
    pub fn first(&self) -> Option<&Failure> {
        let last = self.by_pod.values().map(|one| one.attempt).max()?;
        let of_last = self.by_pod.values().filter(|one| one.attempt == last);
        of_last.min_by_key(|one| (&one.ended, one.was_deleted))
    }
}

/// The first failure of a pod's containers.
pub fn of(pod: &Value) -> Option<Failure> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let statuses = ["initContainerStatuses", "containerStatuses"];
    let containers = statuses.iter().flat_map(|field| pod["status"][*field].as_array()).flatten();
    let ends = containers.flat_map(|one| {
        let states = [("state", false), ("lastState", true)];
        states
            .into_iter()
            .map(move |(field, is_previous)| (&one["name"], &one[field]["terminated"], is_previous))
    });
    let bad = ends.filter(|(_, state, _)| state["exitCode"].as_i64().unwrap_or(0) != 0);
    let (container, state, is_previous) =
        bad.min_by_key(|(_, state, _)| text(&state["finishedAt"]))?;
    let reason = text(&state["reason"]);
    let message = if reason == START_ERROR { text(&state["message"]) } else { String::new() };
    Some(Failure {
        reason: if reason == "Error" { String::new() } else { reason },
        message,
        rank: rank(pod),
        exit_code: state["exitCode"].as_i64()?,
        pod: text(&pod["metadata"]["name"]),
        container: text(container),
        is_previous,
        attempt: text(&pod["metadata"]["labels"][ATTEMPT]).parse().unwrap_or(0),
        was_deleted: pod["metadata"]["deletionTimestamp"].is_string(),
        ended: text(&state["finishedAt"]),
    })
}

/// Whether a container ended because its program could not be started: it has no output.
pub fn never_began(status: &Value) -> bool {
    status["state"]["terminated"]["reason"] == START_ERROR
}

impl Failure {
    /// `failed (exit code 137, OOMKilled)`.
    pub fn ended_as(&self) -> String {
        match self.reason.as_str() {
            "" => format!("failed (exit code {})", self.exit_code),
            reason => format!("failed (exit code {}, {reason})", self.exit_code),
        }
    }

    pub fn has_output(&self) -> bool {
        self.reason != START_ERROR
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} failed with exit code {}", self.rank, self.exit_code)?;
        match (self.reason.as_str(), self.message.as_str()) {
            ("", _) => Ok(()),
            (reason, "") => write!(formatter, " ({reason})"),
            (reason, message) => write!(formatter, " ({reason}): {message}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(index: &str, state: Value) -> Value {
        json!({"metadata": {"name": format!("p-{index}"), "labels": {
            "jobset.sigs.k8s.io/replicatedjob-name": "node",
            "batch.kubernetes.io/job-completion-index": index}},
            "status": {"containerStatuses": [{"name": "node", "state": state}]}})
    }

    fn ended(code: i64, at: &str) -> Value {
        json!({"terminated": {"exitCode": code, "finishedAt": at}})
    }

    #[test]
    fn the_rank_that_failed_first_is_named() {
        let mut failures = Failures::default();
        for (index, code, at) in [("0", 143, "T2"), ("1", 3, "T1"), ("2", 0, "T0")] {
            failures.look_at(&pod(index, ended(code, at)));
        }
        let first = failures.first().expect("a failure");
        assert_eq!(first.to_string(), "node-1 failed with exit code 3");
        let mut unstarted = ended(128, "T");
        unstarted["terminated"]["reason"] = json!("StartError");
        unstarted["terminated"]["message"] = json!("there is no \"pyhton\"");
        let unstarted = of(&pod("0", unstarted)).expect("a failure");
        let said = "node-0 failed with exit code 128 (StartError): there is no \"pyhton\"";
        assert_eq!(unstarted.to_string(), said);
        assert!(!unstarted.has_output() && first.has_output());
        // What was ended in the same second did not fail first; nor did what came before everything
        // began again.
        let mut ended_by_us = pod("-", ended(143, "T1"));
        ended_by_us["metadata"]["deletionTimestamp"] = json!("T1");
        failures.look_at(&ended_by_us);
        assert_eq!(failures.first().expect("a failure").rank, "node-1");
        let mut again = pod("9", ended(7, "T9"));
        again["metadata"]["labels"][ATTEMPT] = json!("1");
        failures.look_at(&again);
        assert_eq!(failures.first().expect("a failure").rank, "node-9");
    }

    #[test]
    fn a_container_that_was_started_again_tells_how_it_failed_before() {
        let mut failures = Failures::default();
        let seen = |failures: &Failures| {
            failures.first().map(|one| (one.exit_code, one.is_previous)).expect("a failure")
        };
        failures.look_at(&pod("0", ended(5, "T1")));
        assert_eq!(seen(&failures), (5, false));
        let mut again = pod("0", json!({"running": {}}));
        again["status"]["containerStatuses"][0]["lastState"] = ended(5, "T1");
        failures.look_at(&again);
        assert_eq!(seen(&failures), (5, true));
    }
}
