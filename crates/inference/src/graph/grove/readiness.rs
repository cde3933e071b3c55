//! How the components of a graph fare, as Grove says of their cliques.

use std::collections::BTreeMap;

use reconcile::conditions;
use serde_json::{Map, Value, json};

use super::{Found, child_name, is_group, set_name};
use crate::graph::facts::Graph;

pub const NOT_READY: &str = "some_resources_are_not_ready";
const NO_ROOM: &str = "insufficient_capacity";
const UPDATING: &str = "updating";
const PODS: &str = "pods_not_ready";

/// One component.
pub struct Look {
    /// Of what Grove made for it.
    pub name: String,
    /// What it is not ready for: a reason, and in words.
    pub why: Option<(&'static str, String)>,
    counts: Value,
}

impl Look {
    /// It was changed just now.
    pub fn begin_again(&mut self) {
        self.why = Some((NOT_READY, "not yet observed".to_owned()));
    }
}

pub fn look(
    graph: &Graph<'_>,
    found: &Found,
    waits: &BTreeMap<String, String>,
) -> BTreeMap<String, Look> {
    let set = set_name(graph);
    let mut all = BTreeMap::new();
    for part in graph.components() {
        let name = child_name(&set, &part);
        let is_group = is_group(&part);
        let live = match is_group {
            true => found.groups.get(&name),
            false => found.cliques.get(&name),
        };
        let desired = if waits.contains_key(part.name()) { 0 } else { part.replicas() };
        let kind = if is_group { "PodCliqueScalingGroup" } else { "PodClique" };
        let mut counts = json!({"componentKind": kind, "componentNames": [name]});
        let why = match live {
            None => Some((NOT_READY, "resource not found".to_owned())),
            Some(live) => {
                let status = &live.value["status"];
                let serving = if is_group { "availableReplicas" } else { "readyReplicas" };
                for field in ["replicas", "updatedReplicas", serving, "scheduledReplicas"] {
                    counts[field] = json!(status[field].as_i64().unwrap_or(0));
                }
                judge(&live.value, desired, serving)
            }
        };
        for field in ["replicas", "updatedReplicas"] {
            if counts[field].is_null() {
                counts[field] = json!(0);
            }
        }
        all.insert(part.name().to_owned(), Look { name, why, counts });
    }
    all
}

/// Whether Grove has looked at the set as it is; until then its cliques are those of before.
pub fn is_seen(found: &Found) -> bool {
    found.set.as_ref().is_none_or(|set| {
        let seen = set.value["status"]["observedGeneration"].as_i64();
        seen.is_none_or(|seen| seen >= set.generation())
    })
}

fn judge(live: &Value, desired: i64, serving: &str) -> Option<(&'static str, String)> {
    let status = &live["status"];
    let generation = live["metadata"]["generation"].as_i64().unwrap_or(0);
    let observed = status["observedGeneration"].as_i64();
    if observed.is_none_or(|observed| observed < generation) {
        let observed = observed.unwrap_or(0);
        let why = format!(
            "spec not yet processed: generation={generation}, observedGeneration={observed}"
        );
        return Some((NOT_READY, why));
    }
    let count = |field: &str| status[field].as_i64().unwrap_or(0);
    let (ready, updated, there) = (count(serving), count("updatedReplicas"), count("replicas"));
    if desired == 0 || (ready == desired && updated == desired && there == desired) {
        return None;
    }
    let scheduled = count("scheduledReplicas");
    let lacks_room = conditions::find(status, "PodCliqueScheduled").is_some_and(|one| {
        one["status"] == "False" && one["reason"] == "InsufficientScheduledPods"
    });
    let why = format!("desired={desired}, ready={ready}, updated={updated}, scheduled={scheduled}");
    let is_partly = scheduled > 0 && scheduled < desired;
    if count("scheduleGatedReplicas") > 0 || lacks_room || is_partly {
        return Some((NO_ROOM, why));
    }
    match updated != desired || there != desired {
        true => Some((UPDATING, why)),
        false => Some((PODS, why)),
    }
}

/// What the status of the graph says of its components.
pub fn components(graph: &Graph<'_>, looks: &BTreeMap<String, Look>) -> Value {
    let mut all = Map::new();
    for part in graph.components() {
        let Some(look) = looks.get(part.name()) else { continue };
        let mut made = look.counts.clone();
        if let Some(hash) = graph.current_hash().filter(|_| part.is_worker()) {
            let namespace = graph.dynamo_namespace(&part);
            made["runtimeNamespace"] = json!(format!("{namespace}-{hash}"));
        }
        all.insert(part.name().to_owned(), made);
    }
    Value::Object(all)
}
