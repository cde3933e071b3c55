//! What is asked before a Wukong is written, through the whole server.

use machines::kinds::WUKONG;
use reconcile::Kind;
use serde_json::{Value, json};

use crate::world::{World, wukong};

#[tokio::test]
async fn what_is_not_said_is_filled_in() {
    let world = World::start().await;
    let mut bare = wukong(
        "bare",
        json!({"networks": [{"name": "default"}, {"name": "lan"}],
        "disks": [{"name": "root", "size": "10Gi"}], "cloudInitUser": {"name": "me"}}),
    );
    bare["spec"].as_object_mut().expect("a spec").remove("memory");
    let made = world.create(WUKONG, bare).await;
    let expected = json!({
        "cpu": 2,
        "memory": "2Gi",
        "networks": [{"name": "default"}, {"name": "lan", "type": "bridge"}],
        "disks": [{"name": "root", "size": "10Gi", "storageClassName": "fast"}],
        "cloudInitUser": {"name": "me", "sudo": "ALL=(ALL) NOPASSWD:ALL", "shell": "/bin/bash"},
        "startStrategy": {"autoStart": true, "runStrategy": "Always"},
    });
    assert_eq!(made.value["spec"], expected);
    let off = json!({"startStrategy": {"autoStart": false}});
    let made = world.create(WUKONG, wukong("off", off)).await;
    assert_eq!(made.value["spec"]["startStrategy"], json!({"autoStart": false}));
    let rerun = json!({"highAvailability": {"restartPolicy": "OnFailure"}});
    let made = world.create(WUKONG, wukong("rerun", rerun)).await;
    assert_eq!(made.value["spec"]["startStrategy"]["runStrategy"], "RerunOnFailure");
}

async fn refused(world: &World, spec: Value) -> String {
    let error = world.try_create(WUKONG, wukong("wrong", spec)).await.expect_err("refused");
    assert_eq!(error.code(), Some(403), "{}", error.said());
    error.said()
}

#[tokio::test]
async fn what_cannot_work_is_refused_in_the_known_words() {
    let world = World::start().await;
    let address = |config: Value| {
        let network = json!({"name": "lan", "type": "bridge", "ipConfig": config});
        json!({"networks": [network]})
    };
    for (spec, said) in [
        (json!({"disks": []}), "at least one disk is required"),
        (
            json!({"disks": [{"name": "cloudinitdisk", "size": "1Gi"}]}),
            "disk[0].name \"cloudinitdisk\" is reserved",
        ),
        (
            json!({"disks": [{"name": "a", "size": "1Gi"}, {"name": "a", "size": "1Gi"}]}),
            "disk[1].name \"a\" is used twice",
        ),
        (
            address(json!({"mode": "static"})),
            "network[0].ipConfig.address is required when mode is 'static'",
        ),
        (
            address(json!({"mode": "static", "address": "10.0.0.5/24", "gateway": "10.0.1.1"})),
            "network[0].ipConfig.gateway 10.0.1.1 is outside of 10.0.0.5/24",
        ),
        (
            json!({"networks": [{"name": "a", "primary": true}, {"name": "b", "primary": true}]}),
            "only one network may be primary",
        ),
    ] {
        let found = refused(&world, spec).await;
        let by = "admission webhook \"vwukong.kb.io\" denied the request: ";
        assert!(found.contains(&format!("{by}{said}")), "{found}");
    }
}

#[tokio::test]
async fn nothing_shrinks() {
    let world = World::start().await;
    let disks = json!({"disks": [
        {"name": "root", "size": "10Gi", "storageClassName": "fast"},
        {"name": "data", "size": "5Gi", "storageClassName": "fast"}]});
    world.create(WUKONG, wukong("w", disks.clone())).await;
    world.until_phase("w", "Running").await;
    let sized = |size: &str| {
        let mut disks = disks.clone();
        disks["disks"][0]["size"] = json!(size);
        disks
    };
    let one = json!({"disks": [disks["disks"][0]]});
    for (spec, said) in [
        (json!({"cpu": 1}), "CPU cannot be reduced from 2 to 1"),
        (json!({"memory": "1024Mi"}), "memory cannot be reduced from 2Gi to 1024Mi"),
        (sized("9G"), "disk[0].size cannot be reduced from 10Gi to 9G"),
        (one, "disks cannot be removed, current: 2, new: 1"),
    ] {
        let error = world.try_patch(WUKONG, "w", json!({"spec": spec})).await.expect_err("refused");
        assert!(error.said().ends_with(said), "{}", error.said());
    }
    // The same amount in other words is no less.
    world.patch(WUKONG, "w", json!({"spec": {"memory": "2048Mi"}})).await;
    world.patch(WUKONG, "w", json!({"spec": sized("10240Mi")})).await;
}

const RBAC: &str = "rbac.authorization.k8s.io";
const ROLE: Kind = Kind::cluster(RBAC, "v1", "ClusterRole", "clusterroles");
const BINDING: Kind = Kind::namespaced(RBAC, "v1", "RoleBinding", "rolebindings");
const CLUSTER_BINDING: Kind =
    Kind::cluster(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings");

fn bound(role: &str, user: &str) -> Value {
    json!({"metadata": {"namespace": "default", "name": format!("{user}-{role}")},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}]})
}

#[tokio::test]
async fn networks_of_nodes_need_the_right_of_the_writer() {
    let world = World::start().await;
    let rule = json!({"apiGroups": ["vm.novasphere.dev"], "resources": ["wukongs"],
        "verbs": ["create", "patch", "update", "get"]});
    world.create(ROLE, json!({"metadata": {"name": "machines"}, "rules": [rule]})).await;
    for user in ["tenant", "operator"] {
        world.create(BINDING, bound("machines", user)).await;
    }
    let tenant = world.user("tenant");
    for (field, network) in [
        ("physicalInterface", json!({"physicalInterface": "eth9"})),
        ("nodeIP", json!({"nodeIP": "10.66.6.6/24"})),
        ("bridgeName", json!({"bridgeName": "br0"})),
        ("type", json!({"type": "macvlan", "nadName": "mine"})),
    ] {
        let mut lan = json!({"name": "lan", "type": "bridge"});
        reconcile::plan::merge(&mut lan, &network);
        let spec = json!({"networks": [lan], "startStrategy": {"autoStart": false}});
        let refused = tenant.try_create(WUKONG, wukong("mine", spec)).await.expect_err(field);
        assert_eq!(refused.code(), Some(403), "{}", refused.said());
        let said = refused.said();
        assert!(said.contains(&format!("spec.networks[0].{field}")), "{said}");
        assert!(said.contains("user \"tenant\" may not create"), "{said}");
    }
    let off = json!({"startStrategy": {"autoStart": false}});
    tenant.create(WUKONG, wukong("mine", off.clone())).await;
    let lan = json!([{"name": "lan", "type": "bridge", "physicalInterface": "eth9"}]);
    let patch = json!({"spec": {"networks": lan}});
    let refused = tenant.try_patch(WUKONG, "mine", patch.clone()).await.expect_err("an update");
    assert!(refused.said().contains("may not update"), "{}", refused.said());

    // With the right it is written, and others may change the rest of it.
    let rule = json!({"apiGroups": ["nmstate.io"],
        "resources": ["nodenetworkconfigurationpolicies"], "verbs": ["create", "update"]});
    world.create(ROLE, json!({"metadata": {"name": "networks"}, "rules": [rule]})).await;
    world.create(CLUSTER_BINDING, bound("networks", "operator")).await;
    let operator = world.user("operator");
    operator.patch(WUKONG, "mine", patch).await;
    tenant.patch(WUKONG, "mine", json!({"spec": {"cpu": 4}})).await;
}
