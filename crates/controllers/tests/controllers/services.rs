//! EndpointSlices and Endpoints in a cluster whose pods are made by hand.

use std::sync::Arc;
use std::time::Duration;

use controllers::kinds::{ENDPOINT_SLICE, ENDPOINTS, NODE, POD, SERVICE};
use controllers::{endpoint_slice, endpoints};
use reconcile::plan::{Deletion, Target};
use reconcile::requests::Requests;
use reconcile::{Object, run};
use serde_json::{Value, json};
use testkit::Cluster;
use testkit::cluster::until;
use testkit::simulation::{self, Trial};

fn web() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": "default", "name": "web"},
        "spec": {"clusterIP": "10.96.0.77", "selector": {"app": "web"},
            "ports": [{"port": 80, "targetPort": 8080}]},
    })
}

async fn node(cluster: &Cluster) {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n",
        "labels": {"topology.kubernetes.io/zone": "z"}}});
    cluster.create(NODE, node).await;
}

/// A pod that runs and is ready.
async fn pod(cluster: &Cluster, requests: &Requests, number: u8) -> Object {
    let pod = cluster
        .create(
            POD,
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"namespace": "default", "name": format!("web-{number}"),
                    "labels": {"app": "web"}},
                "spec": {"nodeName": "n", "containers": [{"name": "main", "image": "web"}]},
            }),
        )
        .await;
    let ip = format!("10.1.0.{number}");
    let status = json!({"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
        "conditions": [{"type": "Ready", "status": "True",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    requests.patch(&Target::of(POD, &pod).part("status"), &status).await.expect("a status");
    pod
}

fn ready(slices: &[Arc<Object>]) -> usize {
    let endpoints = slices.iter().filter_map(|slice| slice.value["endpoints"].as_array());
    endpoints.flatten().filter(|endpoint| endpoint["conditions"]["ready"] == true).count()
}

fn addresses(all: &[Arc<Object>], field: &str) -> usize {
    let web = all.iter().filter(|endpoints| &*endpoints.name.name == "web");
    let subsets = web.filter_map(|endpoints| endpoints.value["subsets"].as_array()).flatten();
    subsets.filter_map(|subset| subset[field].as_array()).map(Vec::len).sum()
}

#[tokio::test]
async fn pods_come_into_slices_and_endpoints_and_go_out_of_them() {
    let mut cluster = Cluster::start().await;
    let context = cluster.context();
    cluster.run(run::run(context.clone(), endpoint_slice::Controller));
    cluster.run(endpoints::start(context.clone()));
    let requests = context.requests("test", Default::default());
    node(&cluster).await;
    let service = cluster.create(SERVICE, web()).await;
    let ours = |slices: &[Arc<Object>]| -> Vec<Arc<Object>> {
        let of_service = |slice: &&Arc<Object>| slice.controller() == Some(&service.uid);
        slices.iter().filter(of_service).cloned().collect()
    };
    until(&context, ENDPOINT_SLICE, |slices| ours(slices).len() == 1).await;
    until(&context, ENDPOINTS, |all| all.iter().any(|one| &*one.name.name == "web")).await;
    let first = pod(&cluster, &requests, 1).await;
    pod(&cluster, &requests, 2).await;
    until(&context, ENDPOINT_SLICE, |slices| ready(&ours(slices)) == 2).await;
    until(&context, ENDPOINTS, |all| addresses(all, "addresses") == 2).await;
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    requests.patch(&Target::of(POD, &first).part("status"), &unready).await.expect("a status");
    until(&context, ENDPOINT_SLICE, |slices| ready(&ours(slices)) == 1).await;
    until(&context, ENDPOINTS, |all| addresses(all, "notReadyAddresses") == 1).await;
    let now = Deletion { grace_seconds: Some(0), ..Deletion::default() };
    requests.delete(&Target::of(POD, &first), &now).await.expect("deleted");
    until(&context, ENDPOINTS, |all| addresses(all, "notReadyAddresses") == 0).await;
    requests.delete(&Target::of(SERVICE, &service), &Deletion::default()).await.expect("deleted");
    until(&context, ENDPOINTS, |all| all.iter().all(|one| &*one.name.name != "web")).await;
}

async fn pause() {
    tokio::time::sleep(Duration::from_secs(3_600)).await;
}

/// A service and pods that come, cease to be ready and go.
async fn come_and_go(cluster: &Cluster, requests: &Requests) -> Object {
    let now = Deletion { grace_seconds: Some(0), ..Deletion::default() };
    node(cluster).await;
    let service = cluster.create(SERVICE, web()).await;
    let first = pod(cluster, requests, 1).await;
    pod(cluster, requests, 2).await;
    pause().await;
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    requests.patch(&Target::of(POD, &first).part("status"), &unready).await.expect("a status");
    pause().await;
    requests.delete(&Target::of(POD, &first), &now).await.expect("deleted");
    pause().await;
    let labels = json!({"metadata": {"labels": {"team": "x"}}});
    requests.patch(&Target::of(SERVICE, &service), &labels).await.expect("labels");
    pause().await;
    service
}

const SLICES: Trial = Trial {
    name: "endpointslice-controller",
    seed: 1,
    component: |context| Box::pin(run::run(context, endpoint_slice::Controller)),
    workload: |cluster, context| {
        Box::pin(async move {
            come_and_go(&cluster, &context.requests("test", Default::default())).await;
        })
    },
    play: |_| Box::pin(std::future::pending()),
};

/// Then the service goes and comes again.
const ENDPOINTS_TRIAL: Trial = Trial {
    name: "endpoint-controller",
    component: endpoints::start,
    workload: |cluster, context| {
        Box::pin(async move {
            let requests = context.requests("test", Default::default());
            let service = come_and_go(&cluster, &requests).await;
            let target = Target::of(SERVICE, &service);
            requests.delete(&target, &Deletion::default()).await.expect("deleted");
            pause().await;
            cluster.create(SERVICE, web()).await;
        })
    },
    ..SLICES
};

#[test]
fn no_fault_of_a_request_changes_which_slices_there_are() {
    let plans = simulation::try_everything(SLICES);
    println!("{plans} plans");
    assert!(plans > 30, "{plans}");
}

#[test]
fn no_fault_of_a_request_changes_which_endpoints_there_are() {
    let plans = simulation::try_everything(ENDPOINTS_TRIAL);
    println!("{plans} plans");
    assert!(plans > 30, "{plans}");
}
