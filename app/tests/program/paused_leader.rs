//! A leader that is stopped in the midst of its work and goes on after its lease has ended: what it
//! had begun is refused, nothing is done twice, it follows, and it may lead again.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::several_nodes::{LEASE, Nodes};

const LEASES: [&str; 2] = [LEASE, "kube-scheduler"];

/// No node is for these pods: what counts is who makes them.
const MANY: &str = "
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: many}
spec:
  replicas: 200
  selector: {matchLabels: {app: many}}
  template:
    metadata: {labels: {app: many}}
    spec:
      nodeSelector: {nowhere: 'true'}
      containers: [{name: main, image: none}]
";

/// Every start is written down.
const WORK: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec:
  replicas: 2
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      nodeSelector: {kubernetes.io/hostname: NODE}
      containers:
      - name: main
        image: none
        command: [sh, -c, 'echo $POD >> RECORD; exec sleep 1000']
        env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
";

/// Has two pods run on a node.
fn work(nodes: &Nodes, name: &str, node: &str) {
    let record = nodes.sandbox.work().join("record").display().to_string();
    let manifest = WORK.replace("NAME", name).replace("NODE", node).replace("RECORD", &record);
    nodes.kubectl("create -f -", &manifest);
    nodes.kubectl(&format!("rollout status deployment/{name} --timeout=120s"), "");
}

fn wake_up_late(mut nodes: Nodes) {
    nodes.are_ready();
    let leader = nodes.leader(LEASE, "");
    let other = if leader == "node-1" { "node-2" } else { "node-1" };
    work(&nodes, "before", &leader);
    nodes.kubectl("create -f -", MANY);
    let many = "get pods -l app=many -o name";
    nodes.until(many, |names| !names.is_empty());
    nodes.signal(&leader, "STOP");
    for lease in LEASES {
        assert_eq!(nodes.leader(lease, &leader), other);
    }
    nodes.until(many, |names| names.lines().count() == 200);
    work(&nodes, "meanwhile", other);
    nodes.kubectl("scale replicaset many --replicas=5", "");
    nodes.until(many, |names| names.lines().count() == 5);
    let pods = "/api/v1/namespaces/default/pods?labelSelector=app%3Dmany";
    let list = nodes.kubectl(&format!("get --raw {pods}&limit=1"), "");
    let list: Value = serde_json::from_str(&list).expect("a list");
    let revision = list["metadata"]["resourceVersion"].as_str().expect("a revision");

    nodes.signal(&leader, "CONT");
    work(&nodes, "after", &leader);
    for lease in LEASES {
        assert_eq!(nodes.leader(lease, ""), other);
    }
    nodes.stop(other);
    // Who ends in good order leaves nothing to wait for.
    for lease in LEASES {
        assert_eq!(nodes.leader(lease, other), leader);
    }
    work(&nodes, "again", &leader);
    let log = nodes.stop(&leader);
    let has_followed = |line: &str| line.contains(LEASE) && line.contains("Follower(Some");
    assert!(log.lines().any(has_followed), "{log}");
    let since = format!("watch=true&timeoutSeconds=1&resourceVersion={revision}");
    let events = nodes.kubectl(&format!("get --raw {pods}&{since}"), "");
    assert!(!events.contains("\"ADDED\""), "who leads no more makes nothing: {events}");
    let starts = fs::read_to_string(nodes.sandbox.work().join("record")).unwrap_or_default();
    let names: BTreeSet<&str> = starts.lines().collect();
    assert_eq!((names.len(), starts.lines().count()), (8, 8), "each ran once: {starts}");
    nodes.end();
}

#[test]
fn a_leader_on_mariadb_that_wakes_up_late_does_no_harm() {
    wake_up_late(Nodes::on_mariadb("paused"));
}

#[test]
fn a_leader_on_etcd_that_wakes_up_late_does_no_harm() {
    let etcd = servers::Etcd::start().expect("etcd must start");
    wake_up_late(Nodes::on_etcd(&etcd));
}
