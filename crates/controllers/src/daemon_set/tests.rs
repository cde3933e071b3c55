//! Plans of DaemonSets: a set, nodes and pods in, steps out.

use std::time::Duration;

use reconcile::{Step, Wake};
use serde_json::{Value, json};

use super::*;
use crate::claims::Claimed;
use crate::revisions;

mod updates;

const NOW: i64 = 1_767_225_600;

fn set(image: &str, spec: Value) -> Object {
    let mut whole = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"namespace": "a", "name": "log", "uid": "s", "generation": 1,
            "resourceVersion": "5"},
        "spec": {"selector": {"matchLabels": {"app": "log"}}, "revisionHistoryLimit": 10,
            "updateStrategy": {"type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
            "template": {"metadata": {"labels": {"app": "log"}},
                "spec": {"containers": [{"name": "main", "image": image}]}}},
    });
    reconcile::plan::merge(&mut whole["spec"], &spec);
    Object::new(whole)
}

/// The revision that a set makes of its template.
fn revision(set: &Object, number: i64) -> Arc<Object> {
    let mut plan = Plan::nothing();
    revisions::ensure(&mut plan, (DAEMON_SET, set), &[], revisions::POD_LABEL);
    let Step::Create { object, .. } = &plan.steps[0] else { panic!("{plan}") };
    let mut object = object.clone();
    object["revision"] = json!(number);
    object["metadata"]["uid"] = object["metadata"]["name"].clone();
    Arc::new(Object::new(object))
}

fn node(name: &str, more: Value) -> Arc<Object> {
    let mut node = json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": name}});
    reconcile::plan::merge(&mut node, &more);
    Arc::new(Object::new(node))
}

/// A pod: its name, its node, its phase or `Ready` or `Going`, and its revision.
fn pod(name: &str, on: &str, now: &str, of: &Object) -> Arc<Object> {
    let status = match now {
        "Ready" | "Going" => json!({"phase": "Running", "conditions": [{"type": "Ready",
            "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}]}),
        phase => json!({"phase": phase}),
    };
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "a", "name": name, "uid": name,
            "labels": {"app": "log",
                "controller-revision-hash": of.label(revisions::POD_LABEL)},
            "ownerReferences": [{"uid": "s", "controller": true}]},
        "spec": {"nodeName": on},
        "status": status,
    });
    if now == "Going" {
        pod["metadata"]["deletionTimestamp"] = json!("2025-01-01T00:00:00Z");
    }
    Arc::new(Object::new(pod))
}

fn observed(nodes: &[Arc<Object>], pods: &[Arc<Object>], revisions: &[Arc<Object>]) -> Observed {
    let claimed = |owned: &[Arc<Object>]| Claimed { owned: owned.to_vec(), orphans: Vec::new() };
    Observed {
        pods: claimed(pods),
        revisions: claimed(revisions),
        nodes: nodes.to_vec(),
        ..Observed::default()
    }
}

fn planned(set: &Object, observed: &Observed) -> Plan {
    let now = Timestamp::from_second(NOW).expect("a time");
    plan::plan(set, observed, now).expect("a plan")
}

/// Deletions by name, creations by node.
fn steps(set: &Object, observed: &Observed) -> Vec<String> {
    let steps = planned(set, observed).steps;
    let line = |step: &Step| match step {
        Step::Create { object, .. } => {
            let made = Object::new(object.clone());
            format!("make a pod for {}", pod::node(&made))
        }
        step => step.to_string(),
    };
    steps.iter().map(line).collect()
}

#[test]
fn every_node_gets_a_pod_that_fits_nowhere_else() {
    let set = set("one", json!({}));
    let revision = revision(&set, 1);
    let nodes = [node("n1", json!({})), node("n2", json!({}))];
    let first = planned(&set, &observed(&nodes, &[], &[]));
    let name = &revision.name.name;
    let made = format!("create apps/v1 ControllerRevision a/{name}");
    assert_eq!(first.steps[0].to_string(), made);
    let Step::Create { object, .. } = &first.steps[1] else { panic!("{first}") };
    assert_eq!(
        object["spec"]["affinity"],
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}}})
    );
    let keys = object["spec"]["tolerations"].as_array().unwrap().iter();
    let keys: Vec<&str> = keys.map(|one| one["key"].as_str().unwrap()).collect();
    assert_eq!(
        keys,
        [
            "node.kubernetes.io/not-ready",
            "node.kubernetes.io/unreachable",
            "node.kubernetes.io/disk-pressure",
            "node.kubernetes.io/memory-pressure",
            "node.kubernetes.io/pid-pressure",
            "node.kubernetes.io/unschedulable",
        ]
    );
    let hash = revision.label(revisions::POD_LABEL);
    assert_eq!(object["metadata"]["labels"]["controller-revision-hash"].as_str(), hash);
    let again = planned(&set, &observed(&nodes, &[], &[]));
    assert_eq!(first.to_string(), again.to_string());
    assert_eq!(first.steps.len(), 3);
}

/// What a node has and what becomes of a set that asks for it, without and with a pod there.
#[test]
fn a_pod_is_where_the_node_allows_it() {
    let taint = |effect: &str| {
        let taint = json!({"key": "gpu", "value": "yes", "effect": effect});
        json!({"spec": {"taints": [taint]}})
    };
    let tolerating = json!({"template": {"spec": {"tolerations":
        [{"key": "gpu", "operator": "Equal", "value": "yes"}]}}});
    let selecting = json!({"template": {"spec": {"nodeSelector": {"disk": "fast"}}}});
    let fast = json!({"metadata": {"labels": {"disk": "fast"}}});
    let unschedulable = json!({"spec": {"unschedulable": true, "taints":
        [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}});
    let make = ["make a pod for n1"].as_slice();
    let delete = ["delete v1 Pod a/p"].as_slice();
    let none = [].as_slice();
    let table = [
        (json!({}), json!({}), make, none),
        (json!({}), taint("NoSchedule"), none, none),
        (json!({}), taint("NoExecute"), none, delete),
        (json!({}), taint("PreferNoSchedule"), make, none),
        (tolerating.clone(), taint("NoSchedule"), make, none),
        (tolerating, taint("NoExecute"), make, none),
        (selecting.clone(), json!({}), none, delete),
        (selecting, fast, make, none),
        (json!({}), unschedulable, make, none),
        (json!({"template": {"spec": {"nodeName": "n2"}}}), json!({}), none, delete),
    ];
    for (spec, more, without, with) in table {
        let set = set("one", spec.clone());
        let (nodes, revision) = ([node("n1", more.clone())], revision(&set, 1));
        let there = pod("p", "n1", "Ready", &revision);
        let revisions = [revision];
        assert_eq!(steps(&set, &observed(&nodes, &[], &revisions)), without, "{spec} {more}");
        assert_eq!(steps(&set, &observed(&nodes, &[there], &revisions)), with, "{spec} {more}");
    }
}

#[test]
fn one_pod_is_enough_and_the_oldest_stays() {
    let set = set("one", json!({}));
    let revision = revision(&set, 1);
    let nodes = [node("n1", json!({}))];
    let pods = [pod("a", "n1", "Ready", &revision), pod("b", "n1", "Ready", &revision)];
    assert_eq!(steps(&set, &observed(&nodes, &pods, &[revision])), ["delete v1 Pod a/b"]);
}

#[test]
fn a_pod_that_goes_is_waited_for() {
    let set = set("one", json!({}));
    let revision = revision(&set, 1);
    let nodes = [node("n1", json!({}))];
    let pods = [pod("a", "n1", "Going", &revision)];
    assert!(steps(&set, &observed(&nodes, &pods, &[revision])).is_empty());
}

#[test]
fn a_pod_that_failed_is_replaced_when_its_time_has_come() {
    let set = set("one", json!({}));
    let revision = revision(&set, 1);
    let nodes = [node("n1", json!({}))];
    let pods = [pod("a", "n1", "Failed", &revision)];
    let mut observed = observed(&nodes, &pods, &[revision]);
    observed.replaceable.insert("a".to_owned(), NOW + 4);
    let plan = planned(&set, &observed);
    assert!(plan.steps.is_empty(), "{plan}");
    assert_eq!(plan.wake, Wake::After(Duration::from_secs(4)));
    observed.replaceable.insert("a".to_owned(), NOW);
    let plan = planned(&set, &observed);
    assert_eq!(plan.steps[0].to_string(), "delete v1 Pod a/a");
    let message = "Found failed daemon pod a/a on node n1, will try to kill it";
    assert_eq!(
        (plan.notices[0].reason, plan.notices[0].message.as_str()),
        ("FailedDaemonPod", message)
    );
}

#[test]
fn a_pod_for_a_node_that_is_gone_goes() {
    let set = set("one", json!({}));
    let revision = revision(&set, 1);
    let mut lost = pod("a", "", "Pending", &revision).value.clone();
    lost["spec"] = pod::made(&set, "a", "gone", "h")["spec"].clone();
    let pods = [Arc::new(Object::new(lost)), pod("b", "also-gone", "Ready", &revision)];
    assert_eq!(steps(&set, &observed(&[], &pods, &[revision])), ["delete v1 Pod a/a"]);
}

#[test]
fn the_status_counts_nodes() {
    let set = set("one", json!({}));
    let revision = revision(&set, 1);
    let out = json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
    let nodes = [node("n1", json!({})), node("n2", json!({})), node("n3", out)];
    let pods = [pod("a", "n1", "Ready", &revision), pod("c", "n3", "Ready", &revision)];
    let plan = planned(&set, &observed(&nodes, &pods, &[revision]));
    assert_eq!(
        plan.status.expect("a status"),
        json!({"desiredNumberScheduled": 2, "currentNumberScheduled": 1,
            "numberMisscheduled": 1, "numberReady": 1, "numberAvailable": 1,
            "numberUnavailable": 1, "updatedNumberScheduled": 1, "observedGeneration": 1})
    );
}

#[test]
fn a_selector_of_everything_selects_nothing() {
    let set = set("one", json!({"selector": {"matchLabels": null}}));
    let plan = planned(&set, &observed(&[node("n1", json!({}))], &[], &[]));
    assert!(plan.steps.is_empty(), "{plan}");
    assert_eq!(plan.notices[0].reason, "SelectingAll");
}

#[test]
fn many_nodes_get_pods_of_different_names() {
    let set = set("one", json!({}));
    let nodes: Vec<_> = (0..5_000).map(|at| node(&format!("n{at}"), json!({}))).collect();
    let mut pods = Vec::new();
    let revision = revision(&set, 1);
    let mut rounds = 0;
    loop {
        let plan = planned(&set, &observed(&nodes, &pods, std::slice::from_ref(&revision)));
        if plan.steps.is_empty() {
            break;
        }
        rounds += 1;
        assert!(plan.steps.len() <= 250);
        pods.extend(plan.steps.iter().map(|step| match step {
            Step::Create { object, .. } => {
                let mut object = object.clone();
                object["metadata"]["uid"] = object["metadata"]["name"].clone();
                Arc::new(Object::new(object))
            }
            other => panic!("{other}"),
        }));
    }
    let names: std::collections::BTreeSet<_> = pods.iter().map(|pod| &pod.name).collect();
    assert_eq!((names.len(), rounds), (5_000, 20));
}

#[test]
fn only_what_decides_who_may_run_wakes_daemons() {
    let change =
        |old: Value, new: Value| Change { old: Some(node("n", old)), new: Some(node("n", new)) };
    let status = json!({"status": {"conditions": [{"type": "Ready"}]}});
    assert!(!concerns_daemons(&change(json!({}), status)));
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    assert!(concerns_daemons(&change(json!({}), labels)));
    let taints = json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
    assert!(concerns_daemons(&change(taints, json!({}))));
    assert!(concerns_daemons(&Change { old: None, new: Some(node("n", json!({}))) }));
}
