//! Pods that go because of each other, as data.

use std::sync::Arc;

use reconcile::Object;
use serde_json::{Value, json};

use super::{cascade, replacement};
use crate::checkpoint::ID;

fn pod(name: &str, more: Value) -> Object {
    let mut whole = json!({"metadata": {"namespace": "n", "name": name, "uid": name,
        "labels": {cascade::MEMBER: "true"}, "ownerReferences": [{"controller": true,
            "uid": "o"}]}, "status": {"phase": "Failed"}});
    for label in cascade::GROUP {
        whole["metadata"]["labels"][label] = json!("0");
    }
    reconcile::plan::merge(&mut whole, &more);
    Object::new(whole)
}

#[test]
fn a_member_that_ended_takes_its_group_with_it() {
    let own = pod("a", json!({}));
    let group = vec![
        Arc::new(pod("a", json!({}))),
        Arc::new(pod("b", json!({"status": {"phase": "Running"}}))),
        Arc::new(pod("gone", json!({"metadata": {"deletionTimestamp": "x"}}))),
    ];
    let plan = cascade::plan(&own, &group);
    let steps: Vec<String> = plan.steps.iter().map(ToString::to_string).collect();
    assert_eq!(steps, ["delete v1 Pod n/a", "delete v1 Pod n/b"]);
    assert_eq!(plan.notices[0].reason, "FailoverCascade");
    assert!(cascade::plan(&own, &Vec::new()).notices.is_empty());
}

#[test]
fn a_pod_whose_weights_are_gone_is_replaced() {
    let with = |restarts: i64, labels: Value| {
        pod(
            "a",
            json!({"metadata": {"labels": labels}, "status": {"initContainerStatuses":
            [{"name": "gms-server", "restartCount": restarts}]}}),
        )
    };
    let restored = json!({ID: "i"});
    assert_eq!(replacement::plan(&with(1, restored.clone())).steps.len(), 1);
    assert!(replacement::plan(&with(0, restored)).steps.is_empty());
    assert!(replacement::plan(&with(1, json!({}))).steps.is_empty());
}
