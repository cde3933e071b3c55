//! Which claims a pod needs.

use std::sync::Arc;

use reconcile::plan::Notice;
use reconcile::{Object, Plan, owners};
use serde_json::Value;

use crate::kinds::{PERSISTENT_VOLUME_CLAIM, POD};

pub fn plan(pod: &Object, claims: &[Arc<Object>]) -> Plan {
    let mut plan = Plan::nothing();
    if pod.is_terminating() {
        return plan;
    }
    for volume in volumes(pod) {
        let name = name(pod, volume);
        let Some(found) = claims.iter().find(|claim| *claim.name.name == name) else {
            plan.create(PERSISTENT_VOLUME_CLAIM, claim(pod, &name, volume));
            continue;
        };
        // What somebody else made under the name is not the pod's, and the pod has to wait.
        if found.controller() != Some(pod.uid.as_str()) {
            let (claim, pod) = (&found.name, &pod.name);
            let message = format!("PVC {claim} was not created for pod {pod} (pod is not owner)");
            plan.notices.push(Notice::warning("FailedBinding", message));
        }
    }
    plan
}

/// The volumes that are made for the pod.
pub fn volumes(pod: &Object) -> impl Iterator<Item = &Value> {
    let volumes = pod.value["spec"]["volumes"].as_array().into_iter().flatten();
    volumes.filter(|volume| volume["ephemeral"]["volumeClaimTemplate"].is_object())
}

pub fn name(pod: &Object, volume: &Value) -> String {
    format!("{}-{}", pod.name.name, volume["name"].as_str().unwrap_or_default())
}

fn claim(pod: &Object, name: &str, volume: &Value) -> Value {
    let template = &volume["ephemeral"]["volumeClaimTemplate"];
    let mut claim = owners::child(PERSISTENT_VOLUME_CLAIM, name, POD, pod);
    for field in ["labels", "annotations"] {
        if template["metadata"][field].is_object() {
            claim["metadata"][field] = template["metadata"][field].clone();
        }
    }
    claim["spec"] = template["spec"].clone();
    claim
}
