//! Plans of ReplicaSets.

use serde_json::{Value, json};

use super::*;
use crate::claims::Claimed;

fn set(replicas: i64) -> Object {
    Object::new(json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"namespace": "a", "name": "web", "uid": "u", "generation": 1},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {}}},
    }))
}

fn pod(name: &str, more: Value) -> Arc<Object> {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "a", "name": name, "uid": name, "labels": {"app": "web"}},
        "spec": {"nodeName": "n"}, "status": {"phase": "Running"},
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        pod[key] = value.clone();
    }
    Arc::new(Object::new(pod))
}

fn holding(owned: Vec<Arc<Object>>) -> Observed {
    Observed { pods: Claimed { owned, orphans: Vec::new() }, ..Observed::default() }
}

fn steps(set: &Object, observed: &Observed) -> Vec<String> {
    let plan = plan::plan(set, observed, Timestamp::UNIX_EPOCH).expect("a plan");
    plan.steps.iter().map(ToString::to_string).collect()
}

#[test]
fn missing_pods_are_made_with_names_that_stay_the_same() {
    let first = steps(&set(3), &Observed::default());
    assert_eq!(first.len(), 3);
    assert!(first.iter().all(|step| step.starts_with("create v1 Pod a/web-")), "{first:?}");
    assert_eq!(steps(&set(3), &Observed::default()), first);
}

#[test]
fn surplus_pods_go_the_unready_first() {
    let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    let observed = holding(vec![
        pod("x", json!({"status": ready})),
        pod("y", json!({})),
        pod("z", json!({"status": {"phase": "Pending"}})),
    ]);
    assert_eq!(steps(&set(1), &observed), ["delete v1 Pod a/z", "delete v1 Pod a/y"]);
}

#[test]
fn fewer_than_none_are_none() {
    // The server refuses such a number; it may have been stored by one that did not.
    assert_eq!(steps(&set(-1), &Observed::default()), [""; 0]);
    let observed = holding(vec![pod("x", json!({}))]);
    assert_eq!(steps(&set(-3), &observed), ["delete v1 Pod a/x"]);
}

#[test]
fn finished_pods_are_replaced_and_left_alone() {
    let observed = holding(vec![pod("x", json!({"status": {"phase": "Failed"}}))]);
    let steps = steps(&set(1), &observed);
    assert_eq!(steps.len(), 1);
    assert!(steps[0].starts_with("create"), "{steps:?}");
}

#[test]
fn an_orphan_is_adopted_and_counts() {
    let observed = Observed {
        pods: Claimed { owned: Vec::new(), orphans: vec![pod("x", json!({}))] },
        ..Observed::default()
    };
    let steps = steps(&set(1), &observed);
    assert_eq!(steps.len(), 1);
    assert!(
        steps[0].starts_with("patch v1 Pod a/x {\"metadata\":{\"ownerReferences\""),
        "{steps:?}"
    );
}

#[test]
fn a_pod_that_no_longer_matches_is_released() {
    let stranger = pod(
        "x",
        json!({"metadata": {"namespace": "a", "name": "x", "uid": "x",
        "labels": {"app": "db"}, "ownerReferences": [{"uid": "u", "controller": true}]}}),
    );
    let observed = holding(vec![stranger]);
    let steps = steps(&set(0), &observed);
    assert_eq!(steps, ["patch v1 Pod a/x {\"metadata\":{\"ownerReferences\":[]}}"]);
}

#[test]
fn one_look_makes_or_deletes_no_more_than_a_burst() {
    assert_eq!(steps(&set(1_200), &Observed::default()).len(), 500);
    let owned = (0..700).map(|at| pod(&format!("p{at}"), json!({}))).collect();
    let observed = holding(owned);
    assert_eq!(steps(&set(0), &observed).len(), 500);
    // What is left over comes with the next look, under names that are free.
    let made = steps(&set(1_200), &observed);
    assert_eq!(made.len(), 500);
    assert!(made.iter().all(|step| step.starts_with("create")), "{made:?}");
}

#[test]
fn a_refusal_is_a_condition_until_pods_are_made_again() {
    let error = Error::terminal("pods \"web-\" is forbidden: exceeded quota");
    let now = Timestamp::UNIX_EPOCH;
    let plan = plan::refused(&set(2), &Observed::default(), &error, now);
    assert!(plan.steps.is_empty());
    let status = plan.status.expect("a status");
    assert_eq!(
        status["conditions"],
        json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
            "message": "pods \"web-\" is forbidden: exceeded quota",
            "lastTransitionTime": "1970-01-01T00:00:00Z"}])
    );
    let message = "Error creating: pods \"web-\" is forbidden: exceeded quota";
    assert_eq!(
        (plan.notices[0].reason, plan.notices[0].message.as_str()),
        ("FailedCreate", message)
    );
    let mut failing = set(0).value.clone();
    failing["status"] = status;
    let plan = plan::plan(&Object::new(failing), &Observed::default(), now).expect("a plan");
    assert_eq!(plan.status.expect("a status")["conditions"], Value::Null);
}

#[test]
fn less_than_nothing_is_nothing() {
    let mut odd = set(0).value.clone();
    odd["spec"]["replicas"] = json!(-4);
    let observed = holding(vec![pod("x", json!({}))]);
    assert_eq!(steps(&Object::new(odd), &observed), ["delete v1 Pod a/x"]);
}

#[test]
fn a_set_that_is_going_makes_no_pods() {
    let mut going = set(3).value.clone();
    going["metadata"]["deletionTimestamp"] = json!("2025-01-01T00:00:00Z");
    assert!(steps(&Object::new(going), &Observed::default()).is_empty());
}

#[test]
fn the_status_counts_ready_available_and_going_pods() {
    let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True",
        "lastTransitionTime": "1970-01-01T00:00:00Z"}]});
    let going = json!({"namespace": "a", "name": "z", "uid": "z", "labels": {"app": "web"},
        "deletionTimestamp": "2025-01-01T00:00:00Z"});
    let observed = holding(vec![
        pod("x", json!({"status": ready})),
        pod("y", json!({})),
        pod("z", json!({"metadata": going})),
    ]);
    let mut patient = set(2).value.clone();
    patient["spec"]["minReadySeconds"] = json!(10);
    let patient = Object::new(patient);
    let status = |second| {
        let now = Timestamp::from_second(second).expect("a time");
        plan::plan(&patient, &observed, now).expect("a plan").status.expect("a status")
    };
    let expected = json!({"replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 1,
        "terminatingReplicas": 1, "observedGeneration": 1});
    assert_eq!(status(9), expected);
    assert_eq!(status(10)["availableReplicas"], 1);
}

#[test]
fn a_name_that_another_pod_has_is_passed_over() {
    let first = steps(&set(1), &Observed::default()).remove(0);
    let name = first.rsplit('/').next().unwrap().to_owned();
    let taken = Observed { foreign_names: [name].into(), ..Observed::default() };
    let second = steps(&set(1), &taken);
    assert_eq!(second.len(), 1);
    assert_ne!(second[0], first);
}
