//! What a component says of how it fares.

use k8s_openapi::jiff::Timestamp;
use reconcile::Object;
use reconcile::conditions::{self, Condition, Truth};
use serde_json::{Value, json};

use super::facts::Facts;
use crate::value::list;

pub const AVAILABLE: &str = "Available";
/// What the condition says of one that could not be made.
pub const FAILED_REASON: &str = "Reconciling";
const COMPONENT_READY: &str = "DynamoComponentReady";

/// What runs the pods, as far as it is there.
pub enum Live<'a> {
    Deployment(Option<&'a Object>),
    Set(Option<&'a Object>),
}

pub fn has_conditions(object: &Object) -> bool {
    !list(&object.value["status"]["conditions"]).is_empty()
}

pub fn status(facts: &Facts<'_>, live: &Live<'_>, is_current: bool, now: Timestamp) -> Value {
    let object = facts.object;
    let is_ready = is_current && is_ready(live);
    let (reason, message) = match (live, is_ready) {
        (Live::Deployment(_), true) => ("DeploymentReady", "Deployment is ready"),
        (Live::Deployment(_), false) => ("DeploymentNotReady", "Deployment is not ready"),
        (Live::Set(_), true) => ("LeaderWorkerSetReady", "LeaderWorkerSet is ready"),
        (Live::Set(_), false) => ("LeaderWorkerSetNotReady", "LeaderWorkerSet is not ready"),
    };
    let (ready_reason, ready_message) = match is_ready {
        true => ("ComponentReady", "DynamoComponent is ready"),
        false => ("ComponentNotReady", "DynamoComponent is not ready"),
    };
    let status = if is_ready { Truth::True } else { Truth::False };
    let mut status_value = object.value["status"].clone();
    let mut all = list(&status_value["conditions"]).to_vec();
    for (kind, reason, message) in
        [(AVAILABLE, reason, message), (COMPONENT_READY, ready_reason, ready_message)]
    {
        let condition = Condition { kind, status, reason, message, observed_generation: None };
        conditions::set(&mut all, &condition, now);
    }
    status_value["conditions"] = json!(all);
    status_value["observedGeneration"] = json!(object.generation());
    status_value["component"] = component(facts, live);
    status_value
}

/// The status of one that could not be made.
pub fn failed(object: &Object, why: &str, now: Timestamp) -> Value {
    let mut status = object.value["status"].clone();
    let mut all = list(&status["conditions"]).to_vec();
    let condition = Condition {
        kind: AVAILABLE,
        status: Truth::False,
        reason: FAILED_REASON,
        message: why,
        observed_generation: Some(object.generation()),
    };
    conditions::set(&mut all, &condition, now);
    status["conditions"] = json!(all);
    status
}

/// Whether all pods are there, of the newest form, and answer.
fn is_ready(live: &Live<'_>) -> bool {
    let object = match live {
        Live::Deployment(object) | Live::Set(object) => object,
    };
    let Some(object) = object else { return false };
    let (spec, status) = (&object.value["spec"], &object.value["status"]);
    let count = |field: &str| status[field].as_i64().unwrap_or(0);
    let desired = spec["replicas"].as_i64().unwrap_or(1);
    let is_available = conditions::is_true(status, AVAILABLE);
    match live {
        Live::Deployment(_) => {
            spec["paused"] != true
                && (desired == 0
                    || (count("observedGeneration") >= object.generation()
                        && count("updatedReplicas") >= desired
                        && count("availableReplicas") >= desired
                        && count("replicas") == desired
                        && is_available))
        }
        Live::Set(_) => {
            // Sets of other operators may not say what they have seen.
            let is_seen = status["observedGeneration"]
                .as_i64()
                .is_none_or(|seen| seen >= object.generation());
            desired == 0 || (is_seen && count("readyReplicas") >= desired && is_available)
        }
    }
}

/// How many pods are how far. It always says what kind of object runs them.
fn component(facts: &Facts<'_>, live: &Live<'_>) -> Value {
    let (kind, name, object) = match live {
        Live::Deployment(object) => ("Deployment", facts.own_name().to_owned(), object),
        Live::Set(object) => {
            ("LeaderWorkerSet", super::observe::set_name(facts.own_name()), object)
        }
    };
    let status = object.map(|object| object.value["status"].clone()).unwrap_or_default();
    let count = |field: &str| status[field].as_i64().unwrap_or(0);
    let mut made = json!({
        "componentKind": kind,
        "componentNames": [name],
        "replicas": count("replicas"),
        "updatedReplicas": count("updatedReplicas"),
        "readyReplicas": count("readyReplicas"),
    });
    if matches!(live, Live::Deployment(_)) {
        made["availableReplicas"] = json!(count("availableReplicas"));
    }
    made
}
