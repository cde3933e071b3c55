//! Networks of a Wukong: made, the user's own, and those that cannot be.

use machines::Bridges;
use machines::kinds::{ATTACHMENT, CLAIM, MACHINE, POLICY, WUKONG};
use serde_json::{Value, json};

use crate::world::{AddOns, World, message, wukong};

fn networks(all: Value) -> Value {
    json!({"networks": all})
}

#[tokio::test]
async fn networks_are_made_before_the_machine_and_told_of() {
    let world = World::start().await;
    let spec = networks(json!([{"name": "default"},
        {"name": "lan", "type": "bridge", "physicalInterface": "ens192", "vlanId": 100}]));
    world.create(WUKONG, wukong("w", spec)).await;
    let runs = world.until_phase("w", "Running").await;
    let policy = world.get(POLICY, "default.w-lan-bridge").await.expect("made");
    assert_eq!(policy.label("vm.novasphere.dev/wukong-uid"), Some(&*runs.uid));
    let told = machines::value::find(&runs.value["status"]["networks"], "name", "lan");
    let told = told.expect("told");
    assert_eq!(told["nadName"], "w-lan-nad");
    assert_eq!((&told["ipAddress"], &told["interface"]), (&json!("10.0.1.2"), &json!("eth1")));
    assert!(told["macAddress"].as_str().is_some_and(|mac| mac.starts_with("02:")), "{told}");
    world.delete(WUKONG, "w").await;
    world.until_gone(WUKONG, "w").await;
    world.until_gone(POLICY, "default.w-lan-bridge").await;
    world.until_gone(ATTACHMENT, "w-lan-nad").await;
}

#[tokio::test]
async fn an_attachment_of_the_users_is_waited_for_and_kept() {
    let world = World::start().await;
    let spec = networks(json!([{"name": "lan", "type": "bridge", "nadName": "mine"}]));
    world.create(WUKONG, wukong("w", spec)).await;
    let waits = world.until_condition("w", "NetworksConfigured=False", "NetworksPending").await;
    assert_eq!(
        message(&waits, "NetworksConfigured"),
        "NetworkAttachmentDefinition mine is not found"
    );
    let mine = json!({"metadata": {"namespace": "default", "name": "mine"},
        "spec": {"config": "{}"}});
    world.create(ATTACHMENT, mine).await;
    world.until_phase("w", "Running").await;
    world.delete(WUKONG, "w").await;
    world.until_gone(WUKONG, "w").await;
    assert!(world.get(ATTACHMENT, "mine").await.is_some_and(|one| !one.is_terminating()));
}

/// A network that fails: disks are made, a machine is not.
#[tokio::test]
async fn a_network_that_fails_keeps_only_the_machine_waiting() {
    let world = World::start().await;
    let spec = networks(json!([{"name": "lan", "type": "bridge", "physicalInterface": "none"}]));
    world.create(WUKONG, wukong("w", spec)).await;
    let failed = world.until_condition("w", "NetworksConfigured=False", "NetworkFailed").await;
    assert_eq!(
        message(&failed, "NetworksConfigured"),
        "NodeNetworkConfigurationPolicy default.w-lan-bridge is degraded: no such interface"
    );
    assert_eq!(failed.value["status"]["phase"], "Error");
    world.until(CLAIM, "w-root", |claim| claim["status"]["phase"] == "Bound").await;
    world.until_condition("w", "VolumesBound=True", "VolumesReady").await;
    assert!(world.get(MACHINE, "w-vm").await.is_none());
}

#[tokio::test]
async fn a_bridge_needs_an_interface_where_policies_make_it() {
    let world = World::start().await;
    let spec = networks(json!([{"name": "lan", "type": "bridge"}]));
    world.create(WUKONG, wukong("w", spec.clone())).await;
    let failed = world.until_condition("w", "NetworksConfigured=False", "NetworkFailed").await;
    assert_eq!(
        message(&failed, "NetworksConfigured"),
        "physicalInterface is required for bridge/ovs network type, network: lan"
    );
    // Where the node makes it there need not be one.
    let world = World::with(AddOns::All, Bridges::ByNode).await;
    world.create(WUKONG, wukong("w", spec)).await;
    world.until_phase("w", "Running").await;
    assert!(world.get(POLICY, "default.w-lan-bridge").await.is_none());
}

/// The server refuses an attachment: the next look makes the disks first, so that they are there.
#[tokio::test]
async fn an_attachment_that_is_refused_keeps_no_disk_from_being_made() {
    let world = World::start().await;
    let quota = reconcile::Kind::namespaced("", "v1", "ResourceQuota", "resourcequotas");
    let count = "count/network-attachment-definitions.k8s.cni.cncf.io";
    let hard = json!({"metadata": {"namespace": "default", "name": "q"},
        "spec": {"hard": {count: "0"}}});
    let found = world.create(quota, hard).await;
    let told = json!({"status": {"hard": {count: "0"}, "used": {count: "0"}}});
    let target = reconcile::plan::Target::of(quota, &found).part("status");
    let requests = world.context.requests("test", Default::default());
    requests.patch(&target, &told).await.expect("told");
    let spec = networks(json!([{"name": "lan", "type": "macvlan", "physicalInterface": "eth1"}]));
    world.create(WUKONG, wukong("w", spec)).await;
    let failed = world.until_condition("w", "NetworksConfigured=False", "NetworkFailed").await;
    assert!(message(&failed, "NetworksConfigured").contains("exceeded quota"), "{}", failed.value);
    assert_eq!(failed.value["status"]["phase"], "Error");
    world.until_condition("w", "VolumesBound=True", "VolumesReady").await;
    assert!(world.get(MACHINE, "w-vm").await.is_none());
}

/// A change of a network is a change of its attachment.
#[tokio::test]
async fn an_attachment_follows_its_network() {
    let world = World::with(AddOns::All, Bridges::ByNode).await;
    let spec = |vlan: i64| networks(json!([{"name": "lan", "type": "bridge", "vlanId": vlan}]));
    world.create(WUKONG, wukong("w", spec(7))).await;
    world.until_phase("w", "Running").await;
    world.patch(WUKONG, "w", json!({"spec": spec(8)})).await;
    let has = |one: &Value| one["spec"]["config"].as_str().is_some_and(|it| it.contains(":8,"));
    world.until(ATTACHMENT, "w-lan-nad", has).await;
}
