//! Copies of disks, as the launcher of a node makes them and brings them back.

use std::fs;

use machines::kinds::{CLAIM, INSTANCE, MACHINE, RESTORE, SNAPSHOT};
use machines::{manifests, provider};
use reconcile::Kind;
use serde_json::{Value, json};
use testkit::Cluster;

use crate::host::{self, Binder};
use crate::world::World;

const NODE: Kind = Kind::cluster("", "v1", "Node", "nodes");

async fn world(claim: &str) -> World {
    let mut cluster = Cluster::start().await;
    cluster.install_all(&[], &manifests::provider()).await;
    cluster.run(provider::run(cluster.context()));
    cluster.run(host::launch(cluster.context()));
    cluster.run(reconcile::run::run(cluster.context(), Binder));
    let context = cluster.context();
    let world = World::of(cluster, context);
    world.create(NODE, host::node()).await;
    let asked = json!({"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Mi"}}});
    world.create(CLAIM, named(claim, asked)).await;
    world.until(CLAIM, claim, |one| one["status"]["phase"] == "Bound").await;
    world
}

fn named(name: &str, spec: Value) -> Value {
    json!({"metadata": {"namespace": "default", "name": name}, "spec": spec})
}

async fn make(world: &World, claim: &str, strategy: &str) {
    let spec = json!({"domain": {"devices": {}}, "tolerations": host::tolerations(),
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]});
    let machine = named("m", json!({"runStrategy": strategy, "template": {"spec": spec}}));
    world.create(MACHINE, machine).await;
}

fn source() -> Value {
    json!({"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "m"})
}

async fn is_failing(world: &World, restore: &str) -> String {
    let failed = |one: &Value| reconcile::conditions::is_true(&one["status"], "Failure");
    let failed = world.until(RESTORE, restore, failed).await;
    let told = reconcile::conditions::find(&failed.value["status"], "Failure").cloned();
    assert_eq!(failed.value["status"]["error"]["message"], told.expect("told")["message"]);
    failed.value["status"]["error"]["message"].as_str().expect("a text").to_owned()
}

#[tokio::test]
async fn what_goes_wrong_with_a_copy_is_told_and_tried_again() {
    // Where copies are kept is no directory.
    fs::create_dir_all(host::snapshots().parent().expect("a parent")).expect("made");
    fs::write(host::snapshots(), "").expect("written");
    let world = world("told").await;
    make(&world, "told", "Halted").await;
    world.create(SNAPSHOT, named("s", json!({"source": source()}))).await;
    let told = |one: &Value| one["status"]["error"]["message"].is_string();
    let told = world.until(SNAPSHOT, "s", told).await;
    let why = told.value["status"]["error"]["message"].as_str().expect("a text");
    assert!(why.starts_with("could not keep a copy: "), "{why}");
    assert_eq!(told.value["status"]["phase"], "InProgress");
    fs::remove_file(host::snapshots()).expect("removed");
    let done = world.until(SNAPSHOT, "s", |one| one["status"]["readyToUse"] == true).await;
    assert!(done.value["status"]["error"].is_null(), "{}", done.value);
}

#[tokio::test]
async fn a_machine_is_brought_back_to_what_was_made_of_it_alone() {
    let world = world("alone").await;
    make(&world, "alone", "Halted").await;
    world.create(SNAPSHOT, named("s", json!({"source": source()}))).await;
    let taken = world.until(SNAPSHOT, "s", |one| one["status"]["readyToUse"] == true).await;
    assert!(host::snapshots().join(&taken.uid).join("data.img").exists());
    let back = json!({"target": source(), "virtualMachineSnapshotName": "s"});
    world.create(RESTORE, named("first", back.clone())).await;
    world.until(RESTORE, "first", |one| one["status"]["complete"] == true).await;
    // Another machine of the name is another machine.
    world.delete(MACHINE, "m").await;
    world.until_gone(MACHINE, "m").await;
    make(&world, "alone", "Halted").await;
    world.create(RESTORE, named("second", back.clone())).await;
    let why = is_failing(&world, "second").await;
    assert!(why.contains("default/s is not of VirtualMachine default/m"), "{why}");
    // Copies that nobody knows go.
    world.delete(SNAPSHOT, "s").await;
    let place = host::snapshots().join(&taken.uid);
    while place.exists() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_machine_that_runs_is_not_brought_back() {
    let world = world("running").await;
    make(&world, "running", "Always").await;
    world.until(INSTANCE, "m", |one| one["status"]["phase"] == "Running").await;
    world.create(SNAPSHOT, named("s", json!({"source": source()}))).await;
    world.until(SNAPSHOT, "s", |one| one["status"]["readyToUse"] == true).await;
    let back = json!({"target": source(), "virtualMachineSnapshotName": "s"});
    world.create(RESTORE, named("r", back)).await;
    let why = is_failing(&world, "r").await;
    assert_eq!(why, "Restore target VMI must be powered off before restore operation");
}
