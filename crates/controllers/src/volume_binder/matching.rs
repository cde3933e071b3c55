//! Which volume fits a claim.
//!
//! Upstream: staging/component-helpers/storage/volume (FindMatchingVolume)

use std::sync::Arc;

use amounts::Quantity;
use reconcile::{Object, Selector};
use serde_json::{Value, json};

use super::observe::ForClaim;
use super::{is_for, text};

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// The class of a claim; `None` if it does not say, empty if it wants none.
pub fn class(claim: &Object) -> Option<&str> {
    let old_way = claim.annotation(CLASS_ANNOTATION);
    old_way.or_else(|| claim.value["spec"]["storageClassName"].as_str())
}

pub fn capacity(volume: &Object) -> Quantity {
    Quantity::read(&volume.value["spec"]["capacity"]["storage"]).unwrap_or(Quantity::ZERO)
}

pub fn requested(claim: &Object) -> Quantity {
    let requests = &claim.value["spec"]["resources"]["requests"];
    Quantity::read(&requests["storage"]).unwrap_or(Quantity::ZERO)
}

/// Whether volumes are chosen only after the scheduler has chosen a node.
pub fn is_delayed(claim: &Object, class: Option<&Arc<Object>>) -> bool {
    let waits = class.is_some_and(|it| it.value["volumeBindingMode"] == "WaitForFirstConsumer");
    waits && claim.annotation(super::SELECTED_NODE).is_none()
}

/// The volume that was made for the claim, or the smallest free one that fits it.
pub fn find<'a>(claim: &Object, observed: &'a ForClaim) -> Option<&'a Arc<Object>> {
    let is_large_enough = |volume: &&Arc<Object>| capacity(volume) >= requested(claim);
    let mut own = observed.volumes.iter().filter(|volume| is_for(volume, claim));
    if let Some(volume) = own.find(is_large_enough) {
        return Some(volume);
    }
    if is_delayed(claim, observed.class.as_ref()) {
        return None;
    }
    let selector = match &claim.value["spec"]["selector"] {
        Value::Null => Selector::default(),
        selector => Selector::read(selector).ok()?,
    };
    let is_free = |volume: &&Arc<Object>| {
        volume.value["spec"]["claimRef"].is_null()
            && volume.value["status"]["phase"] == "Available"
            && !volume.is_terminating()
    };
    let fits = |volume: &&Arc<Object>| {
        misfit(claim, volume).is_none()
            && selector.matches(volume)
            && observed.node.as_ref().is_none_or(|node| is_reachable(volume, node))
    };
    let free = observed.volumes.iter().filter(is_free).filter(fits);
    free.min_by_key(|volume| (capacity(volume), volume.name.clone()))
}

/// Why a volume cannot be the one of a claim, in words that users know.
pub fn misfit(claim: &Object, volume: &Object) -> Option<&'static str> {
    let (wants, offers) = (&claim.value["spec"], &volume.value["spec"]);
    let mode = |spec: &Value| spec["volumeMode"].as_str().unwrap_or("Filesystem").to_owned();
    let offered = offers["accessModes"].as_array();
    let has = |mode: &Value| offered.is_some_and(|offered| offered.contains(mode));
    let attributes = |spec: &Value| text(&spec["volumeAttributesClassName"]).to_owned();
    if capacity(volume) < requested(claim) {
        Some("requested PV is too small")
    } else if class(claim).unwrap_or_default() != text(&offers["storageClassName"]) {
        Some("storageClassName does not match")
    } else if attributes(wants) != attributes(offers) {
        Some("volumeAttributesClassName does not match")
    } else if mode(wants) != mode(offers) {
        Some("incompatible volumeMode")
    } else if !wants["accessModes"].as_array().into_iter().flatten().all(has) {
        Some("incompatible accessMode")
    } else {
        None
    }
}

/// Whether a volume can be used on a node.
fn is_reachable(volume: &Object, node: &Object) -> bool {
    let required = &volume.value["spec"]["nodeAffinity"]["required"];
    let Some(terms) = required["nodeSelectorTerms"].as_array() else { return true };
    let fields = json!({"metadata.name": &*node.name.name});
    let holds = |expressions: &Value, on: &Value| {
        let selector = Selector::read(&json!({"matchExpressions": expressions}));
        selector.is_ok_and(|selector| selector.matches_labels(on))
    };
    terms.iter().any(|term| {
        holds(&term["matchExpressions"], &node.value["metadata"]["labels"])
            && holds(&term["matchFields"], &fields)
    })
}
