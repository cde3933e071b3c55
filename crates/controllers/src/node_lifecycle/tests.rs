//! Plans of nodes, and what is remembered of them.

use reconcile::{Cache, Change};
use serde_json::{Value, json};

use super::observe::Eviction::{After, Held, Now, Suspended};
use super::zones::{Count, Disruption};
use super::*;

fn node(name: &str, ready: Option<&str>, more: Value) -> Arc<Object> {
    let mut node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {}, "status": {"conditions": []},
    });
    if let Some(ready) = ready {
        node["status"]["conditions"] = json!([{"type": "Ready", "status": ready,
            "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]);
    }
    for (key, value) in more.as_object().into_iter().flatten() {
        node[key] = value.clone();
    }
    Arc::new(Object::new(node))
}

fn heard(eviction: Eviction) -> Observed {
    let seconds = Duration::from_secs;
    Observed { silence: seconds(5), grace: seconds(50), eviction }
}

fn taints(keys: &[&str]) -> Value {
    let all = keys.iter().map(|taint| {
        let (key, effect) = taint.split_once(':').unwrap();
        json!({"key": format!("node.kubernetes.io/{key}"), "effect": effect})
    });
    json!({"taints": all.collect::<Vec<_>>()})
}

fn planned(node: &Object, observed: Observed) -> String {
    plan::plan(node, &observed, Timestamp::UNIX_EPOCH).to_string()
}

#[test]
fn a_silent_node_becomes_unknown_once() {
    let silent = Observed { silence: Duration::from_secs(50), ..heard(Held) };
    let gone = node("n", Some("True"), json!({}));
    let plan = plan::plan(&gone, &silent, Timestamp::UNIX_EPOCH);
    let status = plan.status.expect("a status");
    let shown: Vec<_> = status["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| format!("{} {} {}", it["type"], it["status"], it["reason"]).replace('"', ""))
        .collect();
    assert_eq!(
        shown,
        [
            "Ready Unknown NodeStatusUnknown",
            "MemoryPressure Unknown NodeStatusNeverUpdated",
            "DiskPressure Unknown NodeStatusNeverUpdated",
            "PIDPressure Unknown NodeStatusNeverUpdated",
        ]
    );
    assert_eq!(plan.notices[0].message, "Node n status is now: NodeNotReady");
    assert!(plan.steps.is_empty());
    let mut value = gone.value.clone();
    value["status"] = status;
    let again = plan::plan(&Object::new(value), &silent, Timestamp::UNIX_EPOCH);
    assert!(again.status.is_none());
    assert_eq!(again.wake, reconcile::Wake::OnChange);
}

#[test]
fn taints_follow_from_conditions() {
    let pressed = json!({"status": {"conditions": [{"type": "Ready", "status": "True"},
        {"type": "DiskPressure", "status": "True"}, {"type": "PIDPressure", "status": "False"}]},
        "spec": {"unschedulable": true}});
    let mine = json!({"spec": {"taints": [{"key": "mine", "effect": "NoExecute"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}});
    let added = |key: &str, effect: &str| {
        format!(
            "{{\"effect\":\"{effect}\",\"key\":\"node.kubernetes.io/{key}\",\
             \"timeAdded\":\"1970-01-01T00:00:00Z\"}}"
        )
    };
    let patch = |list: &[String]| {
        format!("patch v1 Node n {{\"spec\":{{\"taints\":[{}]}}}}\n", list.join(","))
    };
    let cases = [
        (node("n", Some("True"), json!({})), Held, String::new()),
        (
            node("n", Some("True"), pressed),
            Held,
            patch(&[added("disk-pressure", "NoSchedule"), added("unschedulable", "NoSchedule")]),
        ),
        (
            node("n", Some("True"), mine),
            Held,
            patch(&["{\"effect\":\"NoExecute\",\"key\":\"mine\"}".to_owned()]),
        ),
        (
            node("n", Some("False"), json!({})),
            Now,
            patch(&[added("not-ready", "NoSchedule"), added("not-ready", "NoExecute")]),
        ),
        (node("n", Some("Unknown"), json!({})), Held, patch(&[added("unreachable", "NoSchedule")])),
        (node("n", None, json!({})), Now, patch(&[added("not-ready", "NoSchedule")])),
    ];
    for (node, eviction, expected) in cases {
        let plan = planned(&node, heard(eviction));
        let steps = plan.split_inclusive('\n').filter(|line| !line.starts_with("wake"));
        assert_eq!(steps.collect::<String>(), expected);
    }
}

#[test]
fn who_waits_for_its_turn_looks_again_then() {
    let lost = node("n", Some("Unknown"), json!({"spec": taints(&["unreachable:NoSchedule"])}));
    let turn = After(Duration::from_secs(7));
    assert_eq!(planned(&lost, heard(turn)), "wake after 7s\n");
    let well = node("n", Some("True"), json!({}));
    assert_eq!(planned(&well, heard(Held)), "wake after 45s\n");
}

#[test]
fn when_all_nodes_are_lost_nobody_is_driven_away() {
    let all = ["unreachable:NoSchedule", "unreachable:NoExecute"];
    let lost = node("n", Some("Unknown"), json!({"spec": taints(&all)}));
    let held = planned(&lost, heard(Held));
    assert_eq!(held, "wake on change\n");
    let suspended = planned(&lost, heard(Suspended));
    assert!(suspended.contains("NoSchedule") && !suspended.contains("NoExecute"), "{suspended}");
}

#[test]
fn a_zone_is_disrupted_when_most_of_it_is_lost() {
    let cases = [
        ((3, 0), Disruption::None, Some(10)),
        ((0, 1), Disruption::Full, Some(10)),
        ((1, 2), Disruption::None, Some(10)),
        ((2, 3), Disruption::Partial, None),
        ((20, 40), Disruption::Partial, Some(100)),
        ((50, 49), Disruption::None, Some(10)),
        ((0, 0), Disruption::None, Some(10)),
    ];
    for ((ready, lost), disruption, seconds) in cases {
        let count = Count { ready, lost };
        assert_eq!(count.disruption(), disruption, "{count:?}");
        assert_eq!(count.interval(), seconds.map(Duration::from_secs), "{count:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_of_a_zone_are_emptied_one_after_the_other() {
    let memory = Memory::default();
    let now = Instant::now();
    memory.seed(&Cache::new(NODE), now);
    let nodes: Vec<_> = ["a", "b", "c"].map(|name| node(name, Some("True"), json!({}))).into();
    let change = |memory: &Memory, node: &Arc<Object>| {
        memory.node_changed(&Change { old: None, new: Some(node.clone()) }, now)
    };
    nodes.iter().for_each(|node| drop(change(&memory, node)));
    let lost = |name: &str| node(name, Some("Unknown"), json!({}));
    change(&memory, &lost("a"));
    change(&memory, &lost("b"));
    assert_eq!(memory.ask(&lost("a"), now), Now);
    assert_eq!(memory.ask(&lost("b"), now), After(Duration::from_secs(10)));
    // Who was allowed to stays so: the write may have failed.
    assert_eq!(memory.ask(&lost("a"), now), Now);
    let later = now + Duration::from_secs(10);
    assert_eq!(memory.ask(&lost("b"), later), Now);
    // With the last node everything stops, and all that are lost are looked at.
    assert_eq!(change(&memory, &lost("c")).len(), 3);
    assert_eq!(memory.ask(&lost("a"), later), Suspended);
    assert_eq!(change(&memory, &nodes[0]).len(), 2);
    assert_eq!(memory.ask(&lost("b"), later), Now);
}

#[tokio::test(start_paused = true)]
async fn a_lease_and_a_heartbeat_are_signs_of_life_and_our_own_writes_are_not() {
    let memory = Memory::default();
    let begin = Instant::now();
    memory.seed(&Cache::new(NODE), begin);
    let well = node("n", Some("True"), json!({}));
    assert_eq!(memory.heard(&well, begin), begin);
    let at = |seconds| begin + Duration::from_secs(seconds);
    let lease = |time: &str| {
        Object::new(json!({"metadata": {"namespace": "kube-node-lease", "name": "n"},
            "spec": {"renewTime": time}}))
    };
    memory.lease_changed(&lease("1"), at(10));
    memory.lease_changed(&lease("1"), at(20));
    assert_eq!(memory.heard(&well, at(20)), at(10));
    let unknown = node("n", Some("Unknown"), json!({}));
    memory.node_changed(&Change { old: None, new: Some(unknown.clone()) }, at(30));
    assert_eq!(memory.heard(&unknown, at(30)), at(10));
    let mut back = node("n", Some("True"), json!({})).value.clone();
    back["status"]["conditions"][0]["lastHeartbeatTime"] = json!("2026-01-01T00:01:00Z");
    let back = Arc::new(Object::new(back));
    memory.node_changed(&Change { old: None, new: Some(back.clone()) }, at(40));
    assert_eq!(memory.heard(&back, at(40)), at(40));
}
