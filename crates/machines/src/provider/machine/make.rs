//! The instance of a machine, and what of it follows the machine while it runs.

use aws_lc_rs::digest;
use reconcile::plan::Target;
use reconcile::{Object, Plan, owners};
use serde_json::{Value, json};

use super::Observed;
use crate::kinds::{DATA_VOLUME, INSTANCE, MACHINE};
use crate::provider::INSTANCE_FINALIZER;
use crate::value::{find, list, text};

/// Says what of the template an instance was made of, as far as that cannot change while it runs.
const DIGEST: &str = "setpoint.dev/template-digest";
/// The processors that an instance may get while it runs: fixed when it starts.
const PROCESSORS_MAX: &str = "setpoint.dev/processors-max";
/// How many times its processors a machine may get that does not say, and how many there are at the
/// most that can come while it runs.
const TIMES: u64 = 4;
const PLUGGED_PROCESSORS_MAX: u64 = 240;
/// The namespace of the UUIDs of machines.
const MACHINES: [u8; 16] = [
    0x6a, 0x1a, 0x24, 0xa1, 0x40, 0x61, 0x46, 0x07, 0x8b, 0xf4, 0xa3, 0x96, 0x3d, 0x0c, 0x58, 0x95,
];
/// What of a template may change while its instance runs.
const LIVE: [&str; 6] = [
    "affinity",
    "networks",
    "nodeSelector",
    "terminationGracePeriodSeconds",
    "tolerations",
    "volumes",
];
/// What of `domain` is judged by rules of its own.
const JUDGED: [(&str, &[&str]); 2] =
    [("cpu", &["cores", "maxSockets", "sockets", "threads"]), ("memory", &["guest", "maxGuest"])];
/// What a guest is told of its networks: it reads that when it starts, and not before.
const TOLD_OF_NETWORKS: [&str; 2] = ["networkData", "networkDataBase64"];

pub fn instance(machine: &Object) -> Value {
    let template = &machine.value["spec"]["template"];
    let mut made = owners::child(INSTANCE, &machine.name.name, MACHINE, machine);
    for field in ["labels", "annotations"] {
        if template["metadata"][field].is_object() {
            made["metadata"][field] = template["metadata"][field].clone();
        }
    }
    made["metadata"]["annotations"][DIGEST] = json!(fingerprint(machine));
    let most = processors_max(&template["spec"]["domain"]["cpu"]).to_string();
    made["metadata"]["annotations"][PROCESSORS_MAX] = json!(most);
    made["metadata"]["finalizers"] = json!([INSTANCE_FINALIZER]);
    made["spec"] = template["spec"].clone();
    let firmware = &mut made["spec"]["domain"]["firmware"];
    if text(&firmware["uuid"]).is_empty() {
        firmware["uuid"] = json!(uuid(&machine.name.name));
    }
    let wants = list(&machine.value["status"]["stateChangeRequests"]).iter();
    let mut wants = wants.filter(|one| one["action"] == "Start");
    if wants.any(|one| one["data"]["paused"] == "true") {
        made["spec"]["startStrategy"] = json!("Paused");
    }
    made
}

/// The same for every machine of a name (version 5).
pub fn uuid(name: &str) -> String {
    let text = [&MACHINES[..], name.as_bytes()].concat();
    let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &text);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest.as_ref()[..16]);
    bytes[6] = bytes[6] & 0x0f | 0x50;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Of what needs a new instance to change, as far as that is the same for all fields.
fn fingerprint(machine: &Object) -> String {
    let mut spec = machine.value["spec"]["template"]["spec"].clone();
    let volumes = spec["volumes"].clone();
    let attached = attached(&spec);
    let fixed_networks: Vec<Value> = list(&spec["networks"])
        .iter()
        .filter(|network| !attached.contains(&text(&network["name"]).to_owned()))
        .cloned()
        .collect();
    let plugged = |name: &Value| find(&volumes, "name", text(name)).is_none_or(is_plugged);
    let devices = &mut spec["domain"]["devices"];
    let fixed = |of: &Value, goes: &dyn Fn(&Value) -> bool| -> Vec<Value> {
        list(of).iter().filter(|one| !goes(one)).cloned().collect()
    };
    let fixed_disks = fixed(&devices["disks"], &|disk| plugged(&disk["name"]));
    let fixed_interfaces = fixed(&devices["interfaces"], &|interface| {
        attached.iter().any(|name| interface["name"] == name.as_str())
    });
    // None is as good as none of them.
    match devices.as_object_mut() {
        Some(devices) => ["disks", "interfaces"].iter().for_each(|of| drop(devices.remove(*of))),
        None => *devices = json!({}),
    }
    for (part, fields) in JUDGED {
        take(&mut spec["domain"], part, fields);
    }
    if let Some(fields) = spec.as_object_mut() {
        LIVE.iter().for_each(|field| drop(fields.remove(*field)));
    }
    let mut fixed: Vec<Value> =
        list(&volumes).iter().filter(|volume| !is_plugged(volume)).cloned().collect();
    for volume in fixed.iter_mut().filter(|volume| volume["cloudInitNoCloud"].is_object()) {
        take(volume, "cloudInitNoCloud", &TOLD_OF_NETWORKS);
    }
    let text = json!([spec, fixed, fixed_disks, fixed_networks, fixed_interfaces]).to_string();
    let digest = digest::digest(&digest::SHA256, text.as_bytes());
    digest.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Takes fields out of a part; one of which nothing is left is as good as none.
fn take(of: &mut Value, part: &str, fields: &[&str]) {
    let Some(within) = of[part].as_object_mut() else {
        of.as_object_mut().and_then(|of| of.remove(part));
        return;
    };
    fields.iter().for_each(|field| drop(within.remove(*field)));
    if within.is_empty() {
        of.as_object_mut().and_then(|of| of.remove(part));
    }
}

/// The names of networks that may come and go while a machine runs.
fn attached(spec: &Value) -> Vec<String> {
    let attached = list(&spec["networks"]).iter().filter(|network| network["multus"].is_object());
    attached.map(|network| text(&network["name"]).to_owned()).collect()
}

fn is_plugged(volume: &Value) -> bool {
    ["persistentVolumeClaim", "dataVolume"].iter().any(|of| volume[*of]["hotpluggable"] == true)
}

/// How many processors a guest sees.
fn processors(cpu: &Value) -> u64 {
    let of = |field: &str| cpu[field].as_u64().unwrap_or(1).max(1);
    ["cores", "sockets", "threads"].into_iter().map(of).fold(1, u64::saturating_mul)
}

/// How many a machine may get that starts so.
fn processors_max(cpu: &Value) -> u64 {
    let count = processors(cpu);
    let most = match cpu["maxSockets"].as_u64() {
        Some(sockets) => (count / cpu["sockets"].as_u64().unwrap_or(1).max(1)) * sockets,
        None => count.saturating_mul(TIMES),
    };
    most.min(PLUGGED_PROCESSORS_MAX).max(count)
}

/// Why what the template says needs a new instance, if it does.
///
/// Upstream: kubevirt/kubevirt, pkg/virt-controller/watch/vm (texts)
pub fn needs_restart(machine: &Object, instance: &Object) -> Option<&'static str> {
    let of = instance.annotation(DIGEST)?;
    if of != fingerprint(machine) || has_other_networks(machine, instance) {
        return Some("a non-live-updatable field was changed in the template spec");
    }
    let (wanted, has) =
        (&machine.value["spec"]["template"]["spec"]["domain"], &instance.value["spec"]["domain"]);
    let most = instance.annotation(PROCESSORS_MAX).and_then(|most| most.parse::<u64>().ok());
    let (count, before) = (processors(&wanted["cpu"]), processors(&has["cpu"]));
    let bytes = |of: &Value| amounts::Quantity::parse(text(&of["memory"]["guest"])).ok();
    match () {
        () if count < before => Some("Reduction of CPU socket count requires a restart"),
        () if count > most.unwrap_or(before).max(before) => {
            Some("CPU sockets updated in template spec to a value higher than what's available")
        }
        () if bytes(wanted) != bytes(has) => Some(
            "memory updated in template spec. Memory-hotplug is only available for migratable VMs",
        ),
        () => None,
    }
}

/// Whether a network that both have is not the same. What comes or goes is not meant.
fn has_other_networks(machine: &Object, instance: &Object) -> bool {
    let (wanted, has) = (&machine.value["spec"]["template"]["spec"], &instance.value["spec"]);
    let interface = |of: &Value, name: &str| {
        let found = find(&of["domain"]["devices"]["interfaces"], "name", name);
        let mut found = found.cloned().unwrap_or_default();
        found.as_object_mut().and_then(|found| found.remove("state"));
        found
    };
    list(&wanted["networks"]).iter().any(|network| {
        let name = text(&network["name"]);
        find(&has["networks"], "name", name).is_some_and(|known| {
            known != network || interface(wanted, name) != interface(has, name)
        })
    })
}

/// Gives an instance that runs what came, and takes what went: volumes, networks and processors.
pub fn plug(plan: &mut Plan, machine: &Object, instance: &Object) {
    if instance.value["status"]["phase"] != "Running" || needs_restart(machine, instance).is_some()
    {
        return;
    }
    let (wanted, has) = (&machine.value["spec"]["template"]["spec"], &instance.value["spec"]);
    let mut patch = json!({});
    for (field, device) in [("volumes", "disks"), ("networks", "interfaces")] {
        let (devices, there) =
            (&wanted["domain"]["devices"][device], &has["domain"]["devices"][device]);
        if wanted[field] == has[field] && (device == "disks" || devices == there) {
            continue;
        }
        patch["spec"][field] = wanted[field].clone();
        if devices.is_array() {
            patch["spec"]["domain"]["devices"][device] = devices.clone();
        }
    }
    let cpu = &wanted["domain"]["cpu"];
    if processors(cpu) != processors(&has["domain"]["cpu"]) {
        let said = |field: &str| cpu[field].as_u64();
        patch["spec"]["domain"]["cpu"] = json!({"cores": said("cores"),
            "sockets": said("sockets"), "threads": said("threads")});
    }
    if patch["spec"].is_object() {
        plan.patch(Target::unchanged(INSTANCE, instance), patch);
    }
}

/// The volumes that a machine says are to be made for it.
pub fn data_volumes(plan: &mut Plan, machine: &Object, observed: &Observed) {
    for template in list(&machine.value["spec"]["dataVolumeTemplates"]) {
        let name = text(&template["metadata"]["name"]);
        let is_there = observed.fillers.iter().any(|filler| &*filler.name.name == name);
        let has_claim = observed.claims.iter().any(|(of, claim)| of == name && claim.is_some());
        if name.is_empty() || is_there || has_claim {
            continue;
        }
        let mut made = owners::child(DATA_VOLUME, name, MACHINE, machine);
        made["spec"] = template["spec"].clone();
        plan.create(DATA_VOLUME, made);
    }
}
