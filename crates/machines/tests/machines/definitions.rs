//! What the definitions accept, refuse and show.

use machines::Bridges;
use machines::kinds::{ATTACHMENT, DATA_VOLUME, MACHINE, WUKONG, WUKONG_SNAPSHOT};
use serde_json::{Value, json};

use crate::world::{AddOns, World, install, wukong};

/// A server with the definitions and nothing that works on them.
async fn served() -> World {
    let cluster = testkit::Cluster::start().await;
    install(&cluster, AddOns::All).await;
    let context = cluster.context();
    World { _cluster: cluster, context }
}

/// Shapes as users of the upstream operator write them.
fn samples() -> Vec<Value> {
    let disk = |class: &str| {
        json!({"name": "system", "size": "10Gi", "storageClassName": class,
        "boot": true})
    };
    let image = json!("http://images.example/noble-server-cloudimg-amd64.img");
    let mut filled = disk("longhorn");
    filled["image"] = image;
    let data = json!({"name": "data", "size": "200Gi", "storageClassName": "longhorn",
        "boot": false});
    let user = json!({"name": "ubuntu", "passwordHash": "$1$7.t8q8zZ$x",
        "sudo": "ALL=(ALL) NOPASSWD:ALL", "shell": "/bin/bash", "groups": ["sudo", "adm"],
        "lockPasswd": false});
    let fixed = json!({"mode": "static", "address": "192.168.0.200/24", "gateway": "192.168.0.1",
        "dnsServers": ["192.168.0.1", "8.8.8.8"]});
    vec![
        json!({"cpu": 2, "memory": "2Gi", "disks": [disk("local-path")],
            "networks": [{"name": "default", "type": "bridge", "ipConfig": {"mode": "dhcp"}}]}),
        json!({"cpu": 4, "memory": "8Gi", "disks": [filled, data], "cloudInitUser": user,
            "highAvailability": {"restartPolicy": "Always", "antiAffinity": true,
                "nodeSelector": {"node-role.kubernetes.io/worker": ""}},
            "startStrategy": {"autoStart": true}}),
        json!({"cpu": 2, "memory": "4Gi", "disks": [disk("longhorn")], "networks": [
            {"name": "default"},
            {"name": "external", "type": "bridge", "bridgeName": "br-external",
                "physicalInterface": "ens192", "nodeIP": "192.168.0.121/24", "ipConfig": fixed}]}),
        json!({"cpu": 1, "memory": "1.5G", "disks": [disk("longhorn")], "sshKeySecret": "keys",
            "osImage": "ubuntu", "gpus": [{"name": "gpu0", "deviceName": "nvidia.com/gpu"}],
            "networks": [{"name": "outer", "type": "macvlan", "bridgeName": "ens160",
                "ipConfig": fixed}, {"name": "lan", "type": "bridge", "nadName": "mine",
                    "vlanId": 100, "primary": true}]}),
    ]
}

#[tokio::test]
async fn what_users_write_is_accepted() {
    let world = served().await;
    for (at, spec) in samples().into_iter().enumerate() {
        let mut object = wukong(&format!("sample-{at}"), json!({}));
        object["spec"] = spec.clone();
        let made = world.create(WUKONG, object).await;
        assert!(api::value::says(&made.value["spec"], &spec), "{}", made.value);
    }
}

#[tokio::test]
async fn what_cannot_be_is_refused_by_its_field() {
    let world = served().await;
    let network = |more: Value| {
        let mut network = json!({"name": "lan", "type": "bridge"});
        reconcile::plan::merge(&mut network, &more);
        json!({"networks": [network]})
    };
    let disk = |name: &str, size: &str| json!({"disks": [{"name": name, "size": size}]});
    for (spec, field) in [
        (json!({"cpu": 0}), "spec.cpu"),
        (json!({"cpu": 65}), "spec.cpu"),
        (json!({"memory": "abc"}), "spec.memory"),
        (network(json!({"vlanId": 4095})), "vlanId"),
        (network(json!({"type": "foo"})), "spec.networks[0].type"),
        (network(json!({"ipConfig": {"mode": "auto"}})), "ipConfig.mode"),
        (disk("Root", "1Gi"), "spec.disks[0].name"),
        (disk("root", "1 Gi"), "spec.disks[0].size"),
        (json!({"startStrategy": {"runStrategy": "Sometimes"}}), "runStrategy"),
    ] {
        let error = world.try_create(WUKONG, wukong("wrong", spec.clone())).await;
        let error = error.expect_err("refused");
        // The schema and the webhook know the same; whichever comes first names the field.
        let last = field.rsplit(['.', '[']).next().expect("a word").to_owned();
        let said = error.said().to_lowercase();
        assert!(said.contains(&last.to_lowercase()), "{spec}: {said}");
        assert!(matches!(error.code(), Some(422 | 403)), "{spec}: {error:?}");
    }
}

/// The definition alone, without a webhook before it.
#[tokio::test]
async fn the_schema_alone_refuses_with_422() {
    let cluster = testkit::Cluster::start().await;
    crate::world::install_these(&cluster, &api::wukong::definitions()).await;
    let context = cluster.context();
    let world = World { _cluster: cluster, context };
    for (spec, field) in [
        (json!({"cpu": 0}), "spec.cpu"),
        (json!({"memory": "abc"}), "spec.memory"),
        (json!({"networks": [{"name": "a", "type": "foo"}]}), "spec.networks[0].type"),
        (json!({"networks": [{"name": "a", "vlanId": 4095}]}), "spec.networks[0].vlanId"),
        (json!({"memory": null}), "spec.memory"),
    ] {
        let error = world.try_create(WUKONG, wukong("wrong", spec)).await.expect_err("refused");
        assert_eq!(error.code(), Some(422));
        assert!(error.said().contains(field), "{}", error.said());
    }
    let snapshot = json!({"metadata": {"namespace": "default", "name": "s"}, "spec": {}});
    let error = world.try_create(WUKONG_SNAPSHOT, snapshot).await.expect_err("refused");
    assert!(error.said().contains("wukongName"), "{}", error.said());
}

#[tokio::test]
async fn kinds_of_the_add_ons_are_served() {
    let world = served().await;
    let template = json!({"spec": {"domain": {"cpu": {"cores": 1}, "devices": {"disks": [],
        "rng": {}}}, "terminationGracePeriodSeconds": 5, "evictionStrategy": "None"}});
    let machine = |spec: Value| {
        let mut whole = json!({"template": template});
        reconcile::plan::merge(&mut whole, &spec);
        json!({"metadata": {"namespace": "default", "name": "vm"}, "spec": whole})
    };
    let both = machine(json!({"running": true, "runStrategy": "Always"}));
    let error = world.try_create(MACHINE, both).await.expect_err("refused");
    assert!(error.said().contains("running and runstrategy are mutually exclusive"), "{error:?}");
    let made = world.create(MACHINE, machine(json!({"runStrategy": "Halted"}))).await;
    // What a compact definition does not name is kept.
    assert_eq!(made.value["spec"]["template"], template);

    let volume = json!({"metadata": {"namespace": "default", "name": "dv"}, "spec": {
        "source": {"http": {"url": "http://x/y"}},
        "pvc": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}});
    world.create(DATA_VOLUME, volume).await;
    let patch = json!({"spec": {"source": {"http": {"url": "http://x/z"}}}});
    let error = world.try_patch(DATA_VOLUME, "dv", patch).await.expect_err("refused");
    assert!(error.said().contains("Cannot update DataVolume Spec"), "{}", error.said());

    let attachment = json!({"metadata": {"namespace": "default", "name": "net"},
        "spec": {"config": "{}"}});
    world.create(ATTACHMENT, attachment).await;
    let requests = world.context.requests("test", Default::default());
    for version in ["v1alpha1", "v1beta1"] {
        let path = format!(
            "/apis/snapshot.kubevirt.io/{version}/namespaces/default/virtualmachinesnapshots"
        );
        let snapshot = json!({"metadata": {"name": version}, "spec": {"source":
            {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "vm"}}});
        requests.post(&path, &snapshot).await.expect("made");
    }
}

/// What `kubectl get` shows, as the server says it.
#[tokio::test]
async fn columns_say_what_matters() {
    let world = World::with(AddOns::All, Bridges::ByPolicy).await;
    world.create(WUKONG, wukong("shown", json!({}))).await;
    world.until_phase("shown", "Running").await;
    let requests = world.context.requests("test", Default::default());
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let show = async |kind: reconcile::Kind| {
        let all = requests.read_as(&kind.collection("default"), table).await.expect("a table");
        let names = machines::value::list(&all["columnDefinitions"]).iter();
        let names: Vec<String> =
            names.map(|one| one["name"].as_str().unwrap_or("").to_owned()).collect();
        (names.join(" "), all["rows"][0]["cells"].clone())
    };
    let (names, cells) = show(WUKONG).await;
    assert_eq!(names, "Name Phase Ready Node Address Reason Age");
    assert_eq!(cells[1], "Running");
    assert_eq!(cells[2], "True");
    assert_eq!((&cells[3], &cells[4]), (&json!("played-node"), &json!("10.0.0.2")));
    let (names, cells) = show(MACHINE).await;
    assert_eq!(names, "Name Age Status Ready");
    assert_eq!(cells[2], "Running");
    assert_eq!(show(DATA_VOLUME).await.0, "Name Phase Progress Restarts Age");
    assert_eq!(show(WUKONG_SNAPSHOT).await.0, "Name Wukong Phase Age");
}
