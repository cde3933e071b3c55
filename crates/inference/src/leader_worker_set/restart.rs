//! When a group begins again as a whole.
//!
//! Only what belongs to the leader that is there counts: pods of an earlier leader of the name go
//! by themselves, and must take nobody with them.

use reconcile::Object;
use serde_json::Value;

use super::labels;
use super::observe::{Members, Workers};
use super::spec::{Restart, Spec};
use crate::value::list;

/// The pod for which a group has to begin again.
pub fn cause(spec: &Spec<'_>, members: &Members) -> Option<String> {
    let waits = match spec.restart {
        Restart::Nothing => return None,
        Restart::GroupAfterStart => true,
        Restart::Group => spec.set.annotation(labels::AFTER_START).is_some(),
    };
    let (pods, lost, wanted) = match &members.workers {
        Workers::Here { set, pods, lost } => {
            (pods.as_slice(), lost.clone(), set.value["spec"]["replicas"].as_i64().unwrap_or(1))
        }
        Workers::Nothing | Workers::Earlier => (&[][..], None, 0),
    };
    let leader = &members.leader;
    let key = leader.label(labels::REVISION);
    let of_group = pods.iter().filter(|pod| pod.label(labels::REVISION) == key);
    let all = || std::iter::once(leader).chain(of_group.clone());
    if waits {
        let is_missing = i64::try_from(pods.len()).unwrap_or(i64::MAX) < wanted;
        if is_missing || all().any(|pod| pod.value["status"]["phase"] == "Pending") {
            return None;
        }
    }
    let broken = all().find(|pod| pod.is_terminating() || has_restarted(pod));
    broken.map(|pod| pod.name.name.to_string()).or(lost)
}

/// Whether a container of a pod that has not ended did, and began again.
fn has_restarted(pod: &Object) -> bool {
    let status = &pod.value["status"];
    let is_alive = matches!(status["phase"].as_str(), Some("Pending" | "Running"));
    let restarted = |one: &Value| one["restartCount"].as_i64().is_some_and(|count| count > 0);
    let of = |field: &str| list(&status[field]).iter().any(restarted);
    is_alive && (of("initContainerStatuses") || of("containerStatuses"))
}
