//! What stands in for the add-ons, each as the user that its role is for: the role must suffice,
//! and say no more than is needed.

use std::collections::BTreeSet;
use std::sync::Arc;

use machines::kinds::{
    ATTACHMENT, CLAIM, DATA_VOLUME, ENACTMENT, INSTANCE, MACHINE, POLICY, RESTORE, SECRET, SNAPSHOT,
};
use machines::{manifests, provider, roles};
use reconcile::plan::Target;
use reconcile::{Kind, Name, Object};
use serde_json::{Value, json};
use testkit::Cluster;
use testkit::cluster::until;
use testkit::rights::{Asked, Right, granted};

use crate::host::{self, Binder};
use crate::world::{World, message};

const NODE: Kind = Kind::cluster("", "v1", "Node", "nodes");
const SERVICE: Kind = Kind::namespaced("", "v1", "Service", "services");
const EVENT: Kind = Kind::namespaced("", "v1", "Event", "events");
const ENDPOINT_SLICE: Kind =
    Kind::namespaced("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices");
const LOOK: std::time::Duration = std::time::Duration::from_millis(10);

fn named(name: &str, spec: Value) -> Value {
    json!({"metadata": {"namespace": "default", "name": name}, "spec": spec})
}

/// A machine that refers to everything that one can.
fn machine() -> Value {
    let spec = json!({
        "terminationGracePeriodSeconds": 30,
        "tolerations": host::tolerations(),
        "domain": {"devices": {}},
        "networks": [{"name": "default", "pod": {}},
            {"name": "lan", "multus": {"networkName": "lan"}}],
        "volumes": [{"name": "root", "dataVolume": {"name": "root"}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "told", "cloudInitNoCloud": {"secretRef": {"name": "told"}}}],
    });
    let claim = json!({"resources": {"requests": {"storage": "1Mi"}}});
    let template = json!({"metadata": {"name": "root"},
        "spec": {"source": {"blank": {}}, "pvc": claim}});
    named(
        "m",
        json!({"runStrategy": "Always", "dataVolumeTemplates": [template],
        "template": {"metadata": {"labels": {"app": "m"}}, "spec": spec}}),
    )
}

fn policy(name: &str, interfaces: Value) -> Value {
    let spec = json!({"desiredState": {"interfaces": interfaces}});
    json!({"metadata": {"name": name}, "spec": spec})
}

/// Policies that touch no interface of this machine: one asks for nothing, one for what a node does
/// not do. What nodes do is tried where that can be done (`crates/node/src/machines/policies/`).
async fn policies_are_told_of(world: &World) {
    world.create(POLICY, policy("easy", json!([]))).await;
    let is_so = |kind: &'static str| {
        move |one: &Value| reconcile::conditions::is_true(&one["status"], kind)
    };
    world.until(POLICY, "easy", is_so("Available")).await;
    let open = json!([{"name": "br-x", "type": "ovs-bridge"}]);
    world.create(POLICY, policy("open", open)).await;
    let told = world.until(POLICY, "open", is_so("Degraded")).await;
    let said = message(&told, "Degraded");
    assert!(said.starts_with("1/1 nodes failed to configure: n1: desiredState.interfaces[0].type"));
    let own = world.get(ENACTMENT, "n1.open").await.expect("a node tells");
    assert!(is_so("Failing")(&own.value) && said.ends_with(&message(&own, "Failing")));
    // What is mended is looked at again.
    let mended = json!({"spec": {"desiredState": {"interfaces": []}}});
    world.patch(POLICY, "open", mended).await;
    world.until(POLICY, "open", is_so("Available")).await;
}

/// A service leads to the machine that has its labels, for as long as it does.
async fn services_lead_to_it(world: &World) {
    let leading = |port: u16| {
        let ports = json!([{"name": "ssh", "port": port, "targetPort": 22},
            {"name": "web", "port": 80, "targetPort": "http"}]);
        json!({"selector": {"app": "m"}, "ports": ports})
    };
    world.create(SERVICE, named("ssh", leading(2222))).await;
    let slice = one(world, ENDPOINT_SLICE, is_of_launcher).await;
    let ports = |slice: &Value| slice["ports"][0]["port"].as_u64();
    assert_eq!(ports(&slice.value), Some(22), "as the simulated one opens it");
    let endpoint = &slice.value["endpoints"][0];
    assert_eq!(endpoint["addresses"], json!([host::GATEWAY]));
    assert_eq!(endpoint["targetRef"]["kind"], "VirtualMachineInstance");
    let instance = world.get(INSTANCE, "m").await.expect("it runs");
    assert_eq!(host::hypervisor().ports(&instance.uid).len(), 1);
    // The port that no interface has is said to lead nowhere.
    let said = one(world, EVENT, |one| one["reason"] == "PortNotPublished").await;
    assert_eq!(said.value["involvedObject"]["name"], "ssh");
    // It leads to another port of the guest, and then nowhere.
    let other = json!({"spec": {"ports": [{"name": "ssh", "port": 80, "targetPort": 80}]}});
    world.patch(SERVICE, "ssh", other).await;
    let is_other = |one: &Value| is_of_launcher(one) && ports(one) == Some(80);
    one(world, ENDPOINT_SLICE, is_other).await;
    world.delete(SERVICE, "ssh").await;
    until(&world.context, ENDPOINT_SLICE, is_told_of_nothing).await;
    while !host::hypervisor().ports(&instance.uid).is_empty() {
        tokio::time::sleep(LOOK).await;
    }
    world.create(SERVICE, named("ssh", leading(22))).await;
    one(world, ENDPOINT_SLICE, is_of_launcher).await;
}

fn is_of_launcher(slice: &Value) -> bool {
    let by = &slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"];
    *by == "machine-launcher.setpoint.dev"
}

fn is_told_of_nothing(slices: &[Arc<Object>]) -> bool {
    !slices.iter().any(|slice| is_of_launcher(&slice.value))
}

/// Waits for an object of which something holds.
async fn one(world: &World, kind: Kind, holds: impl Fn(&Value) -> bool) -> Arc<Object> {
    let is_it = |one: &Arc<Object>| holds(&one.value);
    until(&world.context, kind, |all| all.iter().any(is_it)).await;
    world.context.cache(kind).all().into_iter().find(is_it).expect("it was there")
}

/// Everything that makes those who stand in ask for something.
async fn use_everything(world: &World) {
    world.create(NODE, host::node()).await;
    policies_are_told_of(world).await;
    world
        .create(
            SECRET,
            json!({"metadata": {"namespace": "default", "name": "told"},
        "stringData": {"userdata": "#cloud-config"}}),
        )
        .await;
    let config = json!({"type": "bridge", "bridge": "br-x"}).to_string();
    world.create(ATTACHMENT, named("lan", json!({"config": config}))).await;
    let claim = json!({"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Mi"}}});
    world.create(CLAIM, named("data", claim)).await;
    world.create(MACHINE, machine()).await;
    let runs = |one: &Value| one["status"]["phase"] == "Running";
    world.until(INSTANCE, "m", runs).await;
    services_lead_to_it(world).await;
    world.patch(MACHINE, "m", json!({"spec": {"runStrategy": "Halted"}})).await;
    world.until_gone(INSTANCE, "m").await;
    until(&world.context, ENDPOINT_SLICE, is_told_of_nothing).await;
    let source = json!({"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "m"});
    world.create(SNAPSHOT, named("s", json!({"source": source}))).await;
    world.until(SNAPSHOT, "s", |one| one["status"]["readyToUse"] == true).await;
    let back = json!({"target": source, "virtualMachineSnapshotName": "s"});
    world.create(RESTORE, named("r", back)).await;
    world.until(RESTORE, "r", |one| one["status"]["complete"] == true).await;
    // As a request to start does it.
    let found = world.context.get_live(MACHINE, &Name::new("default", "m")).await;
    let found = found.expect("readable").expect("it is there");
    let start = json!({"status": {"stateChangeRequests": [{"action": "Start"}]}});
    let requests = world.context.requests("test", Default::default());
    let target = Target::of(MACHINE, &found).part("status");
    requests.patch(&target, &start).await.expect("changed");
    world.until(INSTANCE, "m", runs).await;
    world.delete(MACHINE, "m").await;
    world.until_gone(MACHINE, "m").await;
    world.until(DATA_VOLUME, "root", |one| one["status"]["phase"] == "Succeeded").await;
}

/// What a role allows and nobody asked for, and what was asked for without it.
fn check(role: &str, asked: &Asked, beside: &[(&str, &str, &str)]) {
    assert_eq!(asked.refused(), BTreeSet::new(), "the role {role} must suffice");
    let all = roles::add_ons();
    let own: Vec<Value> = all.into_iter().filter(|one| one["metadata"]["name"] == role).collect();
    let granted = granted(&own);
    let mut used = asked.rights();
    used.extend(beside.iter().map(|(group, resource, verb)| Right {
        group: (*group).to_owned(),
        resource: (*resource).to_owned(),
        verb: (*verb).to_owned(),
    }));
    let unused: Vec<String> = granted.difference(&used).map(ToString::to_string).collect();
    let missing: Vec<String> = used.difference(&granted).map(ToString::to_string).collect();
    assert_eq!((unused, missing), (Vec::new(), Vec::new()), "{role}: not used, not granted");
}

#[tokio::test]
async fn the_roles_of_those_who_stand_in_suffice_and_say_no_more() {
    let mut cluster = Cluster::start().await;
    cluster.install_all(&[], &manifests::provider()).await;
    let (client, provides) = cluster.noted_user(roles::PROVIDER);
    cluster.run(provider::run(cluster.context_of(client)));
    let (client, launches) = cluster.noted_user(roles::LAUNCHER);
    cluster.run(host::launch(cluster.context_of(client)));
    cluster.run(reconcile::run::run(cluster.context(), Binder));
    let context = cluster.context();
    let world = World::of(cluster, context);
    use_everything(&world).await;
    // What servers that enforce it ask of who makes owners wait; what happens when a status was
    // changed by another in between.
    check(
        roles::PROVIDER,
        &provides,
        &[
            ("kubevirt.io", "virtualmachines/finalizers", "update"),
            ("cdi.kubevirt.io", "datavolumes/finalizers", "update"),
            // Volumes that come and go while a machine runs, and claims that wait for one.
            ("kubevirt.io", "virtualmachineinstances", "patch"),
            ("", "persistentvolumeclaims", "patch"),
            ("", "events", "patch"),
        ],
    );
    // What is asked beside the object is answered by the same user (`app/src/machines.rs`).
    check(
        roles::LAUNCHER,
        &launches,
        &[
            ("kubevirt.io", "virtualmachines", "patch"),
            ("kubevirt.io", "virtualmachines/status", "patch"),
            ("cdi.kubevirt.io", "datavolumes", "get"),
            ("nmstate.io", "nodenetworkconfigurationpolicies/finalizers", "update"),
            ("", "events", "patch"),
        ],
    );
}

#[test]
fn users_get_their_rights_with_the_roles_that_every_cluster_has() {
    let all = roles::add_ons().into_iter().chain(roles::users());
    let all: Vec<Value> = all.collect();
    let of = |name: &str| {
        let found = all.iter().filter(|role| role["metadata"]["name"] == name);
        let found: Vec<Value> = found.cloned().collect();
        assert_eq!(found.len(), 1, "{name}");
        granted(&found)
    };
    let right = |group: &str, resource: &str, verb: &str| Right {
        group: group.to_owned(),
        resource: resource.to_owned(),
        verb: verb.to_owned(),
    };
    let start = right("subresources.kubevirt.io", "virtualmachines/start", "update");
    let console = right("subresources.kubevirt.io", "virtualmachineinstances/console", "get");
    let view = of("kubevirt.io:view");
    assert!(!view.contains(&start) && !view.contains(&console));
    assert!(view.iter().all(|one| ["get", "list", "watch"].contains(&one.verb.as_str())));
    let edit = of("kubevirt.io:edit");
    assert!(edit.contains(&start) && edit.contains(&console) && edit.is_superset(&view));
    assert!(of("kubevirt.io:admin").is_superset(&edit));
    assert!(of("cdi.kubevirt.io:edit").contains(&right(
        "cdi.kubevirt.io",
        "datavolumes",
        "create"
    )));
    assert!(of("vm.novasphere.dev:view").contains(&right("vm.novasphere.dev", "wukongs", "list")));
    for role in all.iter().filter(|role| role["kind"] == "ClusterRole") {
        let name = role["metadata"]["name"].as_str().expect("a name");
        let is_of_users = !name.starts_with("system:");
        let labels = role["metadata"]["labels"].as_object();
        assert_eq!(labels.is_some_and(|labels| labels.len() == 1), is_of_users, "{name}");
    }
}
