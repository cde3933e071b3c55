//! Which phase a volume is in, and what happens to it when its claim is gone.

use reconcile::plan::{Notice, Target};
use reconcile::{Object, Plan};
use serde_json::{Value, json};

use super::observe::ForVolume;
use super::{BOUND_BY_CONTROLLER, PROVISIONED_BY, provision, text};
use crate::kinds::PERSISTENT_VOLUME;

pub fn plan(volume: &Object, observed: &ForVolume) -> Plan {
    let reference = &volume.value["spec"]["claimRef"];
    if reference.is_null() {
        return phase(volume, "Available", "");
    }
    let Some(claim) = &observed.claim else {
        return match text(&reference["uid"]) {
            // It waits for a claim of that name.
            "" => phase(volume, "Available", ""),
            _ => reclaim(volume),
        };
    };
    let named = text(&claim.value["spec"]["volumeName"]);
    if named == &*volume.name.name {
        return match text(&reference["uid"]) {
            // The claim has to say first that it means this volume.
            "" => phase(volume, "Available", ""),
            _ => phase(volume, "Bound", ""),
        };
    }
    if named.is_empty() {
        // The claim is told; until it answers, the volume is nobody's.
        return match text(&reference["uid"]) {
            "" => phase(volume, "Available", ""),
            _ => Plan::nothing(),
        };
    }
    if provision::is_ours(volume) && reclaim_policy(volume) == "Delete" {
        return reclaim(volume);
    }
    unbind(volume)
}

fn reclaim_policy(volume: &Object) -> &str {
    text(&volume.value["spec"]["persistentVolumeReclaimPolicy"])
}

/// The claim took another volume: this one is free for others, unless a user chose it.
fn unbind(volume: &Object) -> Plan {
    let mut changed = volume.value.clone();
    if volume.annotation(BOUND_BY_CONTROLLER).is_some() {
        changed["spec"]["claimRef"] = Value::Null;
        if let Some(annotations) = changed["metadata"]["annotations"].as_object_mut() {
            annotations.remove(BOUND_BY_CONTROLLER);
        }
    } else if let Some(reference) = changed["spec"]["claimRef"].as_object_mut() {
        reference.remove("uid");
        reference.remove("resourceVersion");
    }
    let mut plan = Plan::nothing();
    if changed != volume.value {
        plan.replace(Target::unchanged(PERSISTENT_VOLUME, volume), changed);
    }
    plan
}

/// The claim is gone.
fn reclaim(volume: &Object) -> Plan {
    let now = text(&volume.value["status"]["phase"]);
    if now != "Released" && now != "Failed" {
        return phase(volume, "Released", "");
    }
    let name = &volume.name;
    match reclaim_policy(volume) {
        "Delete" if provision::is_ours(volume) => {
            let mut plan = Plan::nothing();
            if !volume.is_terminating() {
                plan.delete(Target::unchanged(PERSISTENT_VOLUME, volume));
            }
            plan
        }
        // Whoever made it deletes it.
        "Delete" if volume.annotation(PROVISIONED_BY).is_some() => Plan::nothing(),
        "Delete" => {
            let why = format!(
                "error getting deleter volume plugin for volume \"{name}\": no deletable volume \
                 plugin matched"
            );
            failed(volume, "VolumeFailedDelete", &why)
        }
        "Recycle" => {
            failed(volume, "VolumeFailedRecycle", "No recycler plugin found for the volume!")
        }
        _ => Plan::nothing(),
    }
}

fn failed(volume: &Object, reason: &'static str, why: &str) -> Plan {
    let mut plan = phase(volume, "Failed", why);
    if volume.value["status"]["phase"] != "Failed" {
        plan.notices.push(Notice::warning(reason, why));
    }
    plan
}

fn phase(volume: &Object, phase: &str, message: &str) -> Plan {
    let mut status = volume.value["status"].clone();
    status["phase"] = json!(phase);
    if let Some(fields) = status.as_object_mut() {
        fields.remove("message");
        fields.remove("reason");
    }
    if !message.is_empty() {
        status["message"] = json!(message);
    }
    Plan { status: Some(status), ..Plan::nothing() }
}
