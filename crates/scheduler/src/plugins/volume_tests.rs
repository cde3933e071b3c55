//! Pods with claims.

use serde_json::{Value, json};

use super::{check, zone};
use crate::fixtures::{Scene, with};
use crate::plugin::View;
use crate::plugins::volume_binding::{Step, steps};

fn uses(claim: &str) -> Value {
    json!({"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}})
}

fn bound_to(volume: &str) -> Value {
    json!({"spec": {"volumeName": volume}, "status": {"phase": "Bound"}})
}

fn only_on(node: &str) -> Value {
    json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions":
        [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]}}}})
}

fn two_nodes() -> Scene {
    Scene::new().node("n1", json!({})).node("n2", json!({}))
}

#[track_caller]
fn refused(scene: Scene, pod: Value, reason: &str) {
    let count = scene.snapshot.node_count();
    let expected = format!(
        "0/{count} nodes are available: {reason}. preemption: 0/{count} nodes are available: \
         {count} Preemption is not helpful for scheduling."
    );
    check(scene, pod, &expected);
}

#[test]
fn a_bound_volume_draws_its_pod() {
    let scene = || two_nodes().claim("c", bound_to("p")).volume("p", only_on("n2"));
    check(scene(), uses("c"), "n2");
    let nowhere = two_nodes().claim("c", bound_to("p")).volume("p", only_on("n9"));
    refused(nowhere, uses("c"), "2 node(s) didn't match PersistentVolume's node affinity");
}

#[test]
fn a_claim_that_cannot_be_met_is_named() {
    refused(two_nodes(), uses("c"), "persistentvolumeclaim \"c\" not found");
    let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    refused(
        two_nodes().claim("c", going),
        uses("c"),
        "persistentvolumeclaim \"c\" is being deleted",
    );
    let unbound = "pod has unbound immediate PersistentVolumeClaims";
    refused(two_nodes().claim("c", json!({})), uses("c"), unbound);
    refused(
        two_nodes().claim("c", bound_to("p")),
        uses("c"),
        "2 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
    );
}

fn waiting(provisioner: &str) -> Scene {
    let class = json!({"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"});
    let claim = json!({"spec": {"storageClassName": "local", "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    two_nodes().class("local", class).claim("c", claim)
}

fn free_volume(node: &str, size: &str) -> Value {
    with(
        json!({"spec": {"storageClassName": "local", "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": size}}, "status": {"phase": "Available"}}),
        only_on(node),
    )
}

#[test]
fn a_claim_that_waits_is_met_by_a_volume_or_by_who_makes_one() {
    refused(
        waiting("kubernetes.io/no-provisioner"),
        uses("c"),
        "2 node(s) didn't find available persistent volumes to bind",
    );
    let scene = || {
        waiting("kubernetes.io/no-provisioner")
            .volume("small", free_volume("n1", "1Mi"))
            .volume("large", free_volume("n2", "9Gi"))
            .volume("fitting", free_volume("n2", "2Gi"))
    };
    check(scene(), uses("c"), "n2");
    let mut scene = scene();
    let pod = scene.read(crate::fixtures::pod("new", uses("c")));
    let view = View { snapshot: &scene.snapshot, pod: &pod, profile: &scene.profile };
    let slot = scene.snapshot.slot_of("n2").expect("the node must be there");
    let claim = reconcile::Name::new("a", "c");
    assert_eq!(steps(view, slot), [Step::Bind { claim, volume: "fitting".into() }]);
    check(waiting("example.com/maker"), uses("c"), "n1");
}

#[test]
fn a_claim_that_is_being_made_for_a_node_keeps_its_pod_there() {
    let marked = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n2"}},
        "spec": {"storageClassName": "local"}});
    check(waiting("example.com/maker").claim("c", marked), uses("c"), "n2");
}

#[test]
fn a_volume_in_a_zone_is_used_from_there() {
    let scene = |zones: &str| {
        let labels = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": zones}}});
        Scene::new()
            .node("n1", zone("x"))
            .node("n2", zone("y"))
            .claim("c", bound_to("p"))
            .volume("p", labels)
    };
    check(scene("y"), uses("c"), "n2");
    check(scene("x__y"), uses("c"), "n1");
    refused(scene("z"), uses("c"), "2 node(s) had no available volume zone");
}

#[test]
fn a_claim_for_one_pod_serves_one_pod() {
    let claim = with(bound_to("p"), json!({"spec": {"accessModes": ["ReadWriteOncePod"]}}));
    let scene = two_nodes().claim("c", claim).volume("p", json!({})).on("n1", "old", uses("c"));
    check(
        scene,
        uses("c"),
        "0/2 nodes are available: 2 node has pod using PersistentVolumeClaim with the same name \
         and ReadWriteOncePod access mode. preemption: 0/2 nodes are available: 2 No preemption \
         victims found for incoming pod.",
    );
}

#[test]
fn a_disk_is_attached_twice_only_to_be_read() {
    let disk = |read_only: bool| {
        json!({"spec": {"volumes": [{"name": "v", "gcePersistentDisk":
            {"pdName": "d", "readOnly": read_only}}]}})
    };
    let scene = |old: Value| Scene::new().node("n1", json!({})).on("n1", "old", old);
    check(scene(disk(true)), disk(true), "n1");
    let found = scene(disk(true)).decide("new", disk(false));
    assert!(found.starts_with("0/1 nodes are available: 1 node(s) had no available disk."));
}
