//! What is another's, or is not seen any more, when a Wukong goes or is brought back.

use machines::kinds::{CLAIM, DATA_VOLUME, POLICY, RESTORE, WUKONG, WUKONG_SNAPSHOT};
use serde_json::{Value, json};

use crate::world::{World, imaged, message, wukong};

/// The names of what a Wukong would make are taken.
#[tokio::test]
async fn a_wukong_that_goes_leaves_the_claim_of_anothers_volume() {
    let world = World::start().await;
    let claim = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Gi"}}});
    let volume = json!({"metadata": {"namespace": "default", "name": "w-root"},
        "spec": {"source": {"http": {"url": "http://images/x.img"}}, "pvc": claim}});
    world.create(DATA_VOLUME, volume).await;
    let before = world.until(CLAIM, "w-root", |one| one["status"]["phase"] == "Bound").await;
    let spec = json!({"disks": imaged("http://images/y.img")});
    world.create(WUKONG, wukong("w", spec)).await;
    world.until_condition("w", "VolumesBound=False", "VolumeFailed").await;
    world.delete(WUKONG, "w").await;
    world.until_gone(WUKONG, "w").await;
    let after = world.get(CLAIM, "w-root").await.expect("it is another's");
    assert_eq!(after.uid, before.uid);
    assert!(!after.is_terminating());
    let asked = &after.value["spec"]["resources"]["requests"]["storage"];
    assert_eq!(asked, "1Gi", "it was not made to grow either");
}

#[tokio::test]
async fn a_wukong_that_goes_takes_the_policies_of_networks_that_it_had() {
    let world = World::start().await;
    let networks = |names: &[&str]| {
        let all = names
            .iter()
            .map(|name| json!({"name": name, "type": "bridge", "physicalInterface": "ens192"}));
        json!({"networks": all.collect::<Vec<Value>>()})
    };
    world.create(WUKONG, wukong("w", networks(&["lan", "wan"]))).await;
    world.until_phase("w", "Running").await;
    world.patch(WUKONG, "w", json!({"spec": networks(&["lan"])})).await;
    assert!(world.get(POLICY, "default.w-wan-bridge").await.is_some());
    world.delete(WUKONG, "w").await;
    world.until_gone(WUKONG, "w").await;
    for name in ["default.w-lan-bridge", "default.w-wan-bridge"] {
        assert!(world.get(POLICY, name).await.is_none(), "{name} is left");
    }
}

#[tokio::test]
async fn a_wukong_is_not_brought_back_to_a_snapshot_of_another() {
    let world = World::start().await;
    let off = json!({"startStrategy": {"autoStart": false}});
    for name in ["w", "v"] {
        world.create(WUKONG, wukong(name, off.clone())).await;
        world.until_phase(name, "Stopped").await;
    }
    let snapshot = json!({"metadata": {"namespace": "default", "name": "s"},
        "spec": {"wukongName": "v"}});
    world.create(WUKONG_SNAPSHOT, snapshot).await;
    world.until(WUKONG_SNAPSHOT, "s", |one| one["status"]["phase"] == "Succeeded").await;
    world.patch(WUKONG, "w", json!({"spec": {"restoreFromSnapshot": "s"}})).await;
    let refused = world.until_condition("w", "Restored=False", "SnapshotOfAnother").await;
    let why = "WukongSnapshot s is of Wukong v, not of this one";
    assert_eq!(message(&refused, "Restored"), why);
    assert!(world.get(RESTORE, "w-restore-s").await.is_none());
}
