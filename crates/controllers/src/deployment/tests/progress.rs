//! Conditions: progress, lateness, failures.

use std::time::Duration;

use reconcile::Wake;

use super::*;

/// A Deployment whose rollout to two was last heard of so many seconds ago.
fn rolling(seconds_ago: i64, reason: &str) -> Object {
    let mut rolling = deployment("two", json!({}));
    let at = Timestamp::from_second(NOW - seconds_ago).expect("a time").to_string();
    rolling.value["metadata"]["annotations"] = json!({"deployment.kubernetes.io/revision": "2"});
    rolling.value["status"] = json!({
        "replicas": 13, "updatedReplicas": 5, "readyReplicas": 8, "availableReplicas": 8,
        "observedGeneration": 1,
        "conditions": [
            {"type": "Progressing", "status": "True", "reason": reason, "message": "",
                "lastUpdateTime": at, "lastTransitionTime": at},
            {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable",
                "message": "Deployment has minimum availability.",
                "lastUpdateTime": at, "lastTransitionTime": at}]});
    rolling
}

const STUCK: [Set; 2] = [Set("one", "one", 8, 8), Set("two", "two", 5, 0)];

#[test]
fn a_rollout_that_makes_no_progress_is_late_after_its_deadline() {
    let plan = planned(&rolling(600, "ReplicaSetUpdated"), &observed(&STUCK));
    assert_eq!(
        lines(&plan),
        ["Progressing=True ReplicaSetUpdated", "Available=True MinimumReplicasAvailable"]
    );
    assert_eq!(plan.wake, Wake::After(Duration::from_secs(1)));
    let plan = planned(&rolling(601, "ReplicaSetUpdated"), &observed(&STUCK));
    let condition = &plan.status.as_ref().expect("a status")["conditions"][0];
    assert_eq!(condition["status"], "False");
    assert_eq!(condition["reason"], "ProgressDeadlineExceeded");
    assert_eq!(condition["message"], "ReplicaSet \"two\" has timed out progressing.");
    assert_eq!(plan.wake, Wake::OnChange);
}

#[test]
fn progress_is_heard_of() {
    let sets = [Set("one", "one", 8, 8), Set("two", "two", 5, 2)];
    let plan = planned(&rolling(300, "ReplicaSetUpdated"), &observed(&sets));
    let condition = &plan.status.as_ref().expect("a status")["conditions"][0];
    assert_eq!(condition["lastUpdateTime"], "2026-01-01T00:00:00Z");
    assert_eq!(condition["lastTransitionTime"], "2025-12-31T23:55:00Z");
    assert_eq!(condition["message"], "ReplicaSet \"two\" is progressing.");
    assert_eq!(plan.wake, Wake::After(Duration::from_secs(601)));
}

#[test]
fn a_rollout_that_ends_says_so_even_when_it_was_late() {
    let sets = [Set("one", "one", 0, 0), Set("two", "two", 10, 10)];
    let plan = planned(&rolling(900, "ProgressDeadlineExceeded"), &observed(&sets));
    let condition = &plan.status.as_ref().expect("a status")["conditions"][0];
    assert_eq!(condition["reason"], "NewReplicaSetAvailable");
    assert_eq!(condition["message"], "ReplicaSet \"two\" has successfully progressed.");
    assert_eq!(plan.wake, Wake::OnChange);
}

#[test]
fn what_is_done_writes_the_same_status_again() {
    let sets = [Set("one", "one", 0, 0), Set("two", "two", 10, 10)];
    let mut done = rolling(900, "ReplicaSetUpdated");
    let first = planned(&done, &observed(&sets));
    done.value["status"] = first.status.expect("a status");
    let second = planned(&done, &observed(&sets));
    assert!(second.steps.is_empty(), "{second}");
    assert_eq!(second.status.as_ref(), Some(&done.value["status"]));
}

#[test]
fn a_paused_rollout_misses_no_deadline_and_goes_on_when_resumed() {
    let mut paused = rolling(900, "ReplicaSetUpdated");
    paused.value["spec"]["paused"] = json!(true);
    let plan = planned(&paused, &observed(&STUCK));
    let condition = plan.status.expect("a status")["conditions"][0].clone();
    assert_eq!(condition["message"], "Deployment is paused");
    assert_eq!(plan.wake, Wake::OnChange);
    let mut resumed = rolling(0, "");
    resumed.value["status"]["conditions"][0] = condition;
    let plan = planned(&resumed, &observed(&STUCK));
    let condition = &plan.status.expect("a status")["conditions"][0];
    assert_eq!(condition["reason"], "DeploymentResumed");
}

#[test]
fn the_failure_of_a_replica_set_is_the_deployments() {
    let mut observed = observed(&STUCK);
    let mut failing = observed.sets.owned[1].value.clone();
    failing["status"]["conditions"] = json!([{"type": "ReplicaFailure", "status": "True",
        "reason": "FailedCreate", "message": "exceeded quota"}]);
    observed.sets.owned[1] = Arc::new(Object::new(failing));
    let plan = planned(&rolling(10, "ReplicaSetUpdated"), &observed);
    assert_eq!(lines(&plan).last().map(String::as_str), Some("ReplicaFailure=True FailedCreate"));
}

#[test]
fn a_replica_set_that_cannot_be_made_is_told_of() {
    let made = deployment("one", json!({}));
    let error = Error::terminal("it is not allowed");
    let now = Timestamp::from_second(NOW).expect("a time");
    let plan = plan::refused(&made, &Observed::default(), &error, now).expect("a report");
    let name = template::set_name(&made);
    let message = format!("Failed to create new replica set \"{name}\": it is not allowed");
    assert_eq!(plan.notices[0].message, message);
    let condition = &plan.status.expect("a status")["conditions"][0];
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("False"), &json!("ReplicaSetCreateError"))
    );
}
