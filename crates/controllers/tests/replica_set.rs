//! ReplicaSets in a cluster whose pods are played.

use controllers::kinds::{POD, REPLICA_SET};
use controllers::replica_set::Controller;
use reconcile::plan::Target;
use reconcile::run;
use serde_json::{Value, json};
use testkit::cluster::until;
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
