//! Whether a finalizer is needed.

use reconcile::plan::Target;
use reconcile::{Kind, Name, Object, Plan};
use serde_json::json;

use crate::kinds::{PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM};

const CLAIM_FINALIZER: &str = "kubernetes.io/pvc-protection";
const VOLUME_FINALIZER: &str = "kubernetes.io/pv-protection";

pub fn claim(claim: &Object, is_used: bool) -> Plan {
    let is_held = !claim.is_terminating() || is_used;
    with(PERSISTENT_VOLUME_CLAIM, claim, CLAIM_FINALIZER, is_held)
}

pub fn volume(volume: &Object) -> Plan {
    let is_held = !volume.is_terminating() || volume.value["status"]["phase"] == "Bound";
    with(PERSISTENT_VOLUME, volume, VOLUME_FINALIZER, is_held)
}

/// An object that is going gets no finalizer any more.
fn with(kind: Kind, object: &Object, finalizer: &str, is_held: bool) -> Plan {
    let mut plan = Plan::nothing();
    let has = object.finalizers().any(|one| one == finalizer);
    if has == is_held || (is_held && object.is_terminating()) {
        return plan;
    }
    let mut finalizers: Vec<&str> = object.finalizers().filter(|one| *one != finalizer).collect();
    if is_held {
        finalizers.push(finalizer);
    }
    let mut changed = object.value.clone();
    changed["metadata"]["finalizers"] = json!(finalizers);
    plan.replace(Target::unchanged(kind, object), changed);
    plan
}

/// The claims that a pod names, those that are made for it included.
pub fn claims(pod: &Object) -> Vec<Name> {
    let volumes = pod.value["spec"]["volumes"].as_array().into_iter().flatten();
    let names = volumes.filter_map(|volume| {
        if let Some(name) = volume["persistentVolumeClaim"]["claimName"].as_str() {
            return Some(name.to_owned());
        }
        let is_made = !volume["ephemeral"].is_null();
        is_made
            .then(|| format!("{}-{}", pod.name.name, volume["name"].as_str().unwrap_or_default()))
    });
    names.map(|name| Name::new(&*pod.name.namespace, name)).collect()
}
