//! Decides whether a wait goes on: the object is done, still progressing, or cannot heal.
//!
//! Pure. Every wait (`apply --wait`, `train --watch`, `serve --wait`, `vm create --wait`, `demo`)
//! observes the cluster and calls `decide`; reading the cluster is the job of `evidence`.

use std::collections::BTreeMap;
use std::time::Duration;

use reconcile::conditions;
use serde_json::Value;
use tokio::time::Instant;

use super::blockers::{self, Blocker, Container};

/// State of the cluster as a wait reads it in one round.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// The object that is waited for; null while it does not exist.
    pub object: Value,
    /// Pods of the object, without those that an update replaces.
    pub pods: Vec<Value>,
    /// Warning events of the object and its pods, oldest first.
    pub warnings: Vec<Value>,
    /// Nodes of the cluster; empty if they may not be listed.
    pub nodes: Vec<Value>,
}

/// Decision of one round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Done,
    /// The object does not recover without a change by the user.
    Failed(Cause),
    /// The object may still become ready; the text is the current reason.
    Waiting(String),
}

/// Reason for a failure, and the container whose output explains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub why: String,
    pub container: Option<Container>,
}

impl Cause {
    fn of_object(why: impl Into<String>, pods: &[Value]) -> Cause {
        Cause { why: why.into(), container: blockers::first_broken(pods).map(|one| one.container) }
    }
}

/// First time each blocker was observed without interruption.
#[derive(Default)]
pub struct Seen {
    since: BTreeMap<String, Instant>,
}

impl Seen {
    /// Forgets blockers that are gone and returns the age of each that is left.
    fn ages(&mut self, found: &[Blocker], now: Instant) -> Vec<Duration> {
        let keys: Vec<String> = found.iter().map(Blocker::key).collect();
        self.since.retain(|key, _| keys.contains(key));
        let age = |key: String| now.duration_since(*self.since.entry(key).or_insert(now));
        keys.into_iter().map(age).collect()
    }
}

/// Decides on one observation. A blocker ends the wait once it has lasted for its patience.
pub fn decide(observation: &Observation, seen: &mut Seen, now: Instant) -> Verdict {
    let state = match &observation.object {
        Value::Null => ObjectState::Waiting("it does not exist yet".to_owned()),
        object => object_state(object),
    };
    let why = match state {
        ObjectState::Done => return Verdict::Done,
        ObjectState::Failed(why) => {
            return Verdict::Failed(Cause::of_object(why, &observation.pods));
        }
        ObjectState::Waiting(why) => why,
    };
    let found = blockers::find(observation);
    let ages = seen.ages(&found, now);
    let is_over = |(one, age): &(&Blocker, Duration)| one.patience.is_some_and(|most| *age >= most);
    if let Some((fatal, _)) = found.iter().zip(ages).find(is_over) {
        let container = Some(fatal.container.clone());
        return Verdict::Failed(Cause { why: fatal.to_string(), container });
    }
    Verdict::Waiting(found.first().map_or(why, Blocker::to_string))
}

/// State of an object by its own status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectState {
    Done,
    Failed(String),
    Waiting(String),
}

/// Reads the state of an object from its status. Kinds without a known status are done.
pub fn object_state(object: &Value) -> ObjectState {
    let status = &object["status"];
    let condition = |kind: &str| conditions::find(status, kind);
    let is = |kind: &str| conditions::is_true(status, kind);
    let message = |kind: &str| {
        let found = condition(kind).unwrap_or(&Value::Null);
        let text = |field: &str| found[field].as_str().unwrap_or_default();
        format!("{}: {}", text("reason"), text("message"))
    };
    if is("Failed") {
        return ObjectState::Failed(message("Failed"));
    }
    if is("Complete") {
        return ObjectState::Done;
    }
    let generation = object["metadata"]["generation"].as_i64();
    let observed = status["observedGeneration"].as_i64();
    // A failed graph may lack observedGeneration; its condition has one of its own.
    let has_failed = status["state"] == "failed" && condition("Ready").is_some();
    let is_seen = match has_failed {
        true => is_current(object, "Ready"),
        false => observed.is_none() || observed >= generation,
    };
    if !is_seen {
        return ObjectState::Waiting("its controller has not seen the change yet".to_owned());
    }
    match object["kind"].as_str().unwrap_or_default() {
        "Pod" => pod_state(object, is("Ready"), &message("PodScheduled")),
        "Deployment" | "StatefulSet" | "ReplicaSet" => replica_state(object),
        "Job" | "TrainJob" | "JobSet" => ObjectState::Waiting(job_progress(&condition)),
        "DynamoGraphDeployment" | "Wukong"
            if status["state"].is_null() && status["phase"].is_null() =>
        {
            ObjectState::Waiting(NO_STATUS.to_owned())
        }
        "PersistentVolumeClaim" | "Namespace" => phase_state(status),
        _ if status["phase"].is_string() => phase_state(status),
        _ if status["state"].is_string() => graph_state(status, &message("Ready")),
        _ => {
            match ["Ready", "Available", "Established"].iter().find(|it| condition(it).is_some()) {
                Some(kind) if is(kind) => ObjectState::Done,
                Some(kind) => ObjectState::Waiting(message(kind)),
                None => ObjectState::Done,
            }
        }
    }
}

const NO_STATUS: &str = "no status reported yet";

/// Returns whether a condition was set for the object's current generation. A condition without
/// observedGeneration is as old as the rest of the status.
pub fn is_current(object: &Value, kind: &str) -> bool {
    let status = &object["status"];
    let generation = object["metadata"]["generation"].as_i64();
    let said = conditions::find(status, kind).and_then(|one| one["observedGeneration"].as_i64());
    let seen = said.or(status["observedGeneration"].as_i64());
    seen.is_none() || seen >= generation
}

fn job_progress<'a>(condition: &impl Fn(&str) -> Option<&'a Value>) -> String {
    let suspended = condition("Suspended").is_some_and(|one| one["status"] == "True");
    (if suspended { "it is suspended" } else { "it has not finished" }).to_owned()
}

fn pod_state(pod: &Value, is_ready: bool, unscheduled: &str) -> ObjectState {
    let status = &pod["status"];
    match status["phase"].as_str().unwrap_or_default() {
        "Succeeded" => ObjectState::Done,
        "Running" if is_ready => ObjectState::Done,
        "Running" => ObjectState::Waiting("it is running but not ready".to_owned()),
        "Failed" => {
            let message = status["message"].as_str().filter(|message| !message.is_empty());
            let ended = blockers::first_broken(std::slice::from_ref(pod));
            let why = message.map(str::to_owned).or(ended.map(|one| one.to_string()));
            ObjectState::Failed(why.unwrap_or_else(|| "its phase is Failed".to_owned()))
        }
        _ if !status["nodeName"].is_string() && unscheduled.len() > 2 => {
            ObjectState::Waiting(unscheduled.to_owned())
        }
        _ => ObjectState::Waiting("it is starting".to_owned()),
    }
}

fn replica_state(object: &Value) -> ObjectState {
    let wanted = object["spec"]["replicas"].as_i64().unwrap_or(1);
    let count = |field: &str| object["status"][field].as_i64().unwrap_or(0);
    let has_update = object["kind"] != "ReplicaSet";
    let updated = if has_update { count("updatedReplicas") } else { wanted };
    let ready = count("readyReplicas");
    match ready >= wanted && updated >= wanted && count("replicas") <= wanted {
        true => ObjectState::Done,
        false => ObjectState::Waiting(format!("{ready} of {wanted} ready, {updated} updated")),
    }
}

fn phase_state(status: &Value) -> ObjectState {
    match status["phase"].as_str().unwrap_or_default() {
        "Running" | "Bound" | "Active" | "Succeeded" | "Ready" => ObjectState::Done,
        phase @ ("Failed" | "Error") => ObjectState::Failed(match false_condition(status) {
            Some(why) => format!("its phase is {phase}: {why}"),
            None => format!("its phase is {phase}"),
        }),
        "" => ObjectState::Waiting(NO_STATUS.to_owned()),
        phase => ObjectState::Waiting(format!("its phase is {phase}")),
    }
}

/// Message of the first false condition; Ready is the least specific and comes last.
fn false_condition(status: &Value) -> Option<&str> {
    let all = status["conditions"].as_array()?;
    let message = |one: &&Value| one["status"] == "False" && one["message"] != "";
    let (ready, others): (Vec<&Value>, Vec<&Value>) =
        all.iter().filter(message).partition(|one| one["type"] == "Ready");
    others.first().or(ready.first())?["message"].as_str()
}

fn graph_state(status: &Value, why: &str) -> ObjectState {
    match status["state"].as_str().unwrap_or_default() {
        "successful" | "ready" => ObjectState::Done,
        "failed" => ObjectState::Failed(why.to_owned()),
        state => ObjectState::Waiting(format!("{state}: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn waiting(object: Value) -> String {
        match object_state(&object) {
            ObjectState::Waiting(why) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn objects_are_done_when_their_status_says_so() {
        let condition = |kind: &str| json!([{"type": kind, "status": "True"}]);
        let done = [
            json!({"kind": "ConfigMap"}),
            json!({"kind": "TrainJob", "status": {"conditions": condition("Complete")}}),
            json!({"kind": "Pod", "status": {"phase": "Running",
                "conditions": condition("Ready")}}),
            json!({"kind": "Deployment", "spec": {"replicas": 2}, "status":
                {"replicas": 2, "readyReplicas": 2, "updatedReplicas": 2}}),
            json!({"kind": "Wukong", "status": {"phase": "Running"}}),
            json!({"kind": "DynamoGraphDeployment", "status": {"state": "successful"}}),
            json!({"kind": "CustomResourceDefinition",
                "status": {"conditions": condition("Established")}}),
        ];
        for object in done {
            assert_eq!(object_state(&object), ObjectState::Done, "{object}");
        }
    }

    #[test]
    fn objects_that_are_not_done_have_a_reason() {
        let failed = json!({"kind": "Job", "status": {"conditions": [
            {"type": "Failed", "status": "True", "reason": "Late", "message": "too late"}]}});
        assert_eq!(object_state(&failed), ObjectState::Failed("Late: too late".to_owned()));
        let pod = json!({"kind": "Pod", "status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": "0/1 nodes"}]}});
        assert_eq!(waiting(pod), "Unschedulable: 0/1 nodes");
        let unseen = "its controller has not seen the change yet";
        let old = json!({"kind": "Deployment", "metadata": {"generation": 2},
            "status": {"observedGeneration": 1}});
        assert_eq!(waiting(old), unseen);
        let few = json!({"kind": "Deployment", "spec": {"replicas": 2},
            "status": {"readyReplicas": 1, "updatedReplicas": 2, "replicas": 2}});
        assert_eq!(waiting(few), "1 of 2 ready, 2 updated");
        assert_eq!(waiting(json!({"kind": "Job"})), "it has not finished");
        let machine = json!({"kind": "Wukong", "status": {"phase": "Error", "conditions": [
            {"type": "Ready", "status": "False", "message": "it is not ready"},
            {"type": "VolumesBound", "status": "False", "message": "no space"}]}});
        let why = "its phase is Error: no space".to_owned();
        assert_eq!(object_state(&machine), ObjectState::Failed(why));
        // A failure of an older generation does not count.
        let failed = |of: i64| {
            json!({"kind": "DynamoGraphDeployment", "metadata": {"generation": 2}, "status":
                {"state": "failed", "observedGeneration": 1, "conditions": [{"type": "Ready",
                    "status": "False", "reason": "r", "message": "m", "observedGeneration": of}]}})
        };
        assert_eq!(waiting(failed(1)), unseen);
        assert_eq!(object_state(&failed(2)), ObjectState::Failed("r: m".to_owned()));
        assert_eq!(waiting(json!({"kind": "DynamoGraphDeployment"})), NO_STATUS);
    }

    fn observed(reason: &str, restarts: i64) -> Observation {
        let pod = json!({"kind": "Pod", "metadata": {"name": "p", "uid": "u"}, "status": {
            "containerStatuses": [{"name": "main", "restartCount": restarts,
                "state": {"waiting": {"reason": reason, "message": "m"}}}]}});
        Observation { object: json!({"kind": "Job"}), pods: vec![pod], ..Observation::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_blocker_that_lasts_ends_the_wait_and_one_that_heals_does_not() {
        let (mut seen, start) = (Seen::default(), Instant::now());
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        let mut at = |observation: &Observation, seconds: u64| {
            matches!(decide(observation, &mut seen, after(seconds)), Verdict::Failed(_))
        };
        let broken = observed("CreateContainerConfigError", 0);
        assert!(!at(&broken, 0) && !at(&broken, 1));
        // It healed in between, so its time starts again.
        assert!(!at(&observed("ContainerCreating", 0), 2));
        assert!(!at(&broken, 3) && at(&broken, 9));
        // One crash may be a dependency that was not ready; the third start does not help either.
        assert!(!at(&observed("CrashLoopBackOff", 1), 60));
        assert!(at(&observed("CrashLoopBackOff", 2), 60));
        let Verdict::Failed(cause) = decide(&observed("CrashLoopBackOff", 2), &mut seen, start)
        else {
            panic!("a crash loop is a failure")
        };
        assert_eq!(cause.why, "pod/p/main: CrashLoopBackOff: m");
        assert_eq!(cause.container.map(|one| one.pod).as_deref(), Some("p"));
    }
}
