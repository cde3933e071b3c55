//! Nodes that fall silent, in a world of virtual time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controllers::kinds::{LEASE, NODE, POD};
use controllers::{Options, node_lifecycle};
use reconcile::plan::Target;
use reconcile::{Context, Name, conditions};
use serde_json::{Value, json};
use testkit::simulation::{self, Trial};
use testkit::{Cluster, pods};

async fn node(cluster: &Cluster, name: &str) {
    cluster
        .create(
            NODE,
            json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
                "status": {"conditions": [{"type": "Ready", "status": "True",
                    "reason": "KubeletReady", "lastHeartbeatTime": "2026-01-01T00:00:00Z",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
            }),
        )
        .await;
}

async fn pod(cluster: &Cluster, name: &str, node: &str, tolerations: Value) {
    cluster
        .create(
            POD,
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"namespace": "default", "name": name},
                "spec": {"nodeName": node, "tolerations": tolerations,
                    "containers": [{"name": "main", "image": "web"}]},
            }),
        )
        .await;
}

fn tolerating(seconds: Option<u32>) -> Value {
    let mut toleration = json!({"key": "node.kubernetes.io/unreachable", "operator": "Exists",
        "effect": "NoExecute"});
    if let Some(seconds) = seconds {
        toleration["tolerationSeconds"] = json!(seconds);
    }
    json!([toleration])
}

/// Plays the agent of a node for so long: renews its lease, and says that it is ready to whoever
/// says otherwise.
async fn live(cluster: &Cluster, context: &Context, name: &str, seconds: u64) {
    let requests = context.requests("test", Default::default());
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"namespace": "kube-node-lease", "name": name}, "spec": {}});
    let lease = cluster.create(LEASE, lease).await;
    for _ in 0..seconds / 30 {
        let now = conditions::time(context.environment.now());
        let renewed = json!({"spec": {"renewTime": now.replace('Z', ".000000Z")}});
        requests.patch(&Target::of(LEASE, &lease), &renewed).await.expect("renewed");
        let node = requests.get(NODE, &Name::new("", name)).await.expect("an answer");
        let node = node.expect("a node");
        if !conditions::is_true(&node.value["status"], "Ready") {
            let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True",
                "reason": "KubeletReady", "lastHeartbeatTime": now}]}});
            requests.patch(&Target::of(NODE, &node).part("status"), &ready).await.expect("ready");
        }
        tokio::time::sleep(Duration::from_secs(30)).await;
    }
}

/// Three nodes, two of which are silent from the start; the third lives on for a while.
async fn two_are_lost(cluster: Arc<Cluster>, context: Context, seconds: u64) {
    for name in ["a", "b", "c"] {
        node(&cluster, name).await;
        pod(&cluster, &format!("patient-{name}"), name, tolerating(None)).await;
        pod(&cluster, &format!("hasty-{name}"), name, tolerating(Some(60))).await;
    }
    live(&cluster, &context, "a", seconds).await;
}

const LOST: Trial = Trial {
    name: "node-controller",
    seed: 1,
    component: |context| node_lifecycle::start(context, &Options::default()),
    workload: |cluster, context| Box::pin(two_are_lost(cluster, context, 4_800)),
    play: |context| Box::pin(pods::play(context)),
};

/// After everything, the last node is lost too, and a user drives its pods away.
const ALL_LOST: Trial = Trial {
    workload: |cluster, context| {
        Box::pin(async move {
            two_are_lost(cluster.clone(), context.clone(), 4_800).await;
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            let requests = context.requests("test", Default::default());
            let name = Name::new("", "a");
            let node = context.get_live(NODE, &name).await.expect("an answer").expect("a node");
            let mut taints = node.value["spec"]["taints"].as_array().cloned().unwrap_or_default();
            taints.push(json!({"key": "maintenance", "effect": "NoExecute"}));
            let patch = json!({"spec": {"taints": taints}});
            requests.patch(&Target::of(NODE, &node), &patch).await.expect("tainted");
        })
    },
    ..LOST
};

fn names<'a>(objects: &'a BTreeMap<String, Value>, prefix: &str) -> Vec<&'a str> {
    objects.keys().filter_map(|key| key.strip_prefix(prefix)).collect()
}

fn taints(node: &Value) -> Vec<String> {
    let all = node["spec"]["taints"].as_array().into_iter().flatten();
    let mut all: Vec<_> = all
        .map(|taint| {
            let text = |field: &str| taint[field].as_str().unwrap_or_default().to_owned();
            format!("{}:{}", text("key").replace("node.kubernetes.io/", ""), text("effect"))
        })
        .collect();
    all.sort();
    all
}

#[test]
fn pods_leave_lost_nodes_when_their_patience_ends() {
    let end = simulation::run(ALL_LOST, ALL_LOST.seed, Vec::new());
    assert!(end.is_settled);
    // Nobody who tolerates it for ever has left; on the last node nobody had to.
    assert_eq!(
        names(&end.objects, "pods/default/"),
        ["patient-b", "patient-c"],
        "{:?}",
        end.objects.keys()
    );
    for (name, expected) in [
        ("a", &["maintenance:NoExecute", "unreachable:NoSchedule"][..]),
        ("b", &["unreachable:NoSchedule"]),
        ("c", &["unreachable:NoSchedule"]),
    ] {
        let node = &end.objects[&format!("nodes/{name}")];
        assert_eq!(taints(node), expected, "{name}");
        assert!(!conditions::is_true(&node["status"], "Ready"));
    }
}

#[test]
fn no_fault_of_a_request_changes_who_leaves() {
    let plans = simulation::try_everything(ALL_LOST);
    println!("{plans} plans");
    assert!(plans > 100, "{plans}");
}
