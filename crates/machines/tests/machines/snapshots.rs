//! Snapshots of a Wukong, and how it is brought back to one.

use machines::kinds::{INSTANCE, MACHINE, RESTORE, SNAPSHOT, WUKONG, WUKONG_SNAPSHOT};
use machines::value::text;
use reconcile::Object;
use serde_json::{Value, json};

use crate::world::{World, message, wukong};

fn snapshot(name: &str, of: &str) -> Value {
    json!({"metadata": {"namespace": "default", "name": name}, "spec": {"wukongName": of}})
}

async fn until_phase(world: &World, name: &str, phase: &str) -> Object {
    world.until(WUKONG_SNAPSHOT, name, |one| one["status"]["phase"] == phase).await
}

#[tokio::test]
async fn a_snapshot_is_taken_once_and_goes_with_its_object() {
    let world = World::start().await;
    world.create(WUKONG, wukong("w", json!({}))).await;
    world.until_phase("w", "Running").await;
    // Two of one second have names of their own.
    let made = world.create(WUKONG_SNAPSHOT, snapshot("s", "w")).await;
    world.create(WUKONG_SNAPSHOT, snapshot("t", "w")).await;
    let done = until_phase(&world, "s", "Succeeded").await;
    let other = until_phase(&world, "t", "Succeeded").await;
    let name = text(&done.value["status"]["snapshotName"]).to_owned();
    assert_ne!(name, text(&other.value["status"]["snapshotName"]));
    assert!(name.starts_with("w-snapshot-"), "{name}");
    assert!(done.value["status"]["creationTime"].is_string());
    assert!(done.value["status"]["error"].is_null());
    let taken = world.get(SNAPSHOT, &name).await.expect("made");
    assert_eq!(taken.controller(), Some(&*made.uid));
    assert_eq!(
        taken.value["spec"],
        json!({"source": {"apiGroup": "kubevirt.io",
        "kind": "VirtualMachine", "name": "w-vm"}})
    );
    let all = world.context.cache(SNAPSHOT).all();
    assert_eq!(all.len(), 2, "{all:?}");
    world.delete(WUKONG_SNAPSHOT, "s").await;
    world.until_gone(SNAPSHOT, &name).await;
}

#[tokio::test]
async fn a_snapshot_of_nothing_fails_and_stays_so() {
    let world = World::start().await;
    world.create(WUKONG_SNAPSHOT, snapshot("s", "nobody")).await;
    let failed = until_phase(&world, "s", "Failed").await;
    assert_eq!(failed.value["status"]["error"], "Wukong nobody not found");
    world.create(WUKONG, wukong("bad", json!({}))).await;
    world.until_phase("bad", "Running").await;
    world.create(WUKONG_SNAPSHOT, snapshot("full", "bad")).await;
    let failed = until_phase(&world, "full", "Failed").await;
    assert_eq!(failed.value["status"]["error"], "the disk is full");
}

/// A Wukong without a machine yet: the snapshot waits for it.
#[tokio::test]
async fn a_snapshot_waits_for_the_machine() {
    let world = World::start().await;
    let disks = json!({"disks": [{"name": "root", "size": "1Gi", "storageClassName": "never"}]});
    world.create(WUKONG, wukong("w", disks)).await;
    world.create(WUKONG_SNAPSHOT, snapshot("s", "w")).await;
    let waits = |one: &Value| one["status"]["error"] == "the Wukong has no machine yet";
    world.until(WUKONG_SNAPSHOT, "s", waits).await;
    assert!(world.context.cache(SNAPSHOT).all().is_empty());
}

#[tokio::test]
async fn a_machine_is_brought_back_while_it_does_not_run() {
    let world = World::start().await;
    world.create(WUKONG, wukong("w", json!({}))).await;
    world.until_phase("w", "Running").await;
    world.create(WUKONG_SNAPSHOT, snapshot("s", "w")).await;
    let taken = until_phase(&world, "s", "Succeeded").await;
    let change = async |spec: Value| {
        world.patch(WUKONG, "w", json!({"spec": spec})).await;
    };
    change(json!({"restoreFromSnapshot": "s"})).await;
    let refused = world.until_condition("w", "Restored=False", "MachineRunning").await;
    assert_eq!(
        message(&refused, "Restored"),
        "Restore target VMI must be powered off before restore operation"
    );
    assert_eq!(refused.value["status"]["phase"], "Running");
    assert!(world.get(RESTORE, "w-restore-s").await.is_none());
    change(json!({"startStrategy": {"autoStart": false}})).await;
    world.until_condition("w", "Restored=True", "RestoreComplete").await;
    let restore = world.get(RESTORE, "w-restore-s").await.expect("made");
    assert_eq!(
        restore.value["spec"],
        json!({
            "target": {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "w-vm"},
            "virtualMachineSnapshotName": taken.value["status"]["snapshotName"],
            "targetReadinessPolicy": "FailImmediate",
            "volumeRestorePolicy": "InPlace",
        })
    );
    change(json!({"startStrategy": {"autoStart": true}})).await;
    world.until_phase("w", "Running").await;
    // Once nobody asks for it, it can be asked for again.
    change(json!({"restoreFromSnapshot": null})).await;
    world.until_gone(RESTORE, "w-restore-s").await;
    world.until(WUKONG, "w", |one| !one.to_string().contains("Restored")).await;
    assert!(world.get(INSTANCE, "w-vm").await.is_some());
}

/// One that is stopped and would start at once is held until its disks are back.
#[tokio::test]
async fn a_machine_that_is_brought_back_is_held_meanwhile() {
    let world = World::start().await;
    let off = json!({"startStrategy": {"autoStart": false}});
    world.create(WUKONG, wukong("w", off)).await;
    world.until_phase("w", "Stopped").await;
    world.create(WUKONG_SNAPSHOT, snapshot("s", "w")).await;
    until_phase(&world, "s", "Succeeded").await;
    let both = json!({"restoreFromSnapshot": "s", "startStrategy": {"autoStart": true}});
    world.patch(WUKONG, "w", json!({"spec": both})).await;
    world.until_condition("w", "Restored=True", "RestoreComplete").await;
    world.until_phase("w", "Running").await;
    let machine = world.get(MACHINE, "w-vm").await.expect("there");
    assert_eq!(machine.value["spec"]["runStrategy"], "Always");
    world.patch(WUKONG, "w", json!({"spec": {"restoreFromSnapshot": "nothing"}})).await;
    let waits = world.until_condition("w", "Restored=False", "SnapshotNotFound").await;
    assert_eq!(message(&waits, "Restored"), "WukongSnapshot nothing is not found");
}
