//! Which pods this node takes.

use reconcile::Object;
use serde_json::{Value, json};

use super::super::admission::Ledger;
use super::pod;

fn node() -> Object {
    Object::new(json!({"metadata": {"name": "n", "labels": {"zone": "a", "size": "7"}},
        "status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "3",
            "ephemeral-storage": "10Gi", "nvidia.com/gpu": "1"}}}))
}

/// A pod that asks for something, as `cpu=1 port=80`.
fn asks(name: &str, text: &str) -> Value {
    let mut pod = pod("Always", "main:a");
    pod["metadata"]["uid"] = json!(name);
    for one in text.split(' ').filter(|one| !one.is_empty()) {
        let (what, amount) = one.split_once('=').unwrap();
        let container = &mut pod["spec"]["containers"][0];
        match what {
            "port" => {
                container["ports"] = json!([{"hostPort": amount.parse::<u16>().unwrap(),
                "protocol": "TCP"}])
            }
            "zone" => pod["spec"]["nodeSelector"] = json!({"zone": amount}),
            "os" => pod["spec"]["os"] = json!({"name": amount}),
            _ => container["resources"]["requests"][what] = json!(amount),
        }
    }
    pod
}

/// What is there, what comes, and why it is not taken.
const CASES: &[(&str, &str, &str)] = &[
    ("", "cpu=2 memory=1Gi", ""),
    ("cpu=1500m", "cpu=500m", ""),
    (
        "cpu=1500m",
        "cpu=501m",
        "OutOfcpu: Pod was rejected: Node didn't have enough resource: \
     cpu, requested: 501, used: 1500, capacity: 2000",
    ),
    (
        "memory=1Gi",
        "memory=1",
        "OutOfmemory: Pod was rejected: Node didn't have enough resource: \
     memory, requested: 1, used: 1073741824, capacity: 1073741824",
    ),
    (
        ";;",
        "",
        "OutOfpods: Pod was rejected: Node didn't have enough resource: pods, requested: 1, \
     used: 3, capacity: 3",
    ),
    (
        "nvidia.com/gpu=1",
        "nvidia.com/gpu=1",
        "UnexpectedAdmissionError: Pod was rejected: Node \
     didn't have enough resource: nvidia.com/gpu, requested: 1, used: 1, capacity: 1",
    ),
    (
        "",
        "ephemeral-storage=11Gi",
        "OutOfephemeral-storage: Pod was rejected: Node didn't have \
     enough resource: ephemeral-storage, requested: 11811160064, used: 0, capacity: 10737418240",
    ),
    ("", "other.io/thing=5", ""),
    ("port=80", "port=81", ""),
    (
        "port=80",
        "port=80",
        "NodePorts: Pod was rejected: Predicate NodePorts failed: node(s) \
     didn't have free ports for the requested pod ports",
    ),
    ("", "zone=a", ""),
    (
        "",
        "zone=b",
        "NodeAffinity: Pod was rejected: Predicate NodeAffinity failed: node(s) didn't \
     match Pod's node affinity/selector",
    ),
    ("", "os=linux", ""),
    (
        "",
        "os=windows",
        "PodOSNotSupported: Pod was rejected: Failed to admit pod as the OS field \
     doesn't match node OS",
    ),
];

#[test]
fn pods_are_taken_while_there_is_room() {
    for (there, comes, expected) in CASES {
        let ledger = Ledger::default();
        let held: Vec<&str> =
            if there.is_empty() { Vec::new() } else { there.split(';').collect() };
        for (number, text) in held.iter().enumerate() {
            let pod = Object::new(asks(&number.to_string(), text));
            ledger.admit(&pod, Some(&node())).unwrap();
        }
        let comer = Object::new(asks("x", comes));
        let admitted = ledger.admit(&comer, Some(&node()));
        let told = admitted.map_or_else(|refusal| refusal.to_string(), |()| String::new());
        assert_eq!(told, *expected, "{there} {comes}");
        // When the others are gone there is room, if room was all that lacked.
        (0..held.len()).for_each(|number| ledger.release(&number.to_string()));
        let by_itself = ledger.admit(&comer, Some(&node()));
        assert!(by_itself.is_ok() || there.is_empty(), "{there} {comes}");
    }
}

#[test]
fn a_pod_that_was_taken_stays_so() {
    let ledger = Ledger::default();
    let mut value = asks("x", "cpu=9");
    assert!(ledger.admit(&Object::new(value.clone()), Some(&node())).is_err());
    value["status"]["startTime"] = json!("2026-01-01T00:00:00Z");
    assert!(ledger.admit(&Object::new(value), Some(&node())).is_ok());
    let next = Object::new(asks("y", "cpu=1"));
    assert!(ledger.admit(&next, Some(&node())).is_err());
}

#[test]
fn a_pod_with_resource_claims_that_names_its_node_is_refused() {
    let mut value = asks("x", "");
    value["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimName": "one"}]);
    let refused = Ledger::default().admit(&Object::new(value), Some(&node()));
    let refusal = refused.expect_err("devices that no scheduler allocated").to_string();
    assert_eq!(
        refusal,
        "UnexpectedAdmissionError: Pod was rejected: this node cannot allocate the devices of \
         resource claims (spec.resourceClaims)"
    );
}

fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": operator, "values": values})
}

#[test]
fn affinity_is_as_the_scheduler_has_it() {
    for (expressions, expected) in [
        (vec![expression("zone", "In", &["a", "b"])], true),
        (vec![expression("zone", "NotIn", &["a"])], false),
        (vec![expression("none", "NotIn", &["a"])], true),
        (vec![expression("zone", "Exists", &[])], true),
        (vec![expression("zone", "DoesNotExist", &[])], false),
        (vec![expression("size", "Gt", &["6"])], true),
        (vec![expression("size", "Lt", &["6"])], false),
        (vec![expression("zone", "In", &["a"]), expression("none", "Exists", &[])], false),
        (vec![], false),
    ] {
        let mut value = asks("x", "");
        let terms = json!({"nodeSelectorTerms": [{"matchExpressions": expressions}]});
        let affinity = &mut value["spec"]["affinity"]["nodeAffinity"];
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = terms;
        let taken = Ledger::default().admit(&Object::new(value), Some(&node())).is_ok();
        assert_eq!(taken, expected, "{expressions:?}");
    }
}
