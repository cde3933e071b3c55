//! Claims that all Jobs of a set share.

use reconcile::{Plan, owners};
use serde_json::{Value, json};

use super::build::JOB_SET_NAME;
use super::observe::Observed;
use super::spec::Spec;
use crate::kinds::{JOB_SET, PERSISTENT_VOLUME_CLAIM};
use crate::value::{find, list, list_mut, object_mut, overlay, text};

pub struct Claim<'a> {
    /// `<template>-<set>`.
    pub name: String,
    /// The name of the volume in pods.
    pub volume: &'a str,
    pub template: &'a Value,
    /// Whether it stays when the set goes.
    pub is_kept: bool,
}

pub fn wanted<'a>(spec: &Spec<'a>) -> impl Iterator<Item = Claim<'a>> {
    let set = spec.name();
    list(&spec.value()["volumeClaimPolicies"]).iter().flat_map(move |policy| {
        let is_kept = policy["retentionPolicy"]["whenDeleted"] == "Retain";
        list(&policy["templates"]).iter().map(move |template| {
            let volume = text(&template["metadata"]["name"]);
            Claim { name: format!("{volume}-{set}"), volume, template, is_kept }
        })
    })
}

/// Makes the claims that are missing; one that was kept from before is used again.
pub fn make_claims(plan: &mut Plan, spec: &Spec<'_>, observed: &Observed) {
    for claim in wanted(spec).filter(|claim| !observed.claims.contains(&claim.name)) {
        let mut made = owners::child(PERSISTENT_VOLUME_CLAIM, &claim.name, JOB_SET, spec.set);
        if claim.is_kept {
            object_mut(&mut made["metadata"]).remove("ownerReferences");
        }
        let meta = &claim.template["metadata"];
        overlay(&mut made["metadata"], "labels", &meta["labels"]);
        made["metadata"]["labels"][JOB_SET_NAME] = json!(spec.name());
        overlay(&mut made["metadata"], "annotations", &meta["annotations"]);
        made["spec"] = claim.template["spec"].clone();
        plan.create(PERSISTENT_VOLUME_CLAIM, made);
    }
}

/// Gives a pod the volumes that its containers mount.
pub fn mount(spec: &Spec<'_>, pod: &mut Value) {
    for claim in wanted(spec) {
        let mounts = |field: &str| {
            list(&pod[field])
                .iter()
                .any(|container| find(&container["volumeMounts"], "name", claim.volume).is_some())
        };
        if mounts("containers") || mounts("initContainers") {
            list_mut(&mut pod["volumes"]).push(json!({"name": claim.volume,
                "persistentVolumeClaim": {"claimName": claim.name}}));
        }
    }
}
