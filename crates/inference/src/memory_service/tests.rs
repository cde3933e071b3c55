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

fn steps(pod: &Object, group: Vec<Object>) -> Vec<String> {
    let group = group.into_iter().map(Arc::new).collect();
    let plan = cascade::plan(pod, &cascade::Observed { group, gone: None });
    plan.steps.iter().map(ToString::to_string).collect()
}

#[test]
fn a_member_that_ended_takes_its_group_with_it() {
    let own = pod("a", json!({}));
    let group = vec![
        pod("a", json!({})),
        pod("b", json!({"status": {"phase": "Running"}})),
        pod("gone", json!({"metadata": {"deletionTimestamp": "x"}})),
    ];
    assert_eq!(steps(&own, group), ["delete v1 Pod n/a", "delete v1 Pod n/b"]);
    assert!(steps(&own, Vec::new()).is_empty());
}

fn running(name: &str, created: &str) -> Object {
    let meta = json!({"creationTimestamp": format!("2026-01-01T00:00:{created}Z")});
    pod(name, json!({"metadata": meta, "status": {"phase": "Running"}}))
}

#[test]
fn pods_that_took_the_place_of_others_are_spared() {
    let ended = pod(
        "a",
        json!({"status": {"containerStatuses": [{"name": "main", "state":
        {"terminated": {"finishedAt": "2026-01-01T00:00:30Z"}}}]}}),
    );
    let group = || vec![running("b", "10"), running("new", "31")];
    assert_eq!(steps(&ended, group()), ["delete v1 Pod n/b"]);
    // One that is deleted is lost from when that was asked for.
    let deleted = pod(
        "a",
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:01:30Z",
        "deletionGracePeriodSeconds": 60}, "status": {"phase": "Running"}}),
    );
    assert_eq!(steps(&deleted, group()), ["delete v1 Pod n/b"]);
    let grace = |pod: &Object| {
        let group = vec![Arc::new(running("b", "10"))];
        let plan = cascade::plan(pod, &cascade::Observed { group, gone: None });
        match &plan.steps[0] {
            reconcile::Step::Delete { options, .. } => options.grace_seconds,
            other => panic!("{other}"),
        }
    };
    assert_eq!((grace(&ended), grace(&deleted)), (Some(0), None));
}

#[test]
fn a_member_that_is_gone_at_once_takes_the_others_with_it() {
    let own = running("b", "10");
    let bereft = || cascade::Observed { group: Vec::new(), gone: Some("a".to_owned()) };
    let plan = cascade::plan(&own, &bereft());
    assert_eq!(plan.steps[0].to_string(), "delete v1 Pod n/b");
    assert_eq!(plan.notices[0].reason, "FailoverCascade");
    let going = pod("b", json!({"metadata": {"deletionTimestamp": "x"}}));
    assert!(cascade::plan(&going, &bereft()).steps.is_empty());
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
