//! The VirtualMachine of a Wukong, and what makes of the one that is there the one that is wanted.

use reconcile::plan::{Target, merge};
use reconcile::{Object, Step};
use serde_json::{Value, json};

use super::cloud_init;
use super::networks::{Networks, hardware_address};
use super::observe::{Keys, Observed};
use super::spec::{POD_NETWORK, Wukong, in_the_way};
use super::validate::CLOUD_INIT_VOLUME;
use crate::kinds::MACHINE;
use crate::value::{find, list, says, text};

/// How the machine was last wanted to run. While that is unchanged, whoever started or stopped the
/// machine has the last word.
pub const WISH: &str = "vm.novasphere.dev/run-strategy";
const APART: &str = "vm.novasphere.dev/anti-affinity";
pub const MACHINE_LABEL: &str = "kubevirt.io/vm";
const LABEL_LENGTH_MAX: usize = 63;
/// What a machine has only if it is asked for: what is asked for no more goes.
const OPTIONAL: [&str; 4] = ["affinity", "nodeSelector", "tolerations", "domain/devices/gpus"];

/// Whether the machine may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    AsAsked,
    /// Its disks are being brought back.
    Held,
}

/// What is to be done for the machine; nothing if it is as it should be.
pub fn step(
    wukong: &Wukong<'_>,
    networks: &Networks,
    observed: &Observed,
    start: Start,
) -> Result<Option<Step>, String> {
    let found = observed.machine.as_deref();
    if let Some(found) = found.filter(|found| !wukong.owns(found)) {
        return Err(in_the_way(MACHINE, found));
    }
    let wish = match start {
        Start::AsAsked => wukong.run_strategy(),
        Start::Held => "Halted",
    };
    let wanted = wanted(wukong, networks, observed, wish);
    let Some(found) = found else {
        return Ok(Some(Step::Create { kind: MACHINE, object: wanted }));
    };
    if found.is_terminating() || is_as(found, &wanted) {
        return Ok(None);
    }
    let target = Target::unchanged(MACHINE, found);
    Ok(Some(Step::Patch { target, patch: change(found, &wanted) }))
}

fn pointer(optional: &str) -> String {
    format!("/spec/template/spec/{optional}")
}

fn is_as(found: &Object, wanted: &Value) -> bool {
    let has_more = OPTIONAL.iter().any(|optional| {
        let at = pointer(optional);
        found.value.pointer(&at).is_some_and(|it| !it.is_null()) && wanted.pointer(&at).is_none()
    });
    !has_more
        && found.value["spec"]["running"].is_null()
        && says(&found.value["spec"], &wanted["spec"])
        && says(&found.value["metadata"]["annotations"], &wanted["metadata"]["annotations"])
}

/// A merge patch of what is ours: what others filled in stays.
fn change(found: &Object, wanted: &Value) -> Value {
    let mut patch = json!({"metadata": {"annotations": wanted["metadata"]["annotations"]},
        "spec": wanted["spec"]});
    // The two cannot be said together.
    if !found.value["spec"]["running"].is_null() {
        patch["spec"]["running"] = Value::Null;
    }
    for optional in OPTIONAL {
        let at = pointer(optional);
        if found.value.pointer(&at).is_some() && wanted.pointer(&at).is_none() {
            let nested = optional.rsplit('/').fold(Value::Null, |inner, name| json!({name: inner}));
            lay_null(&mut patch["spec"]["template"]["spec"], &nested);
        }
    }
    patch
}

/// Puts a null deep into a patch; a merge would take it for a removal from the patch itself.
fn lay_null(patch: &mut Value, nested: &Value) {
    let Some((name, inner)) = nested.as_object().and_then(|fields| fields.iter().next()) else {
        return;
    };
    match inner {
        Value::Null => patch[name] = Value::Null,
        inner => lay_null(&mut patch[name], inner),
    }
}

fn wanted(wukong: &Wukong<'_>, networks: &Networks, observed: &Observed, wish: &str) -> Value {
    let found = observed.machine.as_deref();
    let is_wished = found.is_some_and(|found| found.annotation(WISH) == Some(wish));
    let strategy = match found.map(|found| text(&found.value["spec"]["runStrategy"])) {
        Some(now) if is_wished && !now.is_empty() => now,
        _ => wish,
    };
    let name = wukong.machine_name();
    let mut object = wukong.child(MACHINE, &name);
    object["metadata"]["annotations"] = json!({WISH: wish});
    let mut template = json!({"spec": template(wukong, networks, observed)});
    if name.len() <= LABEL_LENGTH_MAX {
        template["metadata"]["labels"][MACHINE_LABEL] = json!(name);
    }
    if wukong.spec()["highAvailability"]["antiAffinity"] == true {
        template["metadata"]["labels"][APART] = json!("true");
    }
    object["spec"] = json!({"runStrategy": strategy, "template": template});
    object
}

fn template(wukong: &Wukong<'_>, networks: &Networks, observed: &Observed) -> Value {
    let spec = wukong.spec();
    let (disks, volumes) = disks(wukong, networks, observed);
    let mut devices = json!({"disks": disks, "interfaces": interfaces(wukong, networks)});
    if !list(&spec["gpus"]).is_empty() {
        devices["gpus"] = spec["gpus"].clone();
    }
    let mut made = json!({
        "domain": {
            "cpu": {"cores": spec["cpu"]},
            "memory": {"guest": spec["memory"]},
            "devices": devices,
        },
        "networks": attachments(networks),
        "volumes": volumes,
    });
    let availability = &spec["highAvailability"];
    for field in ["nodeSelector", "tolerations"] {
        let value = &availability[field];
        let is_said = value.as_object().is_some_and(|map| !map.is_empty())
            || value.as_array().is_some_and(|list| !list.is_empty());
        if is_said {
            made[field] = value.clone();
        }
    }
    if availability["antiAffinity"] == true {
        // Two on one node are better than one that never runs.
        let term = json!({"labelSelector": {"matchLabels": {APART: "true"}},
            "topologyKey": "kubernetes.io/hostname"});
        let preferred = json!([{"weight": 100, "podAffinityTerm": term}]);
        made["affinity"] = json!({"podAntiAffinity":
            {"preferredDuringSchedulingIgnoredDuringExecution": preferred}});
    }
    made
}

fn disks(
    wukong: &Wukong<'_>,
    networks: &Networks,
    observed: &Observed,
) -> (Vec<Value>, Vec<Value>) {
    let (mut disks, mut volumes) = (Vec::new(), Vec::new());
    let there =
        observed.machine.as_deref().map(|machine| &machine.value["spec"]["template"]["spec"]);
    for disk in wukong.disks() {
        let mut made = json!({"name": disk.name(), "disk": {"bus": "virtio"}});
        if disk.boots() {
            made["bootOrder"] = json!(1);
        }
        disks.push(made);
        // A machine that was brought back may have its disks elsewhere: they stay.
        let moved = there.and_then(|there| find(&there["volumes"], "name", disk.name()));
        let moved = moved.map(|volume| text(&volume["persistentVolumeClaim"]["claimName"]));
        let claim = match moved {
            None | Some("") => wukong.claim_name(disk.name()),
            Some(moved) => moved.to_owned(),
        };
        volumes.push(json!({"name": disk.name(), "persistentVolumeClaim": {"claimName": claim}}));
    }
    // Keys that are lost were found before: what the machine has of them stays.
    let told = there.and_then(|there| find(&there["volumes"], "name", CLOUD_INIT_VOLUME));
    if let (Keys::Missing(_), Some(told)) = (&observed.keys, told) {
        volumes.push(told.clone());
    } else if let Some(source) = cloud_init::source(wukong, networks, &observed.keys) {
        volumes.push(json!({"name": CLOUD_INIT_VOLUME, "cloudInitNoCloud": source}));
    }
    // What was plugged in while the machine runs is whoever's plugged it in.
    let Some(there) = there else { return (disks, volumes) };
    let is_plugged = |volume: &&Value| {
        ["persistentVolumeClaim", "dataVolume"]
            .iter()
            .any(|source| volume[*source]["hotpluggable"] == true)
    };
    for volume in list(&there["volumes"]).iter().filter(is_plugged) {
        if volumes.iter().any(|own| own["name"] == volume["name"]) {
            continue;
        }
        volumes.push(volume.clone());
        let of = find(&there["domain"]["devices"]["disks"], "name", text(&volume["name"]));
        disks.extend(of.cloned());
    }
    (disks, volumes)
}

fn interfaces(wukong: &Wukong<'_>, networks: &Networks) -> Vec<Value> {
    let mut all = Vec::new();
    let mut add = |name: &str, binding: &str| {
        let mut made = json!({"name": name, "macAddress": hardware_address(wukong, name)});
        merge(&mut made, &json!({binding: {}}));
        all.push(made);
    };
    if networks.has_pods {
        add(POD_NETWORK, "masquerade");
    }
    networks.attached.iter().for_each(|network| add(&network.name, network.binding));
    all
}

fn attachments(networks: &Networks) -> Vec<Value> {
    let mut all = Vec::new();
    if networks.has_pods {
        all.push(json!({"name": POD_NETWORK, "pod": {}}));
    }
    for network in &networks.attached {
        let mut multus = json!({"networkName": network.attachment});
        if network.is_primary {
            multus["default"] = json!(true);
        }
        all.push(json!({"name": network.name, "multus": multus}));
    }
    all
}
