//! Controllers under the identities and roles that they have in a cluster: nothing they write is
//! forbidden.

use controllers::kinds::{
    CLUSTER_ROLE, ENDPOINT_SLICE, ENDPOINTS, NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD,
    RESOURCE_QUOTA, SERVICE, STORAGE_CLASS,
};
use controllers::{ALL, Options, volume_binder};
use reconcile::plan::{Deletion, Target};
use reconcile::{Context, conditions};
use serde_json::{Value, json};
use testkit::Cluster;
use testkit::cluster::until;

/// What the program gives a controller: its own identity, and caches that all share.
fn context_as(cluster: &Cluster, shared: &Context, name: &str) -> Context {
    let user = format!("system:serviceaccount:kube-system:{name}");
    let groups =
        ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"];
    Context { client: cluster.client(&user, &groups), ..shared.clone() }
}

fn start(cluster: &mut Cluster, names: &[&str]) -> Context {
    let shared = cluster.context();
    for name in names {
        let entry = ALL.iter().find(|entry| entry.name == *name).expect("a controller");
        let context = context_as(cluster, &shared, name);
        cluster.run((entry.start)(context, &Options::default()));
    }
    shared
}

fn node(name: &str, ready: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"conditions": [{"type": "Ready", "status": ready,
            "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]},
    })
}

fn pod(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": name, "labels": {"app": "web"}},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "web"}],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists",
                "effect": "NoExecute", "tolerationSeconds": 0}]},
    })
}

#[tokio::test]
async fn addresses_are_written() {
    let mut cluster = Cluster::start().await;
    let context = start(&mut cluster, &["endpointslice-controller", "endpoint-controller"]);
    let requests = context.requests("test", Default::default());
    cluster.create(NODE, node("n", "True")).await;
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": "default", "name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    let service = cluster.create(SERVICE, service).await;
    until(&context, ENDPOINTS, |all| all.iter().any(|it| &*it.name.name == "web")).await;
    let pod = cluster.create(POD, pod("p", "n")).await;
    let status = json!({"status": {"phase": "Running", "podIP": "10.1.0.1",
        "podIPs": [{"ip": "10.1.0.1"}], "conditions": [{"type": "Ready", "status": "True"}]}});
    requests.patch(&Target::of(POD, &pod).part("status"), &status).await.expect("a status");
    until(&context, ENDPOINT_SLICE, |all| {
        all.iter().any(|it| it.value["endpoints"][0]["addresses"][0] == "10.1.0.1")
    })
    .await;
    until(&context, ENDPOINTS, |all| {
        all.iter().any(|it| it.value["subsets"][0]["addresses"][0]["ip"] == "10.1.0.1")
    })
    .await;
    let target = Target::of(SERVICE, &service);
    requests.delete(&target, &Deletion::default()).await.expect("deleted");
    until(&context, ENDPOINTS, |all| all.iter().all(|it| &*it.name.name != "web")).await;
}

#[tokio::test]
async fn pods_are_driven_from_a_node_that_is_not_ready() {
    let mut cluster = Cluster::start().await;
    let context = start(&mut cluster, &["node-controller"]);
    cluster.create(NODE, node("well", "True")).await;
    cluster.create(NODE, node("ill", "False")).await;
    cluster.create(POD, pod("p", "ill")).await;
    until(&context, NODE, |all| {
        let ill = all.iter().find(|node| &*node.name.name == "ill");
        ill.is_some_and(|node| {
            node.value["spec"]["taints"].as_array().is_some_and(|it| it.len() == 2)
        })
    })
    .await;
    until(&context, POD, |all| {
        let told =
            |pod: &reconcile::Object| conditions::is_true(&pod.value["status"], "DisruptionTarget");
        all.iter().all(|pod| pod.is_terminating() && told(pod))
    })
    .await;
}

#[tokio::test]
async fn volumes_are_made_bound_and_removed() {
    let mut cluster = Cluster::start().await;
    let context = start(
        &mut cluster,
        &["persistent-volume-binder", "pvc-protection-controller", "pv-protection-controller"],
    );
    let requests = context.requests("test", Default::default());
    cluster.create(NODE, node("n", "True")).await;
    cluster.create(STORAGE_CLASS, volume_binder::default_class()).await;
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": "default", "name": "c",
            "annotations": {"volume.kubernetes.io/selected-node": "n"}},
        "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}});
    let claim = cluster.create(PERSISTENT_VOLUME_CLAIM, claim).await;
    until(&context, PERSISTENT_VOLUME_CLAIM, |all| {
        all.iter().any(|it| it.value["status"]["phase"] == "Bound")
    })
    .await;
    until(&context, PERSISTENT_VOLUME, |all| {
        all.iter().any(|it| it.value["status"]["phase"] == "Bound")
    })
    .await;
    let target = Target::of(PERSISTENT_VOLUME_CLAIM, &claim);
    requests.delete(&target, &Deletion::default()).await.expect("deleted");
    until(&context, PERSISTENT_VOLUME_CLAIM, <[_]>::is_empty).await;
    until(&context, PERSISTENT_VOLUME, <[_]>::is_empty).await;
}

#[tokio::test]
async fn quotas_are_counted_and_roles_aggregated() {
    let mut cluster = Cluster::start().await;
    let names = ["resourcequota-controller", "clusterrole-aggregation-controller"];
    let context = start(&mut cluster, &names);
    cluster.create(POD, pod("p", "n")).await;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"namespace": "default", "name": "q"},
        "spec": {"hard": {"pods": "5", "count/deployments.apps": "2"}}});
    cluster.create(RESOURCE_QUOTA, quota).await;
    until(&context, RESOURCE_QUOTA, |all| {
        all.iter().any(|it| it.value["status"]["used"]["pods"] == "1")
    })
    .await;
    until(&context, CLUSTER_ROLE, |all| {
        let admin = all.iter().find(|role| &*role.name.name == "admin");
        admin.is_some_and(|it| it.value["rules"].as_array().is_some_and(|it| it.len() > 5))
    })
    .await;
}
