//! The operators under their own role, as on a cluster of others: it must suffice, and it must say
//! what is known of it.

use std::collections::BTreeSet;

use machines::kinds::{INSTANCE, MACHINE, RESTORE, SECRET, SERVICE, WUKONG, WUKONG_SNAPSHOT};
use machines::{NAMESPACE, Options, SERVICE_ACCOUNT, manifests};
use serde_json::{Value, json};
use testkit::Cluster;
use testkit::rights::{Right, granted};

use crate::play::play;
use crate::world::{AddOns, World, imaged, install, wukong};

/// What operators of this name are known to have, and more than is asked for.
const KNOWN: [(&str, &str); 5] = [
    ("vm.novasphere.dev", "wukongs"),
    ("kubevirt.io", "virtualmachines"),
    ("k8s.cni.cncf.io", "networkattachmentdefinitions"),
    ("k8s.cni.cncf.io", "network-attachment-definitions"),
    ("cdi.kubevirt.io", "datavolumes"),
];
const VERBS: [&str; 7] = ["get", "list", "watch", "create", "update", "patch", "delete"];

/// Everything that makes an operator ask for something.
async fn use_everything(world: &World) {
    let secret = json!({"metadata": {"namespace": "default", "name": "keys"},
        "stringData": {"publickey": "ssh-ed25519 AAAA me"}});
    world.create(SECRET, secret).await;
    let spec = |vlan: i64, size: &str| {
        let mut disks = imaged("http://images/a.img");
        disks[1]["size"] = json!(size);
        let exposed = json!({"enabled": true, "ports": [{"port": vlan, "targetPort": 22}]});
        json!({"sshKeySecret": "keys", "disks": disks, "networks": [
            {"name": "default", "serviceExposure": exposed},
            {"name": "lan", "type": "bridge", "physicalInterface": "ens192", "vlanId": vlan}]})
    };
    world.create(WUKONG, wukong("w", spec(7, "5Gi"))).await;
    world.until_phase("w", "Running").await;
    let mut more = spec(8, "6Gi");
    more["cpu"] = json!(4);
    world.patch(WUKONG, "w", json!({"spec": &more})).await;
    world.until(WUKONG, "w", |one| one["status"]["volumes"][1]["size"] == "6Gi").await;
    let has_four = |one: &Value| one["spec"]["template"]["spec"]["domain"]["cpu"]["cores"] == 4;
    world.until(MACHINE, "w-vm", has_four).await;
    let is_changed = |one: &Value| one["spec"]["ports"][0]["port"] == 8;
    world.until(SERVICE, "w-vm-service", is_changed).await;
    let lan = more["networks"][1].clone();
    world.patch(WUKONG, "w", json!({"spec": {"networks": [{"name": "default"}, lan]}})).await;
    world.until_gone(SERVICE, "w-vm-service").await;
    world.patch(WUKONG, "w", json!({"spec": {"restoreFromSnapshot": "s"}})).await;
    world.until_condition("w", "Restored=False", "SnapshotNotFound").await;
    let snapshot = json!({"metadata": {"namespace": "default", "name": "s"},
        "spec": {"wukongName": "w"}});
    world.create(WUKONG_SNAPSHOT, snapshot).await;
    let done = |one: &Value| one["status"]["phase"] == "Succeeded";
    world.until(WUKONG_SNAPSHOT, "s", done).await;
    let back = json!({"startStrategy": {"autoStart": false}});
    world.patch(WUKONG, "w", json!({"spec": back})).await;
    world.until_condition("w", "Restored=True", "RestoreComplete").await;
    world.patch(WUKONG, "w", json!({"spec": {"restoreFromSnapshot": null}})).await;
    world.until_gone(RESTORE, "w-restore-s").await;
    world.delete(WUKONG, "w").await;
    world.until_gone(WUKONG, "w").await;
    world.until_gone(INSTANCE, "w-vm").await;
}

#[tokio::test]
async fn the_role_of_the_operators_suffices_and_is_the_known_one() {
    let mut cluster = Cluster::start().await;
    install(&cluster, AddOns::All).await;
    let (client, asked) = cluster.noted_account(NAMESPACE, SERVICE_ACCOUNT);
    let operators = cluster.context_of(client);
    let mut running = machines::start(&operators, &Options::default());
    cluster.run(async move { while running.join_next().await.is_some() {} });
    cluster.run(play(cluster.context()));
    let context = cluster.context();
    let world = World::of(cluster, context);
    use_everything(&world).await;

    assert_eq!(asked.refused(), BTreeSet::new(), "the role must suffice");
    let granted = granted(&manifests::roles());
    let right = |group: &str, resource: &str, verb: &str| Right {
        group: group.to_owned(),
        resource: resource.to_owned(),
        verb: verb.to_owned(),
    };
    let known = KNOWN
        .iter()
        .flat_map(|(group, resource)| VERBS.iter().map(move |verb| right(group, resource, verb)));
    let known: BTreeSet<Right> = known.collect();
    assert!(known.is_subset(&granted), "{:?}", known.difference(&granted).collect::<Vec<_>>());
    // What is granted beyond that is used, or looked at by a server that enforces who may make
    // owners wait, or is what readers of a part have.
    let mut seen = asked.rights();
    seen.extend(known);
    for (group, resource, verb) in [
        ("vm.novasphere.dev", "wukongs/finalizers", "update"),
        ("vm.novasphere.dev", "wukongsnapshots/finalizers", "update"),
        ("", "events", "patch"),
        // The webhook, which is not run by the operators here.
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
    ] {
        seen.insert(right(group, resource, verb));
    }
    for kind in ["wukongs", "wukongsnapshots"] {
        for verb in ["get", "patch"] {
            seen.insert(right("vm.novasphere.dev", &format!("{kind}/status"), verb));
        }
    }
    let unused = granted.difference(&seen).map(ToString::to_string).collect::<Vec<_>>();
    println!("granted and not used: {unused:?}");
    let missing = seen.difference(&granted).map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(missing, [""; 0], "used and not granted");
    assert_eq!(unused, [""; 0], "granted and not used");
}
