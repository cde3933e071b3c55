//! A Wukong from its beginning to its end, and what goes wrong between.

use machines::Bridges;
use machines::kinds::{
    ATTACHMENT, CLAIM, DATA_VOLUME, INSTANCE, MACHINE, SECRET, STORAGE_CLASS, WUKONG,
};
use machines::value::text;
use machines::wukong::FINALIZER;
use reconcile::{Kind, Object};
use serde_json::{Value, json};
use testkit::cluster::until;

use crate::world::{AddOns, World, imaged, install_these, message, says, wukong};

const QUOTA: Kind = Kind::namespaced("", "v1", "ResourceQuota", "resourcequotas");

#[tokio::test]
async fn a_wukong_runs_and_tells_where() {
    let world = World::start().await;
    let made = world.create(WUKONG, wukong("w", json!({}))).await;
    let runs = world.until_phase("w", "Running").await;
    let status = &runs.value["status"];
    assert_eq!(runs.finalizers().collect::<Vec<_>>(), [FINALIZER]);
    assert_eq!(status["vmName"], "w-vm");
    assert_eq!(status["nodeName"], "played-node");
    assert_eq!(
        status["volumes"],
        json!([{"name": "root", "pvcName": "w-root", "bound": true,
        "size": "10Gi"}])
    );
    assert_eq!(status["networks"][0]["ipAddress"], "10.0.0.2");
    for (condition, reason, said) in [
        ("Ready", "VMRunning", "Virtual machine is running"),
        ("NetworksConfigured", "NetworksReady", "1 networks configured"),
        ("VolumesBound", "VolumesReady", "1 volumes bound"),
    ] {
        assert!(says(&runs.value, &format!("{condition}=True"), reason), "{status}");
        assert_eq!(message(&runs, condition), said);
    }
    for (kind, name) in [(CLAIM, "w-root"), (MACHINE, "w-vm")] {
        let child = world.get(kind, name).await.expect("made");
        assert_eq!(child.controller(), Some(&*made.uid));
    }
}

/// The machine dies: the operator is woken by that, and says it.
#[tokio::test]
async fn a_machine_that_dies_is_told_of() {
    let world = World::start().await;
    world.create(WUKONG, wukong("w", json!({"startStrategy": {"runStrategy": "Manual"}}))).await;
    world.until_phase("w", "Stopped").await;
    let machine = world.get(MACHINE, "w-vm").await.expect("made");
    let mut instance = reconcile::owners::child(INSTANCE, "w-vm", MACHINE, &machine);
    instance["spec"] = machine.value["spec"]["template"]["spec"].clone();
    world.create(INSTANCE, instance).await;
    world.until_phase("w", "Running").await;
    let failed = async |phase: &str| {
        let found = world.get(INSTANCE, "w-vm").await.expect("it runs");
        let target = reconcile::plan::Target::of(INSTANCE, &found).part("status");
        let patch = json!({"status": {"phase": phase}});
        let requests = world.context.requests("test", Default::default());
        requests.patch(&target, &patch).await.expect("told");
    };
    failed("Failed").await;
    let broken = world.until_phase("w", "Error").await;
    assert!(says(&broken.value, "Ready=False", "VMFailed"));
    assert_eq!(message(&broken, "Ready"), "Virtual machine is in Failed state");
    failed("Succeeded").await;
    world.until_phase("w", "Stopped").await;
    world.delete(INSTANCE, "w-vm").await;
    world.until_condition("w", "Ready=False", "VMStopped").await;
}

#[tokio::test]
async fn one_that_does_not_start_itself_is_stopped_until_somebody_starts_it() {
    let world = World::start().await;
    let halted = json!({"startStrategy": {"autoStart": false}});
    world.create(WUKONG, wukong("w", halted)).await;
    world.until_condition("w", "Ready=False", "VMStopped").await;
    let machine = world.get(MACHINE, "w-vm").await.expect("made");
    assert_eq!(machine.value["spec"]["runStrategy"], "Halted");
    assert!(world.get(INSTANCE, "w-vm").await.is_none());
    // What `start` does to a machine that is halted.
    world.patch(MACHINE, "w-vm", json!({"spec": {"runStrategy": "Always"}})).await;
    world.until_phase("w", "Running").await;
    // What `stop` does; nobody undoes it.
    world.patch(MACHINE, "w-vm", json!({"spec": {"runStrategy": "Halted"}})).await;
    world.until_phase("w", "Stopped").await;
    // Another change of the Wukong does not either.
    world.patch(WUKONG, "w", json!({"spec": {"cpu": 4}})).await;
    let changed =
        |machine: &Value| machine["spec"]["template"]["spec"]["domain"]["cpu"]["cores"] == 4;
    let machine = world.until(MACHINE, "w-vm", changed).await;
    assert_eq!(machine.value["spec"]["runStrategy"], "Halted");
    world.patch(WUKONG, "w", json!({"spec": {"startStrategy": {"autoStart": true}}})).await;
    world.until_phase("w", "Running").await;
}

#[tokio::test]
async fn an_image_is_waited_for() {
    let world = World::start().await;
    let spec = json!({"disks": imaged("http://images/slow.img")});
    world.create(WUKONG, wukong("w", spec)).await;
    let waits = world.until_condition("w", "VolumesBound=False", "ImportInProgress").await;
    assert_eq!(waits.value["status"]["phase"], "Creating");
    let told = |one: &Value| message(&Object::new(one.clone()), "VolumesBound").contains("45.34%");
    let waits = world.until(WUKONG, "w", told).await;
    assert_eq!(
        message(&waits, "VolumesBound"),
        "DataVolume default/w-root is in ImportInProgress state, 45.34%"
    );
    assert!(world.get(MACHINE, "w-vm").await.is_none());
    // It is over.
    let volume = world.get(DATA_VOLUME, "w-root").await.expect("made");
    let target = reconcile::plan::Target::of(DATA_VOLUME, &volume).part("status");
    let requests = world.context.requests("test", Default::default());
    let done = json!({"status": {"phase": "Succeeded", "progress": "100.0%"}});
    requests.patch(&target, &done).await.expect("told");
    world.until_phase("w", "Running").await;
}

#[tokio::test]
async fn an_import_that_fails_is_said() {
    let world = World::start().await;
    let spec = json!({"disks": imaged("http://images/broken.img")});
    world.create(WUKONG, wukong("w", spec)).await;
    let failed = world.until_condition("w", "VolumesBound=False", "VolumeFailed").await;
    assert_eq!(failed.value["status"]["phase"], "Error");
    assert_eq!(message(&failed, "VolumesBound"), "DataVolume default/w-root is in Failed state");
    assert!(world.get(MACHINE, "w-vm").await.is_none());
}

#[tokio::test]
async fn a_claim_that_waits_for_its_consumer_gets_one() {
    let world = World::start().await;
    let mut disks = imaged("http://images/a.img");
    disks[0]["storageClassName"] = json!("waits");
    disks[1]["storageClassName"] = json!("waits");
    world.create(WUKONG, wukong("w", json!({"disks": disks}))).await;
    world.until(MACHINE, "w-vm", |_| true).await;
    world.until_phase("w", "Running").await;
    for name in ["w-root", "w-data"] {
        world.until(CLAIM, name, |claim| claim["status"]["phase"] == "Bound").await;
    }
    world.until(DATA_VOLUME, "w-root", |one| one["status"]["phase"] == "Succeeded").await;
}

#[tokio::test]
async fn a_claim_that_is_lost_is_said() {
    let world = World::start().await;
    let disks = json!([{"name": "root", "size": "1Gi", "storageClassName": "never"}]);
    world.create(WUKONG, wukong("w", json!({"disks": disks}))).await;
    let waits = |one: &Value| {
        let said = message(&Object::new(one.clone()), "VolumesBound");
        said == "PVC default/w-root is in Pending state"
    };
    let waits = world.until(WUKONG, "w", waits).await;
    assert!(says(&waits.value, "VolumesBound=False", "VolumesPending"));
    let claim = world.get(CLAIM, "w-root").await.expect("made");
    let target = reconcile::plan::Target::of(CLAIM, &claim).part("status");
    let requests = world.context.requests("test", Default::default());
    requests.patch(&target, &json!({"status": {"phase": "Lost"}})).await.expect("told");
    let lost = world.until_condition("w", "VolumesBound=False", "VolumeFailed").await;
    assert_eq!(message(&lost, "VolumesBound"), "PVC default/w-root is in Lost state");
    assert_eq!(lost.value["status"]["phase"], "Error");
}

#[tokio::test]
async fn a_disk_grows_and_its_size_is_the_real_one() {
    let world = World::start().await;
    world.create(WUKONG, wukong("w", json!({}))).await;
    world.until_phase("w", "Running").await;
    let disks = |size: &str| {
        let disk = json!({"name": "root", "size": size, "storageClassName": "fast"});
        json!({"spec": {"disks": [disk]}})
    };
    world.patch(WUKONG, "w", disks("20Gi")).await;
    let grown = |claim: &Value| claim["status"]["capacity"]["storage"] == "20Gi";
    world.until(CLAIM, "w-root", grown).await;
    world.until(WUKONG, "w", |one| one["status"]["volumes"][0]["size"] == "20Gi").await;
    world.until(WUKONG, "w", |one| !one.to_string().contains("DisksExpanded")).await;
    world.until_phase("w", "Running").await;
}

#[tokio::test]
async fn a_class_that_does_not_grow_is_named_and_the_machine_runs_on() {
    let world = World::start().await;
    let disks = |size: &str| {
        let disk = json!({"name": "root", "size": size, "storageClassName": "fixed"});
        json!({"disks": [disk]})
    };
    world.create(WUKONG, wukong("w", disks("10Gi"))).await;
    world.until_phase("w", "Running").await;
    world.patch(WUKONG, "w", json!({"spec": disks("20Gi")})).await;
    let told = world.until_condition("w", "DisksExpanded=False", "ExpansionFailed").await;
    assert_eq!(
        message(&told, "DisksExpanded"),
        "StorageClass fixed does not allow volume expansion"
    );
    assert_eq!(told.value["status"]["phase"], "Running");
    assert_eq!(told.value["status"]["volumes"][0]["size"], "10Gi");
    // When the class allows it, it is done.
    let class = json!({"allowVolumeExpansion": true});
    world.patch(STORAGE_CLASS, "fixed", class).await;
    world.until(WUKONG, "w", |one| !one.to_string().contains("DisksExpanded")).await;
    world.until(WUKONG, "w", |one| one["status"]["volumes"][0]["size"] == "20Gi").await;
}

#[tokio::test]
async fn without_a_default_class_a_disk_must_name_one() {
    let world = World::start().await;
    let off = json!({"metadata": {"annotations":
        {"storageclass.kubernetes.io/is-default-class": "false"}}});
    world.patch(STORAGE_CLASS, "fast", off).await;
    let disks = json!({"disks": [{"name": "root", "size": "1Gi"}]});
    let error = world.try_create(WUKONG, wukong("w", disks)).await.expect_err("refused");
    assert!(error.said().contains("disk[0].storageClassName is required"), "{error:?}");
}

/// One that a webhook let pass, or that was there before.
#[tokio::test]
async fn what_is_wrong_is_said_in_a_condition() {
    let cluster = testkit::Cluster::start().await;
    let (mut definitions, mut cluster) = (manifests_without_webhooks(), cluster);
    definitions.extend(machines::manifests::add_ons());
    install_these(&cluster, &definitions).await;
    let context = cluster.context();
    let mut operators = machines::start(&context, &machines::Options::default());
    cluster.run(async move { while operators.join_next().await.is_some() {} });
    let world = World { _cluster: cluster, context };
    let disks = json!({"disks": [{"name": "root", "size": "1Gi"}]});
    world.create(WUKONG, wukong("w", disks)).await;
    let wrong = world.until_condition("w", "Ready=False", "InvalidSpec").await;
    assert_eq!(wrong.value["status"]["phase"], "Error");
    assert_eq!(message(&wrong, "Ready"), "disk[0].storageClassName is required");
    assert!(world.get(CLAIM, "w-root").await.is_none());
}

fn manifests_without_webhooks() -> Vec<Value> {
    let all = machines::manifests::all();
    all.into_iter().filter(|one| !text(&one["kind"]).contains("Webhook")).collect()
}

#[tokio::test]
async fn keys_are_waited_for() {
    let world = World::start().await;
    world.create(WUKONG, wukong("w", json!({"sshKeySecret": "keys"}))).await;
    let waits = world.until_condition("w", "Ready=False", "KeysMissing").await;
    assert_eq!(message(&waits, "Ready"), "Secret keys is not found");
    assert!(world.get(MACHINE, "w-vm").await.is_none());
    let secret = json!({"metadata": {"namespace": "default", "name": "keys"},
        "stringData": {"publickey": "# mine\nssh-ed25519 AAAA me\n"}});
    world.create(SECRET, secret).await;
    // Any change of it looks again; so does the timer.
    world.patch(WUKONG, "w", json!({"metadata": {"labels": {"look": "again"}}})).await;
    world.until_phase("w", "Running").await;
    let machine = world.get(MACHINE, "w-vm").await.expect("made");
    assert!(machine.value.to_string().contains("ssh-ed25519 AAAA me"), "{}", machine.value);
}

#[tokio::test]
async fn what_belongs_to_another_is_left_alone() {
    let world = World::start().await;
    let claim = json!({"metadata": {"namespace": "default", "name": "w-root"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    world.create(CLAIM, claim).await;
    world.create(WUKONG, wukong("w", json!({}))).await;
    let told = world.until_condition("w", "VolumesBound=False", "VolumeFailed").await;
    assert_eq!(
        message(&told, "VolumesBound"),
        "PersistentVolumeClaim default/w-root exists and belongs to another owner"
    );
    world.delete(WUKONG, "w").await;
    world.until_gone(WUKONG, "w").await;
    let there = world.get(CLAIM, "w-root").await.expect("it stays");
    assert!(!there.is_terminating());
}

/// A quota lets no claim be made: that is said, and the attachment is there all the same.
#[tokio::test]
async fn what_the_server_refuses_is_said() {
    let world = World::start().await;
    let quota = json!({"metadata": {"namespace": "default", "name": "q"},
        "spec": {"hard": {"persistentvolumeclaims": "0"}}});
    world.create(QUOTA, quota).await;
    let told = json!({"status": {"hard": {"persistentvolumeclaims": "0"},
        "used": {"persistentvolumeclaims": "0"}}});
    let found = world.get(QUOTA, "q").await.expect("made");
    let target = reconcile::plan::Target::of(QUOTA, &found).part("status");
    let requests = world.context.requests("test", Default::default());
    requests.patch(&target, &told).await.expect("told");
    let networks = json!({"networks": [{"name": "lan", "type": "macvlan",
        "physicalInterface": "eth1"}]});
    world.create(WUKONG, wukong("w", networks)).await;
    let failed = world.until_condition("w", "VolumesBound=False", "VolumeFailed").await;
    assert!(message(&failed, "VolumesBound").contains("exceeded quota"), "{}", failed.value);
    assert_eq!(failed.value["status"]["phase"], "Error");
    assert!(world.get(ATTACHMENT, "w-lan-nad").await.is_some());
    assert!(world.get(MACHINE, "w-vm").await.is_none());
    // When there is room, any change goes on.
    world.delete(QUOTA, "q").await;
    world.patch(WUKONG, "w", json!({"metadata": {"labels": {"look": "again"}}})).await;
    world.until_phase("w", "Running").await;
}

#[tokio::test]
async fn add_ons_that_are_missing_are_named_and_used_when_they_come() {
    let world = World::with(AddOns::None, Bridges::ByPolicy).await;
    let mut spec = json!({"networks": [{"name": "lan", "type": "bridge"}]});
    spec["disks"] = imaged("http://images/a.img");
    world.create(WUKONG, wukong("w", spec)).await;
    let reason = "CustomResourceDefinitionsMissing";
    let told = world.until_condition("w", "AddOnsInstalled=False", reason).await;
    assert_eq!(
        message(&told, "AddOnsInstalled"),
        "the cluster does not have virtualmachines.kubevirt.io, datavolumes.cdi.kubevirt.io, \
         network-attachment-definitions.k8s.cni.cncf.io"
    );
    assert!(says(&told.value, "NetworksConfigured=False", "MultusMissing"), "{}", told.value);
    assert_eq!(told.value["status"]["phase"], "Creating");
    // What needs no add-on is made.
    world.until(CLAIM, "w-data", |_| true).await;
    world.delete(WUKONG, "w").await;
    world.until(WUKONG, "w", |one| says(one, "Ready=False", "Deleting")).await;
}

/// Only what is of KubeVirt is missing: the network of pods stands in for the others.
#[tokio::test]
async fn without_multus_a_machine_has_the_network_of_pods() {
    let mut cluster = testkit::Cluster::start().await;
    let add_ons = machines::manifests::add_ons().into_iter();
    let without = add_ons.filter(|one| one["spec"]["group"] != "k8s.cni.cncf.io");
    crate::world::install(&cluster, AddOns::None).await;
    install_these(&cluster, &without.collect::<Vec<_>>()).await;
    let context = cluster.context();
    let mut operators = machines::start(&context, &machines::Options::default());
    cluster.run(async move { while operators.join_next().await.is_some() {} });
    cluster.run(crate::play::play(cluster.context()));
    let world = World { _cluster: cluster, context };
    let networks = json!({"networks": [{"name": "lan", "type": "bridge", "primary": true}]});
    world.create(WUKONG, wukong("w", networks)).await;
    let runs = world.until_phase("w", "Running").await;
    let machine = world.get(MACHINE, "w-vm").await.expect("made");
    let spec = &machine.value["spec"]["template"]["spec"];
    assert_eq!(spec["networks"], json!([{"name": "default", "pod": {}}]));
    let lan = machines::value::find(&runs.value["status"]["networks"], "name", "lan");
    assert_eq!(lan, Some(&json!({"name": "lan"})));
    assert!(says(&runs.value, "NetworksConfigured=False", "MultusMissing"));
}

#[tokio::test]
async fn events_tell_of_every_phase() {
    let world = World::start().await;
    world.create(WUKONG, wukong("w", json!({}))).await;
    world.until_phase("w", "Running").await;
    let told = |all: &[std::sync::Arc<Object>], reason: &str| {
        all.iter().any(|one| one.value["reason"] == reason && one.value["type"] == "Normal")
    };
    until(&world.context, reconcile::notices::EVENT, |all| {
        ["Pending", "Creating", "Running"].iter().all(|reason| told(all, reason))
    })
    .await;
}
