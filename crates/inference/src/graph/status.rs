//! What a graph says of how it fares.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use reconcile::Object;
use reconcile::conditions::{self, Condition, Truth};
use serde_json::{Map, Value, json};

use super::facts::{Graph, Part};
use super::generations::{hash_of, of_component};
use super::observe::Observed;
use crate::component::{FAILED_REASON, nodes};
use crate::value::list;

const NOT_READY: &str = "some_resources_are_not_ready";
const READY: &str = "Ready";

/// What events say of a graph that could not be made.
pub const FAILED: &str = "ReconcileError";

/// Why a graph fails.
pub const RESOURCES: &str = "failed_to_reconcile_the_resources";
pub const MULTINODE: &str = "no_multinode_orchestrator_available";
pub const PROVIDER_UNAVAILABLE: &str = "selected_workload_provider_unavailable";
pub const PROVIDER_UNSUPPORTED: &str = "unsupported_workload_provider";

/// How far a graph is.
pub enum State {
    Successful,
    /// What is not ready, by name, and why.
    Waiting(BTreeMap<String, String>),
    /// The same for a reason that is known.
    Because(&'static str, BTreeMap<String, String>),
    Rolling,
    /// Components that wait for a checkpoint, and for which.
    Freezing(BTreeMap<String, String>),
}

/// Sets what the state says; the rest of the status stays.
pub fn set_state(status: &mut Value, object: &Object, state: &State, now: Timestamp) {
    let (word, truth, reason, message) = match state {
        State::Successful => {
            let message = "All resources are ready".to_owned();
            ("successful", Truth::True, "all_resources_are_ready", message)
        }
        State::Waiting(why) => ("pending", Truth::False, NOT_READY, listed(why)),
        State::Because(reason, why) => ("pending", Truth::False, *reason, listed(why)),
        State::Freezing(why) => {
            let parts: Vec<String> =
                why.iter().map(|(name, checkpoint)| format!("{name} ({checkpoint})")).collect();
            let message = format!("Waiting for checkpoints: {}", parts.join(", "));
            ("pending", Truth::False, "waiting_for_checkpoint", message)
        }
        State::Rolling => {
            let message = "Rolling update in progress".to_owned();
            ("pending", Truth::False, "rolling_update_in_progress", message)
        }
    };
    status["state"] = json!(word);
    status["observedGeneration"] = json!(object.generation());
    set_ready(status, object, truth, (reason, &message, now));
}

fn listed(why: &BTreeMap<String, String>) -> String {
    let parts: Vec<String> = why.iter().map(|(name, why)| format!("{name}: {why}")).collect();
    format!("Resources not ready: {}", parts.join("; "))
}

/// The status of a graph that could not be made: what it said of its components stays.
pub fn failed(object: &Object, reason: &str, message: &str, now: Timestamp) -> Value {
    let mut status = object.value["status"].clone();
    status["state"] = json!("failed");
    set_ready(&mut status, object, Truth::False, (reason, message, now));
    status
}

/// The condition says what it is of: a graph that failed has not been looked at to its end.
fn set_ready(
    status: &mut Value,
    object: &Object,
    truth: Truth,
    (reason, message, now): (&str, &str, Timestamp),
) {
    let mut all = list(&status["conditions"]).to_vec();
    let observed_generation = Some(object.generation());
    let condition = Condition { kind: READY, status: truth, reason, message, observed_generation };
    conditions::set(&mut all, &condition, now);
    status["conditions"] = json!(all);
}

/// Whether an object does as it is asked and serves; if not, why not.
pub fn not_ready(object: &Object) -> Option<String> {
    let status = &object.value["status"];
    let observed = status["observedGeneration"].as_i64().unwrap_or(0);
    let generation = object.generation();
    if let Some(why) = failure(object) {
        return Some(why.to_owned());
    }
    if observed < generation {
        return Some(format!(
            "spec not yet processed: generation={generation}, observedGeneration={observed}"
        ));
    }
    match conditions::is_true(status, "Available") {
        true => None,
        false => Some(NOT_AVAILABLE.to_owned()),
    }
}

/// Why an object could not be made as it is, if it says so.
fn failure(object: &Object) -> Option<&str> {
    let available = conditions::find(&object.value["status"], "Available")?;
    let is_of_now = available["observedGeneration"].as_i64() == Some(object.generation());
    let has_failed = available["status"] == "False" && available["reason"] == FAILED_REASON;
    available["message"].as_str().filter(|_| is_of_now && has_failed)
}

pub const NOT_AVAILABLE: &str = "Component deployment not ready - Available condition not true";

/// What the status says of every component: old and new forms together.
pub fn components(graph: &Graph<'_>, observed: &Observed, hash: &str) -> Value {
    let mut all = Map::new();
    for part in graph.components() {
        let mut forms: Vec<&Object> =
            of_component(observed, &part).map(|object| &**object).collect();
        forms.sort_by_key(|form| form.name.clone());
        if !forms.is_empty() {
            all.insert(part.name().to_owned(), component(graph, &part, &forms, hash));
        }
    }
    json!(all)
}

fn component(graph: &Graph<'_>, part: &Part<'_>, forms: &[&Object], hash: &str) -> Value {
    let is_new = |form: &&&Object| !part.is_worker() || hash_of(form) == Some(hash);
    let of = |form: &Object, field: &str| form.value["status"]["component"][field].as_i64();
    let sum = |field: &str| forms.iter().filter_map(|form| of(form, field)).sum::<i64>();
    let kind = match nodes(part.0) > 1 {
        true => "LeaderWorkerSet",
        false => "Deployment",
    };
    let mut names: Vec<String> = forms
        .iter()
        .flat_map(|form| list(&form.value["status"]["component"]["componentNames"]))
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect();
    names.sort();
    names.dedup();
    let updated = forms.iter().filter(is_new).filter_map(|form| of(form, "updatedReplicas"));
    let mut made = json!({
        "componentKind": kind,
        "componentNames": names,
        "replicas": sum("replicas"),
        "updatedReplicas": updated.sum::<i64>(),
        "readyReplicas": sum("readyReplicas"),
    });
    if forms.iter().any(|form| of(form, "availableReplicas").is_some()) {
        made["availableReplicas"] = json!(sum("availableReplicas"));
    }
    // Workers are looked for where the old ones are until none of them serves.
    if part.is_worker() {
        let current = graph.current_hash().unwrap_or(hash);
        let namespace = graph.dynamo_namespace(part);
        made["runtimeNamespace"] = json!(format!("{namespace}-{current}"));
    }
    made
}
