//! When a group begins again as a whole.
//!
//! Only what belongs to the leader that is there counts: pods of an earlier leader of the name go
//! by themselves, and must take nobody with them.

use std::sync::Arc;

use reconcile::Object;
use serde_json::Value;

use super::labels;
use super::members;
use super::observe::{Members, Workers};
use super::spec::{Restart, Spec};
use crate::value::list;

/// What a group needs done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is well, or not whole yet.
    Nothing,
    /// Its workers are all there for the first time: this is to be noted of them.
    Note(String),
    /// It has to begin again, because of this pod.
    BeginAgain(String),
}

pub fn judge(spec: &Spec<'_>, members: &Members) -> Verdict {
    let waits = match spec.restart {
        Restart::Nothing => return Verdict::Nothing,
        Restart::GroupAfterStart => true,
        Restart::Group => spec.set.annotation(labels::AFTER_START).is_some(),
    };
    let (pods, wanted) = match &members.workers {
        Workers::Here { set, pods } => {
            (pods.as_slice(), set.value["spec"]["replicas"].as_i64().unwrap_or(1))
        }
        Workers::Nothing | Workers::Earlier => (&[][..], 0),
    };
    let leader = &members.leader;
    let key = leader.label(labels::REVISION);
    let of_group = pods.iter().filter(|pod| pod.label(labels::REVISION) == key);
    let all = || std::iter::once(leader).chain(of_group.clone());
    let is_whole = i64::try_from(pods.len()).unwrap_or(i64::MAX) >= wanted;
    let is_pending = |pod: &Arc<Object>| pod.value["status"]["phase"] == "Pending";
    if waits && (!is_whole || all().any(is_pending)) {
        return Verdict::Nothing;
    }
    if let Some(pod) = all().find(|pod| pod.is_terminating() || has_restarted(pod)) {
        return Verdict::BeginAgain(pod.name.name.to_string());
    }
    let Workers::Here { set, .. } = &members.workers else { return Verdict::Nothing };
    let now = members::digest(pods);
    match set.annotation(members::MEMBERS) {
        _ if !is_whole || set.is_terminating() => Verdict::Nothing,
        None => Verdict::Note(now),
        Some(noted) if noted != now => Verdict::BeginAgain(format!("of {}", leader.name.name)),
        Some(_) => Verdict::Nothing,
    }
}

/// Whether a container of a pod that has not ended did, and began again.
fn has_restarted(pod: &Object) -> bool {
    let status = &pod.value["status"];
    let is_alive = matches!(status["phase"].as_str(), Some("Pending" | "Running"));
    let restarted = |one: &Value| one["restartCount"].as_i64().is_some_and(|count| count > 0);
    let of = |field: &str| list(&status[field]).iter().any(restarted);
    is_alive && (of("initContainerStatuses") || of("containerStatuses"))
}
