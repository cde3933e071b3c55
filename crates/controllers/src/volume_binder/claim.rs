//! What a claim needs next: a class, a volume, or to be told what is wrong.

use std::sync::Arc;

use reconcile::plan::{Notice, Target};
use reconcile::{Object, Plan};
use serde_json::{Value, json};

use super::observe::ForClaim;
use super::{
    BIND_COMPLETED, BOUND_BY_CONTROLLER, PROVISIONER, SELECTED_NODE, is_for, matching, provision,
    text,
};
use crate::kinds::{PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM};

/// Where provisioners of others look for their work.
const STORAGE_PROVISIONER: [&str; 2] =
    ["volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"];

pub fn plan(claim: &Object, observed: &ForClaim) -> Plan {
    let name = text(&claim.value["spec"]["volumeName"]);
    let named = observed.volumes.iter().find(|volume| &*volume.name.name == name);
    if claim.annotation(BIND_COMPLETED).is_some() {
        return bound(claim, observed, named);
    }
    if claim.is_terminating() {
        return Plan::nothing();
    }
    if name.is_empty() { unbound(claim, observed) } else { requested(claim, observed, named) }
}

pub fn reference(claim: &Object) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "uid": claim.uid,
        "namespace": &*claim.name.namespace, "name": &*claim.name.name})
}

/// A claim that had its volume.
fn bound(claim: &Object, observed: &ForClaim, named: Option<&Arc<Object>>) -> Plan {
    let lost = |reason, message: &str| {
        let mut plan = Plan::nothing();
        if claim.value["status"]["phase"] != "Lost" {
            plan.notices.push(Notice::warning(reason, message));
        }
        plan.status = phase(claim, "Lost");
        plan
    };
    let Some(volume) = named else {
        let message = match text(&claim.value["spec"]["volumeName"]) {
            "" => "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
            _ => "Bound claim has lost its PersistentVolume. Data on the volume is lost!",
        };
        return lost("ClaimLost", message);
    };
    if volume.value["spec"]["claimRef"].is_null() || is_for(volume, claim) {
        return bind(claim, observed, volume);
    }
    lost("ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
}

/// A claim that names the volume it wants.
fn requested(claim: &Object, observed: &ForClaim, named: Option<&Arc<Object>>) -> Plan {
    let name = text(&claim.value["spec"]["volumeName"]);
    match named {
        // It may come.
        None => pending(claim, None),
        Some(volume) if volume.value["spec"]["claimRef"].is_null() => {
            match matching::misfit(claim, volume) {
                None => bind(claim, observed, volume),
                Some(why) => {
                    let message = format!("Cannot bind to requested volume \"{name}\": {why}");
                    pending(claim, Some(Notice::warning("VolumeMismatch", message)))
                }
            }
        }
        Some(volume) if is_for(volume, claim) => bind(claim, observed, volume),
        Some(_) => {
            let message = format!("volume \"{name}\" already bound to a different claim.");
            pending(claim, Some(Notice::warning("FailedBinding", message)))
        }
    }
}

/// A claim that takes any volume that fits.
fn unbound(claim: &Object, observed: &ForClaim) -> Plan {
    if let Some(volume) = matching::find(claim, observed) {
        return bind(claim, observed, volume);
    }
    if matching::class(claim).is_none()
        && let Some(default) = &observed.default_class
    {
        let mut changed = claim.value.clone();
        changed["spec"]["storageClassName"] = json!(&*default.name.name);
        let mut plan = Plan::nothing();
        plan.replace(Target::unchanged(PERSISTENT_VOLUME_CLAIM, claim), changed);
        return plan;
    }
    if matching::is_delayed(claim, observed.class.as_ref()) {
        let message = "waiting for first consumer to be created before binding";
        return pending(claim, Some(Notice::normal("WaitForFirstConsumer", message)));
    }
    match (matching::class(claim).unwrap_or_default(), &observed.class) {
        ("", _) => {
            let message =
                "no persistent volumes available for this claim and no storage class is set";
            pending(claim, Some(Notice::normal("FailedBinding", message)))
        }
        (name, None) => {
            let message = format!("storageclass.storage.k8s.io \"{name}\" not found");
            pending(claim, Some(Notice::warning("ProvisioningFailed", message)))
        }
        (_, Some(class)) => provide(claim, observed, class),
    }
}

/// A claim for which a volume is to be made, by us or by others.
fn provide(claim: &Object, observed: &ForClaim, class: &Object) -> Plan {
    let provisioner = text(&class.value["provisioner"]);
    if provisioner == PROVISIONER {
        return provide_directory(claim, observed, class);
    }
    if provisioner == "kubernetes.io/no-provisioner" {
        let message = "no volume plugin matched name: kubernetes.io/no-provisioner";
        return pending(claim, Some(Notice::warning("ProvisioningFailed", message)));
    }
    if STORAGE_PROVISIONER.iter().any(|name| claim.annotation(name) != Some(provisioner)) {
        let mut changed = claim.value.clone();
        for name in STORAGE_PROVISIONER {
            changed["metadata"]["annotations"][name] = json!(provisioner);
        }
        let mut plan = Plan::nothing();
        plan.replace(Target::unchanged(PERSISTENT_VOLUME_CLAIM, claim), changed);
        return plan;
    }
    let message = format!(
        "Waiting for a volume to be created either by the external provisioner '{provisioner}' or \
         manually by the system administrator. If volume creation is delayed, please verify that \
         the provisioner is running and correctly registered."
    );
    pending(claim, Some(Notice::normal("ExternalProvisioning", message)))
}

fn provide_directory(claim: &Object, observed: &ForClaim, class: &Object) -> Plan {
    let mut plan = Plan::nothing();
    if claim.annotation(SELECTED_NODE).is_some() && observed.node.is_none() {
        // The scheduler has to choose again.
        let mut changed = claim.value.clone();
        if let Some(annotations) = changed["metadata"]["annotations"].as_object_mut() {
            annotations.remove(SELECTED_NODE);
        }
        plan.replace(Target::unchanged(PERSISTENT_VOLUME_CLAIM, claim), changed);
        return plan;
    }
    match provision::volume(claim, observed, class) {
        Ok(volume) => {
            let message = format!("Successfully provisioned volume {}", provision::name(claim));
            plan.create(PERSISTENT_VOLUME, volume);
            plan.notices.push(Notice::normal("ProvisioningSucceeded", message));
            plan
        }
        Err(why) => {
            let class = &class.name;
            let message =
                format!("failed to provision volume with StorageClass \"{class}\": {why}");
            pending(claim, Some(Notice::warning("ProvisioningFailed", message)))
        }
    }
}

/// Makes both sides know each other: the volume first.
fn bind(claim: &Object, observed: &ForClaim, volume: &Object) -> Plan {
    let mut plan = Plan::nothing();
    let class = observed.class.as_deref();
    if let Some(changed) = bound_volume(claim, volume, class) {
        plan.replace(Target::unchanged(PERSISTENT_VOLUME, volume), changed);
    }
    if let Some(changed) = bound_claim(claim, volume) {
        plan.replace(Target::unchanged(PERSISTENT_VOLUME_CLAIM, claim), changed);
        return plan;
    }
    let mut status = claim.value["status"].clone();
    let is_first = status["phase"] != "Bound";
    status["phase"] = json!("Bound");
    // How far a volume of others has grown, its driver says.
    if is_first || provision::is_ours(volume) {
        status["accessModes"] = volume.value["spec"]["accessModes"].clone();
        status["capacity"] = volume.value["spec"]["capacity"].clone();
    }
    plan.status = Some(status);
    plan
}

/// The volume with its claim; `None` if it says so already.
fn bound_volume(claim: &Object, volume: &Object, class: Option<&Object>) -> Option<Value> {
    let mut changed = volume.value.clone();
    let of_claim = &volume.value["spec"]["claimRef"];
    if of_claim.is_null() {
        changed["metadata"]["annotations"][BOUND_BY_CONTROLLER] = json!("yes");
    }
    if text(&of_claim["uid"]) != claim.uid {
        changed["spec"]["claimRef"] = reference(claim);
    }
    if let Some(size) = provision::grown(claim, volume, class) {
        changed["spec"]["capacity"]["storage"] = size;
    }
    (changed != volume.value).then_some(changed)
}

/// The claim with its volume; `None` if it says so already.
fn bound_claim(claim: &Object, volume: &Object) -> Option<Value> {
    let mut changed = claim.value.clone();
    if text(&claim.value["spec"]["volumeName"]).is_empty() {
        changed["spec"]["volumeName"] = json!(&*volume.name.name);
        changed["metadata"]["annotations"][BOUND_BY_CONTROLLER] = json!("yes");
    }
    if claim.annotation(BIND_COMPLETED).is_none() {
        changed["metadata"]["annotations"][BIND_COMPLETED] = json!("yes");
    }
    (changed != claim.value).then_some(changed)
}

fn pending(claim: &Object, notice: Option<Notice>) -> Plan {
    Plan {
        status: phase(claim, "Pending"),
        notices: notice.into_iter().collect(),
        ..Plan::nothing()
    }
}

/// The status with a phase in which the claim has no volume.
fn phase(claim: &Object, phase: &str) -> Option<Value> {
    let mut status = claim.value["status"].clone();
    status["phase"] = json!(phase);
    if let Some(fields) = status.as_object_mut()
        && phase == "Pending"
    {
        fields.remove("accessModes");
        fields.remove("capacity");
    }
    Some(status)
}
