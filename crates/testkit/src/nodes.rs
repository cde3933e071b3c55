//! Plays nodes: they register, say that they are well, and take the pods that nobody placed.

use std::time::Duration;

use reconcile::conditions::time;
use reconcile::leader::LEASE;
use reconcile::plan::Target;
use reconcile::{Context, Kind, Name, Object};
use serde_json::{Value, json};

use crate::pods::POD;

pub const NODE: Kind = Kind::cluster("", "v1", "Node", "nodes");
/// How often a node renews its lease.
const HEARTBEAT: Duration = Duration::from_secs(10);
const LEASE_SECONDS: u64 = 40;
const LEASES: &str = "kube-node-lease";

/// A node that is ready, with room for 110 pods.
pub async fn register(context: &Context, name: &str) -> Object {
    let requests = context.requests("node", Default::default());
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name,
        "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}}});
    let node = requests.create(NODE, &node).await.expect("a node must be registered");
    let now = time(context.environment.now());
    let room = json!({"cpu": "8", "memory": "32Gi", "pods": "110"});
    let status = json!({"status": {
        "capacity": room, "allocatable": room,
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady",
            "message": "the node is ready", "lastHeartbeatTime": now,
            "lastTransitionTime": now}],
        "addresses": [{"type": "InternalIP", "address": "192.0.2.1"},
            {"type": "Hostname", "address": name}],
    }});
    let target = Target::of(NODE, &node).part("status");
    requests.patch(&target, &status).await.expect("a node must say that it is well")
}

/// Renews the lease of a node for as long as it is polled. A node whose future is dropped is lost.
pub async fn beat(context: Context, name: &'static str) {
    let requests = context.requests("node", Default::default());
    loop {
        let now = context.environment.now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        let spec = json!({"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": now});
        let found = requests.get(LEASE, &Name::new(LEASES, name)).await.ok().flatten();
        let _ = match found {
            Some(lease) => requests.patch(&Target::of(LEASE, &lease), &json!({"spec": spec})).await,
            None => {
                let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                    "metadata": {"namespace": LEASES, "name": name}, "spec": spec});
                requests.create(LEASE, &lease).await
            }
        };
        tokio::time::sleep(HEARTBEAT).await;
    }
}

/// Places every pod without a node: on the one its affinity names, or on one that follows from its
/// name. Never returns.
pub async fn place(context: Context) {
    let (pods, nodes) = (context.cache(POD), context.cache(NODE));
    loop {
        let (seen, known) = (pods.seen(), nodes.seen());
        let names: Vec<String> =
            nodes.all().iter().map(|node| node.name.name.to_string()).collect();
        for pod in pods.all() {
            let is_placed = pod.value["spec"]["nodeName"].is_string();
            if let (false, false, Some(node)) =
                (is_placed, pod.is_terminating(), chosen(&pod, &names))
            {
                bind(&context, &pod, &node).await;
            }
        }
        tokio::select! {
            biased;
            () = pods.reaches(seen + 1) => {}
            () = nodes.reaches(known + 1) => {}
        }
    }
}

async fn bind(context: &Context, pod: &Object, node: &str) {
    let requests = context.requests("scheduler", Default::default());
    let (namespace, name) = (&pod.name.namespace, &pod.name.name);
    let path = format!("{}/binding", POD.path(namespace, name));
    let binding = json!({"apiVersion": "v1", "kind": "Binding",
        "metadata": {"namespace": &**namespace, "name": &**name, "uid": pod.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
    let _ = requests.post(&path, &binding).await;
}

fn chosen(pod: &Object, nodes: &[String]) -> Option<String> {
    if let Some(named) = named(&pod.value) {
        return nodes.iter().find(|node| **node == named).cloned();
    }
    let sum: usize = pod.name.name.bytes().map(usize::from).sum();
    nodes.get(sum.checked_rem(nodes.len())?).cloned()
}

/// The node that a DaemonSet's pod is for.
fn named(pod: &Value) -> Option<String> {
    let affinity = &pod["spec"]["affinity"]["nodeAffinity"];
    let terms = &affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    let fields = terms.as_array()?.iter().flat_map(|term| term["matchFields"].as_array());
    let name = fields.flatten().find(|field| field["key"] == "metadata.name")?;
    name["values"][0].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_goes_where_its_affinity_says() {
        let nodes = ["a".to_owned(), "b".to_owned()];
        let plain = Object::new(json!({"metadata": {"name": "x"}}));
        assert!(chosen(&plain, &nodes).is_some());
        assert_eq!(chosen(&plain, &[]), None);
        let daemon = Object::new(json!({"metadata": {"name": "x"}, "spec": {"affinity":
            {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In",
                "values": ["b"]}]}]}}}}}));
        assert_eq!(chosen(&daemon, &nodes).as_deref(), Some("b"));
    }
}
