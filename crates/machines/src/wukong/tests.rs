//! What becomes of a Wukong, as data: each file of `goldens/` is a specification, and the objects
//! that are made of it in their order. `UPDATE_GOLDENS=1` writes what is found.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::{Kind, Object, Step, Wake};
use serde_json::{Value, json};

use super::disks::is_filled;
use super::observe::{Keys, Observed, keys_in};
use super::plan::{CREATING, ERROR_LOOK};
use super::spec::{Classes, FINALIZER};
use super::{plan_of, validate};
use crate::Bridges;
use crate::kinds::{ATTACHMENT, CLAIM, DATA_VOLUME, MACHINE, POLICY, SERVICE};
use crate::value::text;

const SEPARATOR: &str = "---\n";

fn files() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens");
    let files = fs::read_dir(directory).expect("there are goldens");
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    files.sort();
    files
}

fn wukong(spec: &Value, status: Value) -> Value {
    json!({"apiVersion": "vm.novasphere.dev/v1alpha1", "kind": "Wukong",
        "metadata": {"namespace": "ns", "name": "w", "uid": "uid", "generation": 1,
            "finalizers": [FINALIZER]},
        "spec": spec, "status": status})
}

fn classes() -> Classes {
    let class = |name: &str, mode: &str| {
        Arc::new(Object::new(json!({"metadata": {"name": name, "annotations":
            {"storageclass.kubernetes.io/is-default-class": (name == "fast").to_string()}},
            "volumeBindingMode": mode, "allowVolumeExpansion": true})))
    };
    Classes::of(vec![class("fast", "Immediate"), class("waits", "WaitForFirstConsumer")])
}

fn observed(case: &Value) -> Observed {
    let mut observed = Observed { classes: classes(), ..Observed::default() };
    observed.add_ons.nmstate = case["nmstate"] != false;
    if case["bridges"] == "node" {
        observed.bridges = Bridges::ByNode;
    }
    if let Some(keys) = case["keys"].as_array() {
        observed.keys = Keys::Found(keys.iter().map(|key| text(key).to_owned()).collect());
    }
    observed
}

fn made(object: &Value, observed: &Observed) -> Vec<(Kind, Value)> {
    let plan = plan_of(object, observed, Timestamp::UNIX_EPOCH);
    let made = plan.steps.iter().map(|step| match step {
        Step::Create { kind, object } => (*kind, object.clone()),
        step => panic!("{step}"),
    });
    made.collect()
}

/// An object that is there and as far as it gets.
fn settled(kind: Kind, object: &Value) -> Arc<Object> {
    let mut object = object.clone();
    object["metadata"]["uid"] = json!("other");
    object["status"] = match kind {
        CLAIM => json!({"phase": "Bound",
            "capacity": object["spec"]["resources"]["requests"]}),
        DATA_VOLUME => json!({"phase": "Succeeded"}),
        POLICY => json!({"conditions": [{"type": "Available", "status": "True"}]}),
        _ => json!({}),
    };
    Arc::new(Object::new(object))
}

fn put(observed: &mut Observed, kind: Kind, object: &Value) {
    let name = text(&object["metadata"]["name"]).to_owned();
    let disk = name.trim_start_matches("w-").to_owned();
    let there = settled(kind, object);
    match kind {
        ATTACHMENT => drop(observed.attachments.insert(name, there)),
        POLICY => drop(observed.policies.insert(name, there)),
        CLAIM => drop(observed.claims.insert(disk, there)),
        SERVICE => observed.service = Some(there),
        DATA_VOLUME => {
            let claim = json!({"metadata": {"namespace": "ns", "name": name, "ownerReferences":
                [{"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "name": name,
                    "uid": "other", "controller": true}]}, "spec": object["spec"]["pvc"]});
            observed.claims.insert(disk.clone(), settled(CLAIM, &claim));
            observed.volumes.insert(disk, there);
        }
        _ => {}
    }
}

/// The objects of a first look, and then, when those are there, the machine.
fn objects(case: &Value) -> Vec<Value> {
    let mut observed = observed(case);
    for network in crate::value::list(&case["spec"]["networks"]) {
        if let Some(own) = network["nadName"].as_str() {
            let mine = json!({"metadata": {"namespace": "ns", "name": own}});
            put(&mut observed, ATTACHMENT, &mine);
        }
    }
    let object = wukong(&case["spec"], json!({"phase": "Creating"}));
    let first = made(&object, &observed);
    assert!(first.iter().all(|(kind, _)| *kind != MACHINE), "the machine comes last");
    first.iter().for_each(|(kind, object)| put(&mut observed, *kind, object));
    let second = made(&object, &observed);
    assert!(second.iter().all(|(kind, _)| *kind == MACHINE), "the rest is there");
    first.into_iter().chain(second).map(|(kind, object)| without_owner(kind, object)).collect()
}

fn without_owner(kind: Kind, mut object: Value) -> Value {
    if kind != POLICY {
        let owner = &object["metadata"]["ownerReferences"][0];
        assert_eq!((&owner["uid"], &owner["controller"]), (&json!("uid"), &json!(true)));
    }
    if let Some(meta) = object["metadata"].as_object_mut() {
        meta.remove("ownerReferences");
    }
    object
}

#[test]
fn children_are_what_their_goldens_say() {
    let is_update = std::env::var("UPDATE_GOLDENS").is_ok();
    for file in files() {
        let whole = fs::read_to_string(&file).expect("readable");
        let (question, answer) = whole.split_once(SEPARATOR).unwrap_or((&whole, ""));
        let case: Value = serde_saphyr::from_str(question).expect("a case is YAML");
        let found = objects(&case);
        if is_update {
            let found = serde_saphyr::to_string(&found).expect("YAML");
            fs::write(&file, format!("{question}{SEPARATOR}{found}")).expect("written");
            continue;
        }
        let expected: Value = serde_saphyr::from_str(answer).expect("an answer is YAML");
        assert_eq!(Value::Array(found), expected, "{}", file.display());
    }
    assert!(files().len() >= 6);
}

fn plain() -> Value {
    json!({"cpu": 1, "memory": "1Gi", "disks": [{"name": "root", "size": "1Gi",
        "storageClassName": "fast"}]})
}

/// Everything but the machine is there.
fn ready(spec: &Value) -> Observed {
    let mut observed = observed(&json!({}));
    let object = wukong(spec, json!({"phase": "Creating"}));
    for (kind, object) in made(&object, &observed) {
        put(&mut observed, kind, &object);
    }
    observed
}

fn machine(spec: &Value) -> Value {
    let object = wukong(spec, json!({"phase": "Creating"}));
    let mut made = made(&object, &ready(spec));
    let (kind, mut machine) = made.pop().expect("a machine");
    assert_eq!(kind, MACHINE);
    machine["metadata"]["uid"] = json!("machine");
    machine
}

#[test]
fn a_machine_that_is_as_wanted_is_not_written() {
    let spec = plain();
    let mut observed = ready(&spec);
    let mut found = machine(&spec);
    // What others fill in is theirs.
    found["spec"]["template"]["spec"]["domain"]["machine"] = json!({"type": "q35"});
    found["spec"]["template"]["spec"]["architecture"] = json!("amd64");
    observed.machine = Some(Arc::new(Object::new(found.clone())));
    let object = wukong(&spec, json!({"phase": "Creating"}));
    let plan = plan_of(&object, &observed, Timestamp::UNIX_EPOCH);
    assert!(plan.steps.is_empty(), "{plan}");
    // What is not asked for any more goes.
    let named = json!({"zone": "a"});
    found["spec"]["template"]["spec"]["nodeSelector"] = named;
    found["spec"]["running"] = json!(true);
    observed.machine = Some(Arc::new(Object::new(found)));
    let plan = plan_of(&object, &observed, Timestamp::UNIX_EPOCH);
    let [Step::Patch { patch, .. }] = &plan.steps[..] else { panic!("{plan}") };
    let spec = patch["spec"]["template"]["spec"].as_object().expect("a spec");
    assert!(spec.get("nodeSelector").is_some_and(Value::is_null), "{patch}");
    assert!(patch["spec"].as_object().is_some_and(|spec| spec["running"].is_null()));
}

#[test]
fn what_was_plugged_in_or_moved_stays() {
    let spec = plain();
    let mut observed = ready(&spec);
    let mut found = machine(&spec);
    let template = &mut found["spec"]["template"]["spec"];
    let plugged = json!({"name": "extra",
        "persistentVolumeClaim": {"claimName": "e", "hotpluggable": true}});
    let disk = json!({"name": "extra", "disk": {"bus": "scsi"}});
    template["volumes"].as_array_mut().expect("volumes").push(plugged);
    template["domain"]["devices"]["disks"].as_array_mut().expect("disks").push(disk);
    template["volumes"][0]["persistentVolumeClaim"]["claimName"] = json!("restore-1-root");
    observed.machine = Some(Arc::new(Object::new(found)));
    let object = wukong(&spec, json!({"phase": "Creating"}));
    let plan = plan_of(&object, &observed, Timestamp::UNIX_EPOCH);
    assert!(plan.steps.is_empty(), "{plan}");
}

/// How a Wukong runs, by what it says.
#[test]
fn run_strategies_follow_from_what_is_said() {
    let cases = [
        (json!({}), "Always"),
        (json!({"startStrategy": {"autoStart": false}}), "Halted"),
        (json!({"startStrategy": {"autoStart": false, "runStrategy": "Manual"}}), "Manual"),
        (json!({"startStrategy": {"runStrategy": "RerunOnFailure"}}), "RerunOnFailure"),
        (json!({"highAvailability": {"restartPolicy": "OnFailure"}}), "RerunOnFailure"),
        (json!({"highAvailability": {"restartPolicy": "Never"}}), "Once"),
        (
            json!({"startStrategy": {"autoStart": true, "runStrategy": "Manual"},
                "highAvailability": {"restartPolicy": "Always"}}),
            "Manual",
        ),
    ];
    for (more, expected) in cases {
        let mut spec = plain();
        reconcile::plan::merge(&mut spec, &more);
        assert_eq!(machine(&spec)["spec"]["runStrategy"], expected, "{more}");
    }
}

/// What an instance means for the phase, and when is looked again.
#[test]
fn phases_follow_the_instance() {
    let after = |duration| Wake::After(duration);
    let cases = [
        ("Always", "Running", ("Running", "True", "VMRunning", Wake::OnChange)),
        ("Always", "Pending", ("Creating", "False", "VMCreating", after(CREATING))),
        ("Always", "Scheduling", ("Creating", "False", "VMCreating", after(CREATING))),
        ("Always", "Scheduled", ("Creating", "False", "VMCreating", after(CREATING))),
        ("Always", "Failed", ("Error", "False", "VMFailed", after(ERROR_LOOK))),
        ("Always", "Unknown", ("Error", "False", "VMFailed", after(ERROR_LOOK))),
        ("Always", "Succeeded", ("Creating", "False", "VMCreating", after(CREATING))),
        ("Always", "", ("Creating", "False", "VMCreating", after(CREATING))),
        ("Manual", "Succeeded", ("Stopped", "False", "VMStopped", Wake::OnChange)),
        ("Manual", "", ("Stopped", "False", "VMStopped", Wake::OnChange)),
        ("Halted", "", ("Stopped", "False", "VMStopped", Wake::OnChange)),
    ];
    for (strategy, phase, (own, ready_status, reason, wake)) in cases {
        let spec = plain();
        let mut observed = ready(&spec);
        let mut found = machine(&spec);
        found["spec"]["runStrategy"] = json!(strategy);
        observed.machine = Some(Arc::new(Object::new(found)));
        let instance = json!({"metadata": {"namespace": "ns", "name": "w-vm"},
            "status": {"phase": phase, "nodeName": "n"}});
        observed.instance = (!phase.is_empty()).then(|| Arc::new(Object::new(instance)));
        let object = wukong(&spec, json!({"phase": "Creating"}));
        let plan = plan_of(&object, &observed, Timestamp::UNIX_EPOCH);
        let status = plan.status.expect("a status");
        let found = reconcile::conditions::find(&status, "Ready").expect("Ready");
        assert_eq!(status["phase"], own, "{strategy} {phase}");
        assert_eq!((&found["status"], &found["reason"]), (&json!(ready_status), &json!(reason)));
        assert_eq!(plan.wake, wake, "{strategy} {phase}");
        assert_eq!(status["vmName"], "w-vm", "a machine that is there is known");
    }
}

#[test]
fn a_time_of_transition_changes_with_the_status_only() {
    let spec = plain();
    let observed = ready(&spec);
    let object = wukong(&spec, json!({"phase": "Creating"}));
    let first = plan_of(&object, &observed, Timestamp::UNIX_EPOCH).status.expect("a status");
    let later = Timestamp::from_second(100).expect("a time");
    let object = wukong(&spec, first.clone());
    let second = plan_of(&object, &observed, later).status.expect("a status");
    assert_eq!(first, second);
    assert_eq!(first["conditions"][0]["observedGeneration"], 1);
}

/// A machine that prints why it does not start is no machine that is being made.
#[test]
fn what_will_not_come_is_an_error() {
    let spec = plain();
    let mut observed = ready(&spec);
    let mut found = machine(&spec);
    found["status"] = json!({"printableStatus": "CrashLoopBackOff"});
    observed.machine = Some(Arc::new(Object::new(found)));
    let object = wukong(&spec, json!({"phase": "Creating"}));
    let plan = plan_of(&object, &observed, Timestamp::UNIX_EPOCH);
    assert_eq!(plan.status.expect("a status")["phase"], "Error");
}

/// What an instance says of itself is why its Wukong is not ready.
#[test]
fn why_a_machine_does_not_run_is_told() {
    let spec = plain();
    let mut observed = ready(&spec);
    observed.machine = Some(Arc::new(Object::new(machine(&spec))));
    let object = wukong(&spec, json!({"phase": "Creating"}));
    let mut told = |phase: &str, kind: &str, reason: &str| {
        let condition = json!({"type": kind, "status": "False", "reason": reason,
            "message": "it is so"});
        let instance = json!({"metadata": {"namespace": "ns", "name": "w-vm"},
            "status": {"phase": phase, "conditions": [condition]}});
        observed.instance = Some(Arc::new(Object::new(instance)));
        let status = plan_of(&object, &observed, Timestamp::UNIX_EPOCH).status.expect("a status");
        let ready = reconcile::conditions::find(&status, "Ready").expect("Ready").clone();
        let message = text(&ready["message"]).to_owned();
        (text(&status["phase"]).to_owned(), text(&ready["reason"]).to_owned(), message)
    };
    let expected = |phase: &str, reason: &str, message: &str| {
        (phase.to_owned(), reason.to_owned(), message.to_owned())
    };
    assert_eq!(
        told("Pending", "PodScheduled", "Unschedulable"),
        expected("Error", "Unschedulable", "Virtual machine is in Pending state: it is so")
    );
    assert_eq!(
        told("Scheduled", "Synchronized", "Synchronizing with the Domain failed."),
        expected("Creating", "VMCreating", "Virtual machine is in Scheduled state: it is so")
    );
}

/// A secret that is gone takes nothing from a machine that was told its keys.
#[test]
fn keys_that_are_lost_stay_in_the_machine() {
    let mut spec = plain();
    spec["cloudInitUser"] = json!({"name": "ada"});
    spec["sshKeySecret"] = json!("keys");
    let mut observed = ready(&spec);
    observed.keys = Keys::Found(vec!["ssh-rsa A".to_owned()]);
    let object = wukong(&spec, json!({"phase": "Creating"}));
    let (_, mut found) = made(&object, &observed).pop().expect("a machine");
    assert!(found.to_string().contains("ssh-rsa A"), "{found}");
    found["metadata"]["uid"] = json!("machine");
    observed.machine = Some(Arc::new(Object::new(found)));
    observed.keys = Keys::Missing("Secret keys is not found".to_owned());
    let plan = plan_of(&object, &observed, Timestamp::UNIX_EPOCH);
    assert!(plan.steps.is_empty(), "{plan}");
}

#[test]
fn a_bridge_that_nobody_named_has_a_name_that_the_kernel_takes() {
    let bridge = super::spec::bridge_of;
    assert_eq!(bridge("lan"), "br-lan");
    assert_eq!(bridge("012345678901"), "br-012345678901");
    let (one, two) = (bridge("storage-network-one"), bridge("storage-network-two"));
    assert_eq!(one, bridge("storage-network-one"));
    assert!(one != two && one.starts_with("br-stora-") && one.len() == 15, "{one} {two}");
}

#[test]
fn a_private_bridge_belongs_to_one_namespace() {
    let object = Object::new(wukong(&json!({}), Value::Null));
    let of = |network: Value, bridges: Bridges| {
        super::spec::Wukong::of(&object).bridge(&super::spec::Network { value: &network }, bridges)
    };
    let own = of(json!({"name": "lan"}), Bridges::ByNode);
    assert_eq!(own, super::private_bridge("ns", "lan"));
    assert_ne!(own, super::private_bridge("other", "lan"));
    assert_eq!(own.len(), 15, "{own}");
    assert_eq!(of(json!({"name": "lan"}), Bridges::ByPolicy), "br-lan");
    let on_interface = json!({"name": "lan", "physicalInterface": "eth1"});
    assert_eq!(of(on_interface, Bridges::ByNode), "br-lan");
    assert_eq!(of(json!({"name": "lan", "bridgeName": "br0"}), Bridges::ByNode), "br0");
}

/// A policy of the name that had no namespace is replaced: the one with the namespace is made and
/// becomes available before the other is deleted.
#[test]
fn a_policy_without_a_namespace_in_its_name_is_replaced() {
    let lan = json!({"name": "lan", "type": "bridge", "physicalInterface": "eth1"});
    let spec = json!({"cpu": 1, "memory": "1Gi", "networks": [lan],
        "disks": [{"name": "root", "size": "1Gi", "storageClassName": "fast"}]});
    let object = wukong(&spec, json!({"phase": "Creating"}));
    let mut observed = observed(&json!({}));
    let first = made(&object, &observed);
    first.iter().for_each(|(kind, object)| put(&mut observed, *kind, object));
    let policy = observed.policies.remove("ns.w-lan-bridge").expect("a policy");
    let mut legacy: Value = (*policy.value).clone();
    legacy["metadata"]["name"] = json!("w-lan-bridge");
    let legacy = Arc::new(Object::new(legacy));
    observed.policies.insert("w-lan-bridge".to_owned(), legacy.clone());
    let names = |observed: &Observed| {
        let plan = plan_of(&object, observed, Timestamp::UNIX_EPOCH);
        let steps = plan.steps.iter().filter_map(|step| match step {
            Step::Create { kind: POLICY, object } => {
                Some(format!("create {}", text(&object["metadata"]["name"])))
            }
            Step::Create { kind: MACHINE, .. } => Some("create machine".to_owned()),
            Step::Delete { target, .. } => Some(format!("delete {}", target.name)),
            _ => None,
        });
        steps.collect::<Vec<_>>()
    };
    assert_eq!(names(&observed), ["create ns.w-lan-bridge", "create machine"]);
    let mut pending: Value = (*policy.value).clone();
    pending["status"] = json!({});
    observed.policies.insert("ns.w-lan-bridge".to_owned(), Arc::new(Object::new(pending)));
    assert_eq!(names(&observed), ["create machine"], "the old policy keeps the bridge");
    observed.policies.insert("ns.w-lan-bridge".to_owned(), policy);
    assert_eq!(names(&observed), ["delete w-lan-bridge", "create machine"]);
    // One of another owner stays.
    let mut other: Value = (*legacy.value).clone();
    other["metadata"]["labels"] = json!({"vm.novasphere.dev/wukong-uid": "other"});
    observed.policies.insert("w-lan-bridge".to_owned(), Arc::new(Object::new(other)));
    assert_eq!(names(&observed), ["create machine"]);
}

/// A volume that vanished after its import is not fetched again.
#[test]
fn a_volume_that_was_collected_is_not_made_again() {
    let mut spec = plain();
    spec["disks"][0]["image"] = json!("http://x/y");
    let mut observed = observed(&json!({}));
    let mut claim = json!({"metadata": {"namespace": "ns", "name": "w-root", "ownerReferences":
        [{"kind": "Wukong", "uid": "uid", "controller": true}]},
        "spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}});
    claim["status"] = json!({"phase": "Bound"});
    put(&mut observed, CLAIM, &claim);
    let object = wukong(&spec, json!({"phase": "Creating"}));
    let made = made(&object, &observed);
    assert_eq!(made.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [MACHINE]);
}

#[test]
fn keys_are_found_in_their_order() {
    let encode = |text: &str| {
        use base64::Engine;
        json!(base64::engine::general_purpose::STANDARD.encode(text))
    };
    let lines = "# c\n\nssh-rsa A\nssh-rsa B\n";
    let data = json!({"zzz": encode("ssh-rsa Z"), "id_rsa.pub": encode(lines),
        "publickey": encode("ssh-rsa P")});
    let found = Keys::Found(vec!["ssh-rsa A".to_owned(), "ssh-rsa B".to_owned()]);
    assert_eq!(keys_in("s", &data), found);
    let any = json!({"empty": "", "other": encode("ssh-rsa O")});
    assert_eq!(keys_in("s", &any), Keys::Found(vec!["ssh-rsa O".to_owned()]));
    assert_eq!(keys_in("s", &json!({})), Keys::Missing("Secret s has no public key".to_owned()));
}

#[test]
fn what_is_wrong_is_said_in_the_known_words() {
    let network = |more: Value| {
        let mut network = json!({"name": "n", "type": "bridge"});
        reconcile::plan::merge(&mut network, &more);
        json!({"networks": [network]})
    };
    let cases = [
        (json!({"cpu": 0}), "invalid CPU: must be between 1 and 64, got 0"),
        (json!({"cpu": 65}), "invalid CPU: must be between 1 and 64, got 65"),
        (json!({"memory": ""}), "memory is required"),
        (json!({"memory": "much"}), "invalid memory: \"much\" is not an amount"),
        (json!({"disks": null}), "at least one disk is required"),
        (json!({"disks": [{"size": "1", "storageClassName": "a"}]}), "disk[0].name is required"),
        (json!({"disks": [{"name": "a", "storageClassName": "a"}]}), "disk[0].size is required"),
        (json!({"disks": [{"name": "a", "size": "1"}]}), "disk[0].storageClassName is required"),
        (
            json!({"disks": [{"name": "a", "size": "1", "storageClassName": "a",
                "image": "pvc://other/base"}]}),
            "disk[0].image pvc:// must be followed by the name of a claim of the same namespace, \
             got \"other/base\"",
        ),
        (network(json!({"name": null})), "network[0].name is required"),
        (
            network(json!({"type": null})),
            "network[0].type is required (default network does not need type)",
        ),
        (
            network(json!({"type": "x"})),
            "network[0].type must be one of: bridge, macvlan, sriov, ovs, got x",
        ),
        (
            network(json!({"vlanId": 4095})),
            "network[0].vlanId must be between 1 and 4094, got 4095",
        ),
        (
            network(json!({"ipConfig": {"mode": "x"}})),
            "network[0].ipConfig.mode must be 'static' or 'dhcp', got x",
        ),
        (json!({"cloudInitUser": {}}), "cloudInitUser.name is required"),
        (
            network(json!({"bridgeName": "../../etc/passwd"})),
            "network[0].bridgeName \"../../etc/passwd\" is no name of an interface: it has at \
             most 15 characters, without `/`, `:`, `%` and blanks",
        ),
        (
            network(json!({"physicalInterface": "enp65s0f0np0", "vlanId": 1000})),
            "network[0].physicalInterface \"enp65s0f0np0.1000\" is no name of an interface: it \
             has at most 15 characters, without `/`, `:`, `%` and blanks",
        ),
        (
            network(json!({"ipConfig": {"mode": "static", "address": "1.2.3.4/8",
                "dnsServers": ["x"]}})),
            "network[0].ipConfig.dnsServers \"x\" is not an address",
        ),
        (
            network(json!({"ipConfig": {"mode": "static", "address": "1.2.3.4"}})),
            "network[0].ipConfig.address \"1.2.3.4\" is not an address and a prefix",
        ),
    ];
    for (more, expected) in cases {
        let mut spec = plain();
        reconcile::plan::merge(&mut spec, &more);
        assert_eq!(validate::spec(&spec, None), [expected]);
    }
    assert_eq!(validate::spec(&plain(), None), [""; 0]);
}

#[test]
fn the_claim_of_a_volume_is_known_by_its_name() {
    let owned = |name: &str| {
        Object::new(json!({"metadata": {"namespace": "ns", "name": "w-root", "ownerReferences":
            [{"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "name": name,
                "uid": "x", "controller": true}]}}))
    };
    assert!(is_filled(&owned("w-root")));
    assert!(!is_filled(&owned("other")));
}
