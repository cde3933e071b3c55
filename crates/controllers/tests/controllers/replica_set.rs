//! ReplicaSets in a cluster whose pods are played.

use std::time::Duration;

use controllers::kinds::{POD, REPLICA_SET};
use controllers::replica_set::Controller;
use reconcile::plan::Target;
use reconcile::run;
use serde_json::{Value, json};
use testkit::cluster::until;
use testkit::simulation::{self, Trial};
use testkit::{Cluster, pods};

fn web(replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"namespace": "default", "name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "web"}]}}},
    })
}

#[tokio::test]
async fn a_replica_set_has_as_many_pods_as_it_says() {
    let mut cluster = Cluster::start().await;
    let context = cluster.context();
    cluster.run(run::run(context.clone(), Controller));
    cluster.run(pods::play(context.clone()));
    let set = cluster.create(REPLICA_SET, web(20)).await;
    until(&context, REPLICA_SET, |sets| {
        sets.iter().any(|set| set.value["status"]["availableReplicas"] == 20)
    })
    .await;
    let requests = context.requests("test", Default::default());
    let target = Target::of(REPLICA_SET, &set);
    requests.patch(&target, &json!({"spec": {"replicas": 3}})).await.expect("scaled");
    until(&context, POD, |pods| pods.len() == 3).await;
    until(&context, REPLICA_SET, |sets| {
        sets.iter().any(|set| set.value["status"]["replicas"] == 3)
    })
    .await;
}

/// One set of three pods, scaled to one and back to two.
const SCALED: Trial = Trial {
    name: "replicaset-controller",
    seed: 1,
    component: |context| Box::pin(run::run(context, Controller)),
    workload: |cluster, context| {
        Box::pin(async move {
            let set = cluster.create(REPLICA_SET, web(3)).await;
            let requests = context.requests("test", Default::default());
            for replicas in [1, 2] {
                tokio::time::sleep(Duration::from_secs(1_800)).await;
                let patch = json!({"spec": {"replicas": replicas}});
                requests.patch(&Target::of(REPLICA_SET, &set), &patch).await.expect("scaled");
            }
        })
    },
    play: |context| Box::pin(pods::play(context)),
};

#[test]
fn no_fault_of_a_request_changes_where_it_ends() {
    let plans = simulation::try_everything(SCALED);
    println!("{plans} plans");
    assert!(plans > 50, "{plans}");
}
