//! Plans of ReplicaSets.

use serde_json::{Value, json};

use super::*;

fn set(replicas: u32) -> Object {
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
    let observed = Observed {
        owned: vec![
            pod("x", json!({"status": ready})),
            pod("y", json!({})),
            pod("z", json!({"status": {"phase": "Pending"}})),
        ],
        orphans: Vec::new(),
    };
    assert_eq!(steps(&set(1), &observed), ["delete v1 Pod a/z", "delete v1 Pod a/y"]);
}

#[test]
fn finished_pods_are_replaced_and_left_alone() {
    let observed = Observed {
        owned: vec![pod("x", json!({"status": {"phase": "Failed"}}))],
        orphans: Vec::new(),
    };
    let steps = steps(&set(1), &observed);
    assert_eq!(steps.len(), 1);
    assert!(steps[0].starts_with("create"), "{steps:?}");
}

#[test]
fn an_orphan_is_adopted_and_counts() {
    let observed = Observed { owned: Vec::new(), orphans: vec![pod("x", json!({}))] };
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
    let observed = Observed { owned: vec![stranger], orphans: Vec::new() };
    let steps = steps(&set(0), &observed);
    assert_eq!(steps, ["patch v1 Pod a/x {\"metadata\":{\"ownerReferences\":[]}}"]);
}
