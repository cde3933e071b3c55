//! DaemonSets in a cluster whose pods are played.

use std::sync::Arc;
use std::time::Duration;

use controllers::daemon_set::Controller;
use controllers::kinds::{CONTROLLER_REVISION, DAEMON_SET, NODE, POD};
use reconcile::plan::Target;
use reconcile::{Context, Object, conditions, run};
use serde_json::{Value, json};
use testkit::cluster::until;
use testkit::simulation::{self, Trial};
use testkit::{Cluster, pods};

fn log(image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"namespace": "default", "name": "log"},
        "spec": {"selector": {"matchLabels": {"app": "log"}},
            "template": {"metadata": {"labels": {"app": "log"}},
                "spec": {"containers": [{"name": "main", "image": image}]}}},
    })
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
}

/// Adds a node that takes pods.
async fn add_node(cluster: &Cluster, context: &Context, name: &str) -> Object {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    let made = cluster.create(NODE, node).await;
    let requests = context.requests("test", Default::default());
    let patch = json!({"spec": {"taints": null}});
    requests.patch(&Target::of(NODE, &made), &patch).await.expect("a node without taints")
}

async fn cluster() -> (Cluster, Context) {
    let mut cluster = Cluster::start().await;
    let context = cluster.context();
    cluster.run(run::run(context.clone(), Controller::default()));
    cluster.run(pods::play(context.clone()));
    (cluster, context)
}

async fn change(context: &Context, object: &Object, patch: Value) {
    let requests = context.requests("test", Default::default());
    requests.patch(&Target::of(DAEMON_SET, object), &patch).await.expect("changed");
}

/// What `kubectl rollout status` waits for.
async fn until_rolled_out(context: &Context, image: &str, nodes: usize) {
    until(context, DAEMON_SET, |all| {
        all.iter().any(|set| {
            let status = &set.value["status"];
            set.value["spec"]["template"]["spec"]["containers"][0]["image"] == image
                && status["observedGeneration"] == set.generation()
                && status["desiredNumberScheduled"] == nodes
                && status["updatedNumberScheduled"] == nodes
                && status["numberAvailable"] == nodes
        })
    })
    .await;
}

#[tokio::test]
async fn every_node_has_a_pod_and_every_pod_is_updated() {
    let (cluster, context) = cluster().await;
    for name in ["n1", "n2", "n3"] {
        add_node(&cluster, &context, name).await;
    }
    let set = cluster.create(DAEMON_SET, log("one")).await;
    until_rolled_out(&context, "one", 3).await;
    change(&context, &set, image("two")).await;
    until_rolled_out(&context, "two", 3).await;
    until(&context, CONTROLLER_REVISION, |all| all.len() == 2).await;
    let before: Vec<String> = context.cache(POD).all().iter().map(|pod| pod.uid.clone()).collect();
    change(&context, &set, image("one")).await;
    until_rolled_out(&context, "one", 3).await;
    assert!(context.cache(POD).all().iter().all(|pod| !before.contains(&pod.uid)));
    assert_eq!(context.cache(CONTROLLER_REVISION).len(), 2);
}

#[tokio::test]
async fn a_new_node_gets_a_pod_and_a_tainted_one_loses_it() {
    let (cluster, context) = cluster().await;
    let first = add_node(&cluster, &context, "n1").await;
    cluster.create(DAEMON_SET, log("one")).await;
    until_rolled_out(&context, "one", 1).await;
    add_node(&cluster, &context, "n2").await;
    until_rolled_out(&context, "one", 2).await;
    let requests = context.requests("test", Default::default());
    let patch = json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}});
    requests.patch(&Target::of(NODE, &first), &patch).await.expect("tainted");
    until_rolled_out(&context, "one", 1).await;
    until(&context, POD, |all| all.len() == 1).await;
}

#[tokio::test]
async fn with_a_surge_no_node_is_ever_without_a_ready_pod() {
    let (cluster, context) = cluster().await;
    for name in ["n1", "n2"] {
        add_node(&cluster, &context, name).await;
    }
    let mut surging = log("one");
    surging["spec"]["updateStrategy"] = json!({"type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    let set = cluster.create(DAEMON_SET, surging).await;
    until_rolled_out(&context, "one", 2).await;
    let fewest = Arc::new(std::sync::atomic::AtomicUsize::new(usize::MAX));
    let cache = context.cache(POD);
    let (pods, least) = (cache.clone(), fewest.clone());
    cache.subscribe(move |_| {
        let all = pods.all();
        let ready = all.iter().filter(|pod| {
            !pod.is_terminating() && conditions::is_true(&pod.value["status"], "Ready")
        });
        least.fetch_min(ready.count(), std::sync::atomic::Ordering::Relaxed);
    });
    change(&context, &set, image("two")).await;
    until_rolled_out(&context, "two", 2).await;
    until(&context, POD, |all| all.len() == 2).await;
    assert_eq!(fewest.load(std::sync::atomic::Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_pod_that_failed_is_replaced() {
    let (cluster, context) = cluster().await;
    add_node(&cluster, &context, "n1").await;
    cluster.create(DAEMON_SET, log("one")).await;
    until_rolled_out(&context, "one", 1).await;
    for _ in 0..2 {
        let failed = context.cache(POD).all().remove(0);
        let requests = context.requests("test", Default::default());
        let status = json!({"status": {"phase": "Failed", "conditions": null}});
        requests.patch(&Target::of(POD, &failed).part("status"), &status).await.expect("failed");
        until(&context, POD, |all| {
            all.iter().any(|pod| {
                pod.uid != failed.uid && conditions::is_true(&pod.value["status"], "Ready")
            })
        })
        .await;
        // Who waits for the name to go must not wait for ever.
        assert!(context.cache(POD).all().iter().all(|pod| pod.name != failed.name));
    }
}

/// A set on two nodes gets another template, and then a third node comes.
const ROLLED: Trial = Trial {
    name: "daemon-set-controller",
    seed: 1,
    component: |context| Box::pin(run::run(context, Controller::default())),
    workload: |cluster, context| {
        Box::pin(async move {
            add_node(&cluster, &context, "n1").await;
            add_node(&cluster, &context, "n2").await;
            let made = cluster.create(DAEMON_SET, log("one")).await;
            tokio::time::sleep(Duration::from_secs(1_800)).await;
            change(&context, &made, image("two")).await;
            tokio::time::sleep(Duration::from_secs(1_800)).await;
            add_node(&cluster, &context, "n3").await;
        })
    },
    play: |context| Box::pin(pods::play(context)),
};

#[test]
fn no_fault_of_a_request_changes_where_daemons_end() {
    let plans = simulation::try_everything(ROLLED);
    println!("{plans} plans");
    assert!(plans > 50, "{plans}");
}
