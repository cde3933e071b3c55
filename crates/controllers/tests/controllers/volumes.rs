//! Claims and volumes in a cluster.

use std::sync::Arc;
use std::time::Duration;

use controllers::kinds::{NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, STORAGE_CLASS};
use controllers::{volume_binder, volume_protection};
use reconcile::plan::{Deletion, Target};
use reconcile::{Context, Object, run};
use serde_json::{Value, json};
use testkit::Cluster;
use testkit::cluster::until;
use testkit::simulation::{self, Trial};

async fn everything(context: Context) {
    tokio::join!(
        volume_binder::start(context.clone()),
        run::run(context.clone(), volume_protection::Claims),
        run::run(context, volume_protection::Volumes),
    );
}

fn claim(name: &str, class: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": "default", "name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": "5Gi"}}},
    })
}

fn volume(name: &str, size: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand",
            "capacity": {"storage": size}, "hostPath": {"path": "/tmp/x"}},
    })
}

fn pod(name: &str, claim: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": name},
        "spec": {"nodeName": "n", "containers": [{"name": "main", "image": "web"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]},
    })
}

async fn node(cluster: &Cluster) {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n",
        "labels": {"kubernetes.io/hostname": "n"}}});
    cluster.create(NODE, node).await;
    cluster.create(STORAGE_CLASS, volume_binder::default_class()).await;
}

fn phase<'a>(all: &'a [Arc<Object>], name: &str) -> &'a str {
    let found = all.iter().find(|object| &*object.name.name == name);
    found.and_then(|object| object.value["status"]["phase"].as_str()).unwrap_or("none")
}

fn selected() -> Value {
    json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n"}}})
}

#[tokio::test]
async fn a_claim_and_a_volume_find_each_other_and_part() {
    let mut cluster = Cluster::start().await;
    let context = cluster.context();
    cluster.run(everything(context.clone()));
    cluster.create(PERSISTENT_VOLUME, volume("large", "50Gi")).await;
    cluster.create(PERSISTENT_VOLUME, volume("small", "1Gi")).await;
    let claim = cluster.create(PERSISTENT_VOLUME_CLAIM, claim("c", "by-hand")).await;
    until(&context, PERSISTENT_VOLUME_CLAIM, |all| phase(all, "c") == "Bound").await;
    until(&context, PERSISTENT_VOLUME, |all| {
        phase(all, "large") == "Bound" && phase(all, "small") == "Available"
    })
    .await;
    // It stays while a pod uses it.
    let pod = cluster.create(POD, pod("p", "c")).await;
    let requests = context.requests("test", Default::default());
    let now = Deletion { grace_seconds: Some(0), ..Deletion::default() };
    let target = Target::of(PERSISTENT_VOLUME_CLAIM, &claim);
    requests.delete(&target, &Deletion::default()).await.expect("deleted");
    until(&context, PERSISTENT_VOLUME_CLAIM, |all| all.iter().any(|it| it.is_terminating())).await;
    requests.delete(&Target::of(POD, &pod), &now).await.expect("deleted");
    until(&context, PERSISTENT_VOLUME_CLAIM, <[_]>::is_empty).await;
    until(&context, PERSISTENT_VOLUME, |all| phase(all, "large") == "Released").await;
}

#[tokio::test]
async fn a_directory_is_made_grows_and_goes() {
    let mut cluster = Cluster::start().await;
    let context = cluster.context();
    cluster.run(everything(context.clone()));
    node(&cluster).await;
    let mut plain = claim("c", "");
    plain["spec"].as_object_mut().unwrap().remove("storageClassName");
    let claim = cluster.create(PERSISTENT_VOLUME_CLAIM, plain).await;
    assert_eq!(claim.value["spec"]["storageClassName"], "local-path");
    let requests = context.requests("test", Default::default());
    let target = Target::of(PERSISTENT_VOLUME_CLAIM, &claim);
    requests.patch(&target, &selected()).await.expect("selected");
    until(&context, PERSISTENT_VOLUME_CLAIM, |all| phase(all, "c") == "Bound").await;
    let name = format!("pvc-{}", claim.uid);
    until(&context, PERSISTENT_VOLUME, |all| phase(all, &name) == "Bound").await;
    let more = json!({"spec": {"resources": {"requests": {"storage": "8Gi"}}}});
    requests.patch(&target, &more).await.expect("more");
    until(&context, PERSISTENT_VOLUME_CLAIM, |all| {
        all[0].value["status"]["capacity"]["storage"] == "8Gi"
    })
    .await;
    requests.delete(&target, &Deletion::default()).await.expect("deleted");
    until(&context, PERSISTENT_VOLUME, <[_]>::is_empty).await;
}

async fn pause() {
    tokio::time::sleep(Duration::from_secs(3_600)).await;
}

/// Two claims want one volume; one of them goes.
const BY_HAND: Trial = Trial {
    name: "persistent-volume-binder",
    seed: 1,
    component: |context| Box::pin(everything(context)),
    workload: |cluster, context| {
        Box::pin(async move {
            let requests = context.requests("test", Default::default());
            let claim = cluster.create(PERSISTENT_VOLUME_CLAIM, claim("c", "by-hand")).await;
            pause().await;
            cluster.create(PERSISTENT_VOLUME, volume("x", "50Gi")).await;
            pause().await;
            cluster.create(PERSISTENT_VOLUME_CLAIM, self::claim("d", "by-hand")).await;
            pause().await;
            let pod = cluster.create(POD, pod("p", "c")).await;
            let target = Target::of(PERSISTENT_VOLUME_CLAIM, &claim);
            requests.delete(&target, &Deletion::default()).await.expect("deleted");
            pause().await;
            let now = Deletion { grace_seconds: Some(0), ..Deletion::default() };
            requests.delete(&Target::of(POD, &pod), &now).await.expect("deleted");
            pause().await;
            cluster.create(PERSISTENT_VOLUME, volume("y", "5Gi")).await;
        })
    },
    play: |_| Box::pin(std::future::pending()),
};

/// A directory is made, grows, and goes with its claim; another stays.
const MADE: Trial = Trial {
    workload: |cluster, context| {
        Box::pin(async move {
            let requests = context.requests("test", Default::default());
            node(&cluster).await;
            let going = cluster.create(PERSISTENT_VOLUME_CLAIM, claim("c", "local-path")).await;
            pause().await;
            let target = Target::of(PERSISTENT_VOLUME_CLAIM, &going);
            requests.patch(&target, &selected()).await.expect("selected");
            pause().await;
            let more = json!({"spec": {"resources": {"requests": {"storage": "8Gi"}}}});
            requests.patch(&target, &more).await.expect("more");
            pause().await;
            requests.delete(&target, &Deletion::default()).await.expect("deleted");
        })
    },
    ..BY_HAND
};

#[test]
fn no_fault_of_a_request_changes_who_gets_which_volume() {
    let plans = simulation::try_everything(BY_HAND);
    println!("{plans} plans");
    assert!(plans > 100, "{plans}");
}

#[test]
fn no_fault_of_a_request_leaves_a_volume_that_was_made() {
    let plans = simulation::try_everything(MADE);
    println!("{plans} plans");
    assert!(plans > 100, "{plans}");
}
