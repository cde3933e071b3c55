//! Engines that share weights across pods fail together: one that ended or was deleted takes the
//! others of its group with it, so that all begin again from the same weights.
//!
//! Pods that took the place of others are of the next group: what was made after a member was lost
//! is left alone.
//!
//! Upstream: ai-dynamo/dynamo, deploy/operator/internal/controller, gms failover cascade

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use reconcile::plan::{Deletion, Notice, Target};
use reconcile::{Change, Context, Error, Kind, Object, Plan, Reconciler, Step, Watches};

use crate::checkpoint::ID;
use crate::kinds::POD;
use crate::value::{list, text};

pub const NAME: &str = "gms-failover-cascade";
pub const MEMBER: &str = "nvidia.com/dynamo-failover-engine-group-member";
/// What Grove says of a pod; those that say the same are one group.
pub const GROUP: [&str; 3] = [
    "grove.io/podcliquescalinggroup",
    "grove.io/podcliquescalinggroup-replica-index",
    "grove.io/podclique-pod-index",
];

#[derive(Clone, Default)]
pub struct Controller {
    /// Pods whose group lost a member that nobody can look at any more, by UID, and which it was.
    bereft: Arc<Mutex<BTreeMap<String, String>>>,
}

#[derive(Default)]
pub struct Observed {
    /// The pods of the group that are still there.
    pub group: Vec<Arc<Object>>,
    /// A member that is gone.
    pub gone: Option<String>,
}

impl Reconciler for Controller {
    type Observed = Observed;
    const NAME: &'static str = NAME;
    const KIND: Kind = POD;

    fn concerns(pod: &Object) -> bool {
        is_lost(pod)
    }

    fn watches(&self, watches: &mut Watches) {
        let (pods, bereft) = (watches.cache(POD), self.bereft.clone());
        watches.by(POD, move |change| {
            let Some(gone) = gone(change) else { return Vec::new() };
            let mut bereft = bereft.lock().unwrap_or_else(PoisonError::into_inner);
            bereft.remove(&gone.uid);
            if !is_member(gone) {
                return Vec::new();
            }
            let others = pods.in_namespace(&gone.name.namespace).into_iter();
            let others = others.filter(|other| is_of_group(gone, other) && goes_with(gone, other));
            let tell = |other: Arc<Object>| {
                bereft.insert(other.uid.clone(), gone.name.name.to_string());
                other.name.clone()
            };
            others.map(tell).collect()
        });
    }

    async fn observe(&self, context: &Context, pod: &Arc<Object>) -> Result<Observed, Error> {
        let bereft = self.bereft.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = bereft.get(&pod.uid).cloned();
        drop(bereft);
        if !is_lost(pod) {
            return Ok(Observed { gone, ..Observed::default() });
        }
        let all = context.cache(POD).in_namespace(&pod.name.namespace).into_iter();
        Ok(Observed { group: all.filter(|other| is_of_group(pod, other)).collect(), gone })
    }

    fn plan(&self, pod: &Object, observed: &Observed, _: Timestamp) -> Result<Plan, Error> {
        Ok(plan(pod, observed))
    }
}

/// Whether it counts how a pod ends. One that starts from a checkpoint is replaced alone.
fn is_member(pod: &Object) -> bool {
    pod.label(MEMBER) == Some("true") && pod.label(ID).is_none()
}

fn has_ended(pod: &Object) -> bool {
    matches!(pod.value["status"]["phase"].as_str(), Some("Failed" | "Succeeded"))
}

/// Whether the group of a pod has to do without it.
fn is_lost(pod: &Object) -> bool {
    is_member(pod) && (has_ended(pod) || pod.is_terminating())
}

fn gone(change: &Change) -> Option<&Arc<Object>> {
    change.old.as_ref().filter(|_| change.new.is_none())
}

fn is_of_group(pod: &Object, other: &Object) -> bool {
    let same = |name: &&str| pod.label(name).is_some() && pod.label(name) == other.label(name);
    GROUP.iter().all(same)
}

/// When a member was lost, as far as it says so: its deletion was asked for, or its last container
/// ended.
fn lost_at(pod: &Object) -> Option<Timestamp> {
    let time = |text: &str| text.parse::<Timestamp>().ok();
    let meta = &pod.value["metadata"];
    let grace = meta["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    let deleted = time(text(&meta["deletionTimestamp"]));
    let deleted = deleted.and_then(|at| at.checked_sub(SignedDuration::from_secs(grace)).ok());
    let status = &pod.value["status"];
    let containers = list(&status["containerStatuses"]).iter();
    let ends = containers.map(|one| text(&one["state"]["terminated"]["finishedAt"]));
    let moves = list(&status["conditions"]).iter().map(|one| text(&one["lastTransitionTime"]));
    let ended = || ends.filter_map(time).max().or_else(|| moves.filter_map(time).max());
    match has_ended(pod) {
        true => ended().into_iter().chain(deleted).min(),
        false => deleted,
    }
}

/// Whether another was there when a member was lost, and is to go with it.
fn goes_with(lost: &Object, other: &Object) -> bool {
    let is_newer = match (lost_at(lost), other.created()) {
        (Some(lost), Some(created)) => created > lost,
        _ => false,
    };
    !is_newer && !other.is_terminating()
}

pub fn plan(pod: &Object, observed: &Observed) -> Plan {
    let mut plan = Plan::nothing();
    if let Some(gone) = observed.gone.as_ref().filter(|_| !pod.is_terminating()) {
        plan.delete(Target::of(POD, pod));
        let message = format!("Pod {gone} is gone; deleting what shared its weights");
        plan.notices.push(Notice::warning("FailoverCascade", message));
        return plan;
    }
    // What ended has nothing left to finish; who is deleted in an orderly way takes its time, and
    // so may the others.
    let grace_seconds = has_ended(pod).then_some(0);
    for other in observed.group.iter().filter(|other| goes_with(pod, other)) {
        let options = Deletion { grace_seconds, propagation: None };
        plan.steps.push(Step::Delete { target: Target::of(POD, other), options });
    }
    if !plan.steps.is_empty() {
        let message = format!(
            "Pod {} ended; deleting the {} pods of its failover group",
            pod.name.name,
            plan.steps.len()
        );
        plan.notices.push(Notice::warning("FailoverCascade", message));
    }
    plan
}
