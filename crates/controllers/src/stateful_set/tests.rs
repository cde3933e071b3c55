//! Plans of StatefulSets: a set, its pods and claims in, steps out.

use std::time::Duration;

use reconcile::{Step, Wake};
use serde_json::{Value, json};

use super::*;
use crate::claims::Claimed;
use crate::revisions;

mod updates;
mod volumes;

const NOW: i64 = 1_767_225_600;

fn set(image: &str, spec: Value) -> Object {
    let mut whole = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"namespace": "a", "name": "db", "uid": "s", "generation": 1,
            "resourceVersion": "5"},
        "spec": {"replicas": 3, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
            "podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10,
            "updateStrategy": {"type": "RollingUpdate",
                "rollingUpdate": {"partition": 0, "maxUnavailable": 1}},
            "template": {"metadata": {"labels": {"app": "db"}},
                "spec": {"containers": [{"name": "main", "image": image}]}}},
    });
    reconcile::plan::merge(&mut whole["spec"], &spec);
    Object::new(whole)
}

fn now() -> Timestamp {
    Timestamp::from_second(NOW).expect("a time")
}

/// The revision that a set makes of its template.
fn revision(set: &Object, number: i64) -> Arc<Object> {
    let mut plan = Plan::nothing();
    revisions::ensure(&mut plan, (STATEFUL_SET, set), &[], revisions::HASH_LABEL);
    let Step::Create { object, .. } = &plan.steps[0] else { panic!("{plan}") };
    let mut object = object.clone();
    object["revision"] = json!(number);
    object["metadata"]["uid"] = object["metadata"]["name"].clone();
    Arc::new(Object::new(object))
}

#[derive(Clone, Copy)]
enum Now {
    Ready,
    ReadySince(i64),
    Pending,
    Failed,
    Succeeded,
    Going,
}

fn pod(ordinal: i64, now: Now, revision: &Object) -> Arc<Object> {
    let name = format!("db-{ordinal}");
    let ready = |since: i64| {
        let since = Timestamp::from_second(since).expect("a time").to_string();
        json!({"phase": "Running", "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": since}]})
    };
    let status = match now {
        Now::Ready | Now::Going => ready(0),
        Now::ReadySince(since) => ready(since),
        Now::Pending => json!({"phase": "Pending"}),
        Now::Failed => json!({"phase": "Failed"}),
        Now::Succeeded => json!({"phase": "Succeeded"}),
    };
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "a", "name": name, "uid": name,
            "labels": {"app": "db", "statefulset.kubernetes.io/pod-name": name,
                "controller-revision-hash": &*revision.name.name},
            "ownerReferences": [{"uid": "s", "controller": true}]},
        "status": status,
    });
    if matches!(now, Now::Going) {
        pod["metadata"]["deletionTimestamp"] = json!("2025-01-01T00:00:00Z");
    }
    Arc::new(Object::new(pod))
}

fn observed(pods: &[Arc<Object>], revisions: &[Arc<Object>]) -> Observed {
    let claimed = |owned: &[Arc<Object>]| Claimed { owned: owned.to_vec(), orphans: Vec::new() };
    Observed { pods: claimed(pods), revisions: claimed(revisions), ..Observed::default() }
}

fn planned(set: &Object, observed: &Observed) -> Plan {
    plan::plan(set, observed, now()).expect("a plan")
}

fn steps(set: &Object, observed: &Observed) -> Vec<String> {
    planned(set, observed).steps.iter().map(ToString::to_string).collect()
}

/// The steps for pods in these states, all of the set's own revision.
fn check(spec: Value, pods: &[(i64, Now)], expected: &[&str]) {
    let set = set("one", spec);
    let revision = revision(&set, 1);
    let pods: Vec<_> = pods.iter().map(|(at, now)| pod(*at, *now, &revision)).collect();
    assert_eq!(steps(&set, &observed(&pods, &[revision])), expected);
}

#[test]
fn the_first_plan_makes_the_revision_and_the_first_pod() {
    let set = set("one", json!({}));
    let plan = planned(&set, &Observed::default());
    let revision = revision(&set, 1);
    let name = &revision.name.name;
    let lines: Vec<String> = plan.steps.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [format!("create apps/v1 ControllerRevision a/{name}"), "create v1 Pod a/db-0".to_owned(),]
    );
    let Step::Create { object, .. } = &plan.steps[1] else { panic!("{plan}") };
    assert_eq!(
        object["metadata"]["labels"],
        json!({"app": "db", "apps.kubernetes.io/pod-index": "0",
            "statefulset.kubernetes.io/pod-name": "db-0",
            "controller-revision-hash": &**name})
    );
    assert_eq!(
        (&object["spec"]["hostname"], &object["spec"]["subdomain"]),
        (&json!("db-0"), &json!("db"))
    );
    assert_eq!(plan.notices[0].message, "create Pod db-0 in StatefulSet db successful");
    assert_eq!(
        plan.status.expect("a status"),
        json!({"observedGeneration": 1, "replicas": 0, "availableReplicas": 0,
            "currentRevision": &**name, "updateRevision": &**name, "collisionCount": 0})
    );
}

#[test]
fn each_pod_waits_for_the_one_before_it() {
    check(json!({}), &[(0, Now::Pending)], &[]);
    check(json!({}), &[(0, Now::Ready)], &["create v1 Pod a/db-1"]);
    check(json!({}), &[(0, Now::Going), (1, Now::Ready)], &[]);
    check(json!({}), &[(0, Now::Ready), (2, Now::Ready)], &["create v1 Pod a/db-1"]);
    check(json!({}), &[(0, Now::Ready), (1, Now::Ready), (2, Now::Ready)], &[]);
}

#[test]
fn parallel_pods_wait_for_nobody() {
    let parallel = json!({"podManagementPolicy": "Parallel"});
    check(parallel, &[(1, Now::Pending)], &["create v1 Pod a/db-0", "create v1 Pod a/db-2"]);
}

#[test]
fn pods_that_have_ended_are_made_again() {
    check(json!({}), &[(0, Now::Failed)], &["delete v1 Pod a/db-0"]);
    let parallel = json!({"podManagementPolicy": "Parallel", "replicas": 2});
    let expected = ["delete v1 Pod a/db-0", "delete v1 Pod a/db-1"];
    check(parallel, &[(0, Now::Succeeded), (1, Now::Failed)], &expected);
}

#[test]
fn the_last_pod_goes_first_and_one_at_a_time() {
    let all = [(0, Now::Ready), (1, Now::Ready), (2, Now::Ready)];
    check(json!({"replicas": 1}), &all, &["delete v1 Pod a/db-2"]);
    let going = [(0, Now::Ready), (1, Now::Ready), (2, Now::Going)];
    check(json!({"replicas": 1}), &going, &[]);
    let parallel = json!({"replicas": 1, "podManagementPolicy": "Parallel"});
    check(parallel, &all, &["delete v1 Pod a/db-2", "delete v1 Pod a/db-1"]);
}

#[test]
fn a_set_that_is_not_well_is_not_taken_apart() {
    let sick = [(0, Now::Pending), (1, Now::Ready), (2, Now::Ready)];
    check(json!({"replicas": 1}), &sick, &[]);
    let sick = [(0, Now::Ready), (1, Now::Pending), (2, Now::Pending)];
    check(json!({"replicas": 1}), &sick, &[]);
    let last_sick = [(0, Now::Ready), (1, Now::Ready), (2, Now::Pending)];
    check(json!({"replicas": 1}), &last_sick, &["delete v1 Pod a/db-2"]);
}

#[test]
fn numbers_begin_where_they_are_told_to() {
    let from_five = json!({"ordinals": {"start": 5}, "replicas": 2});
    check(from_five.clone(), &[], &["create v1 Pod a/db-5"]);
    let moved = [(0, Now::Ready), (5, Now::Ready), (6, Now::Ready)];
    check(from_five, &moved, &["delete v1 Pod a/db-0"]);
}

#[test]
fn a_pod_must_be_ready_for_as_long_as_the_set_says() {
    let set = set("one", json!({"minReadySeconds": 30, "replicas": 2}));
    let revision = revision(&set, 1);
    let observed = observed(&[pod(0, Now::ReadySince(NOW - 10), &revision)], &[revision]);
    let plan = planned(&set, &observed);
    assert!(plan.steps.is_empty(), "{plan}");
    assert_eq!(plan.wake, Wake::After(Duration::from_secs(20)));
    let status = plan.status.expect("a status");
    assert_eq!((&status["readyReplicas"], &status["availableReplicas"]), (&json!(1), &json!(0)));
}

#[test]
fn less_than_nothing_is_nothing() {
    check(json!({"replicas": -2}), &[(0, Now::Ready)], &["delete v1 Pod a/db-0"]);
}

#[test]
fn a_pod_that_lacks_its_name_gets_it() {
    let set = set("one", json!({"replicas": 1}));
    let revision = revision(&set, 1);
    let mut bare = pod(0, Now::Ready, &revision).value.clone();
    bare["metadata"]["labels"] = json!({"app": "db"});
    bare["metadata"]["labels"]["controller-revision-hash"] = json!(&*revision.name.name);
    let bare = Arc::new(Object::new(bare));
    assert_eq!(
        steps(&set, &observed(&[bare], &[revision])),
        ["patch v1 Pod a/db-0 {\"metadata\":{\"labels\":\
          {\"apps.kubernetes.io/pod-index\":\"0\",\
          \"statefulset.kubernetes.io/pod-name\":\"db-0\"}}}"]
    );
}

#[test]
fn what_is_done_is_left_alone() {
    let mut set = set("one", json!({}));
    let revision = revision(&set, 1);
    let pods: Vec<_> = (0..3).map(|at| pod(at, Now::Ready, &revision)).collect();
    let observed = observed(&pods, &[revision]);
    set.value["status"] = planned(&set, &observed).status.expect("a status");
    let plan = planned(&set, &observed);
    assert!(plan.steps.is_empty() && plan.notices.is_empty(), "{plan}");
    assert_eq!(plan.status.as_ref(), Some(&set.value["status"]));
}
