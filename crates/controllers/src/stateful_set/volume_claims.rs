//! The claims that the pods of a StatefulSet mount: made with the pod, kept or deleted as the
//! retention policy says, by their owner references.

use std::collections::BTreeMap;
use std::sync::Arc;

use reconcile::plan::Notice;
use reconcile::{Cache, Kind, Name, Object, Plan, owners};
use serde_json::{Value, json};

use super::identity;
use crate::kinds::{PERSISTENT_VOLUME_CLAIM, POD, STATEFUL_SET};

pub type Claims = BTreeMap<String, Arc<Object>>;

fn templates(set: &Object) -> impl Iterator<Item = &Value> {
    set.value["spec"]["volumeClaimTemplates"].as_array().into_iter().flatten()
}

fn claim_name(set: &Object, template: &Value, ordinal: i64) -> String {
    let template = template["metadata"]["name"].as_str().unwrap_or_default();
    format!("{template}-{}-{ordinal}", set.name.name)
}

/// The names of the claims of one pod.
pub fn names(set: &Object, ordinal: i64) -> Vec<String> {
    templates(set).map(|template| claim_name(set, template, ordinal)).collect()
}

/// The volumes by which a pod mounts its claims.
pub fn volumes(set: &Object, ordinal: i64) -> Vec<Value> {
    let volume = |template: &Value| {
        json!({"name": template["metadata"]["name"],
            "persistentVolumeClaim": {"claimName": claim_name(set, template, ordinal)}})
    };
    templates(set).map(volume).collect()
}

/// The sets that a claim may be of.
pub fn sets_of(sets: &Cache, claim: &Object) -> Vec<Name> {
    let is_of = |set: &Arc<Object>| {
        templates(set).any(|template| {
            let prefix = claim_name(set, template, 0);
            let prefix = prefix.trim_end_matches('0');
            let number = claim.name.name.strip_prefix(prefix);
            number.is_some_and(|it| !it.is_empty() && it.bytes().all(|b| b.is_ascii_digit()))
        })
    };
    let sets = sets.in_namespace(&claim.name.namespace);
    sets.into_iter().filter(is_of).map(|set| set.name.clone()).collect()
}

/// Makes the claims of a pod that are not there. False if one is on its way out: the pod waits.
pub fn make(plan: &mut Plan, set: &Object, ordinal: i64, claims: &Claims) -> bool {
    let pod = identity::pod_name(set, ordinal);
    let mut is_whole = true;
    for template in templates(set) {
        let name = claim_name(set, template, ordinal);
        match claims.get(&name) {
            Some(found) if found.is_terminating() => {
                let message = format!(
                    "create Claim {name} for Pod {pod} in StatefulSet {} failed error: \
                     pvc {name} is being deleted",
                    set.name.name
                );
                plan.notices.push(Notice::warning("FailedCreate", message));
                is_whole = false;
            }
            Some(_) => {}
            None => {
                plan.create(PERSISTENT_VOLUME_CLAIM, claim(set, template, &name));
                let message = format!(
                    "create Claim {name} Pod {pod} in StatefulSet {} success",
                    set.name.name
                );
                plan.notices.push(Notice::normal("SuccessfulCreate", message));
            }
        }
    }
    is_whole
}

fn claim(set: &Object, template: &Value, name: &str) -> Value {
    let mut claim = template.clone();
    claim["apiVersion"] = json!("v1");
    claim["kind"] = json!("PersistentVolumeClaim");
    claim["metadata"]["name"] = json!(name);
    claim["metadata"]["namespace"] = json!(&*set.name.namespace);
    let labels = set.value["spec"]["selector"]["matchLabels"].as_object();
    for (key, value) in labels.into_iter().flatten() {
        claim["metadata"]["labels"][key] = value.clone();
    }
    if let Some(fields) = claim.as_object_mut() {
        fields.remove("status");
    }
    // A claim goes with its set from the first, if it is to go at all.
    if policy(set).deleted == Fate::Delete {
        let owner = owners::controller_reference(STATEFUL_SET, set);
        claim["metadata"]["ownerReferences"] = json!([owner]);
    }
    claim
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Retain,
    Delete,
}

struct Policy {
    deleted: Fate,
    scaled: Fate,
}

fn policy(set: &Object) -> Policy {
    let policy = &set.value["spec"]["persistentVolumeClaimRetentionPolicy"];
    let fate = |field: &str| match policy[field].as_str() {
        Some("Delete") => Fate::Delete,
        _ => Fate::Retain,
    };
    Policy { deleted: fate("whenDeleted"), scaled: fate("whenScaled") }
}

/// Who is to own the claims of a pod.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The pod is one of those asked for.
    Within,
    /// The pod is to go, because fewer are asked for.
    Beyond,
}

/// Gives the claims of a pod the owners that the retention policy asks for.
pub fn retain(plan: &mut Plan, set: &Object, pod: &Object, claims: &Claims, place: Place) {
    let Some(ordinal) = identity::ordinal(set, pod) else { return };
    let policy = policy(set);
    let is_condemned = place == Place::Beyond && policy.scaled == Fate::Delete;
    let by_set = policy.deleted == Fate::Delete && !is_condemned;
    for name in names(set, ordinal) {
        let Some(claim) = claims.get(&name) else { continue };
        let before = references(claim);
        let is_strangers = |reference: &Value| {
            reference["controller"] == true
                && reference["uid"] != set.uid.as_str()
                && reference["uid"] != pod.uid.as_str()
        };
        // What another controls is another's to keep or delete.
        if before.iter().any(is_strangers) {
            continue;
        }
        let mut after = before.clone();
        for (kind, owner, is_wanted) in [(STATEFUL_SET, set, by_set), (POD, pod, is_condemned)] {
            own(&mut after, kind, owner, is_wanted);
        }
        if before != after {
            let patch = json!({"metadata": {"ownerReferences": after}});
            plan.update(PERSISTENT_VOLUME_CLAIM, claim, "", patch);
        }
    }
}

fn own(references: &mut Vec<Value>, kind: Kind, owner: &Object, is_wanted: bool) {
    let is_owners = |reference: &Value| reference["uid"] == owner.uid.as_str();
    if !is_wanted {
        references.retain(|reference| !is_owners(reference));
    } else if !references.iter().any(is_owners) {
        references.push(owners::controller_reference(kind, owner));
    }
}

/// Whether a claim of a pod belongs to an earlier pod of its name: it goes with that one.
pub fn is_stale(set: &Object, ordinal: i64, claims: &Claims) -> bool {
    let pod = identity::pod_name(set, ordinal);
    let is_earlier =
        |reference: &Value| reference["kind"] == "Pod" && reference["name"] == pod.as_str();
    policy(set).scaled == Fate::Delete
        && names(set, ordinal)
            .iter()
            .filter_map(|name| claims.get(name))
            .any(|claim| references(claim).iter().any(is_earlier))
}

fn references(claim: &Object) -> Vec<Value> {
    claim.value["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default()
}
