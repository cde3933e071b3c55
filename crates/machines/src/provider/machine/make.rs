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
/// The namespace of the UUIDs of machines.
const MACHINES: [u8; 16] = [
    0x6a, 0x1a, 0x24, 0xa1, 0x40, 0x61, 0x46, 0x07, 0x8b, 0xf4, 0xa3, 0x96, 0x3d, 0x0c, 0x58, 0x95,
];
/// What of a template may change while its instance runs.
const LIVE: [&str; 5] =
    ["affinity", "nodeSelector", "terminationGracePeriodSeconds", "tolerations", "volumes"];

pub fn instance(machine: &Object) -> Value {
    let template = &machine.value["spec"]["template"];
    let mut made = owners::child(INSTANCE, &machine.name.name, MACHINE, machine);
    for field in ["labels", "annotations"] {
        if template["metadata"][field].is_object() {
            made["metadata"][field] = template["metadata"][field].clone();
        }
    }
    made["metadata"]["annotations"][DIGEST] = json!(fingerprint(machine));
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

/// Of what needs a new instance to change.
fn fingerprint(machine: &Object) -> String {
    let mut spec = machine.value["spec"]["template"]["spec"].clone();
    let volumes = spec["volumes"].clone();
    let plugged = |name: &Value| find(&volumes, "name", text(name)).is_none_or(is_plugged);
    let devices = &mut spec["domain"]["devices"];
    let fixed: Vec<Value> =
        list(&devices["disks"]).iter().filter(|disk| !plugged(&disk["name"])).cloned().collect();
    // None is as good as none of them.
    let fixed_disks = json!(fixed);
    match devices.as_object_mut() {
        Some(devices) => drop(devices.remove("disks")),
        None => *devices = json!({}),
    }
    if let Some(fields) = spec.as_object_mut() {
        LIVE.iter().for_each(|field| drop(fields.remove(*field)));
    }
    let fixed: Vec<&Value> = list(&volumes).iter().filter(|volume| !is_plugged(volume)).collect();
    let text = json!([spec, fixed, fixed_disks]).to_string();
    let digest = digest::digest(&digest::SHA256, text.as_bytes());
    digest.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn is_plugged(volume: &Value) -> bool {
    ["persistentVolumeClaim", "dataVolume"].iter().any(|of| volume[*of]["hotpluggable"] == true)
}

/// Whether the template says something that the instance was not made of.
pub fn differs(machine: &Object, instance: &Object) -> bool {
    let of = instance.annotation(DIGEST);
    of.is_some_and(|of| of != fingerprint(machine))
}

/// Gives an instance that runs the volumes that came, and takes those that went.
pub fn plug(plan: &mut Plan, machine: &Object, instance: &Object) {
    if instance.value["status"]["phase"] != "Running" || differs(machine, instance) {
        return;
    }
    let wanted = &machine.value["spec"]["template"]["spec"];
    let has = &instance.value["spec"];
    if wanted["volumes"] == has["volumes"] {
        return;
    }
    let disks = &wanted["domain"]["devices"]["disks"];
    let mut patch = json!({"spec": {"volumes": wanted["volumes"]}});
    if disks.is_array() {
        patch["spec"]["domain"]["devices"]["disks"] = disks.clone();
    }
    plan.patch(Target::unchanged(INSTANCE, instance), patch);
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
