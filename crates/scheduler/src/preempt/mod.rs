//! Finds pods of lesser priority whose going makes room for a pod: as few and as unimportant as
//! will do, on one node.
//!
//! Upstream: pkg/scheduler/framework/preemption

pub mod budget;

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use crate::cycle;
use crate::plugin::{Unfit, View};
use crate::pod::PodInfo;
use crate::profile::Profile;
use crate::snapshot::{Slot, Snapshot};
use crate::verdict::{Diagnosis, Refused, histogram};

/// Nodes that are compared, at least and as a share of all.
const CANDIDATES_MIN: usize = 100;
const CANDIDATES_PERCENT: usize = 10;
const NO_VICTIMS: &str = "No preemption victims found for incoming pod";
const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";

#[derive(Debug)]
pub enum Preemption {
    Make {
        slot: Slot,
        victims: Vec<Arc<PodInfo>>,
    },
    /// Nothing can be done, and why.
    Not(String),
}

/// A node and who would have to go.
struct Candidate {
    slot: Slot,
    victims: Vec<Arc<PodInfo>>,
    violations: usize,
}

/// Whom to end for a pod that fits nowhere. The snapshot is changed and changed back.
pub fn preempt(
    snapshot: &mut Snapshot,
    pod: &PodInfo,
    profile: &Profile,
    diagnosis: &Diagnosis,
) -> Preemption {
    if !pod.preempts {
        return Preemption::Not("not eligible due to preemptionPolicy=Never.".to_owned());
    }
    if is_waiting(snapshot, pod, diagnosis) {
        let reason = "not eligible due to a terminating pod on the nominated node.";
        return Preemption::Not(reason.to_owned());
    }
    let nodes = snapshot.node_count();
    let enough = CANDIDATES_MIN.max(nodes * CANDIDATES_PERCENT / 100);
    let mut candidates = Vec::new();
    let mut refused: BTreeMap<Unfit, Refused> = BTreeMap::new();
    let possible = &diagnosis.resolvable;
    let start = start(pod, possible.len());
    for at in 0..possible.len() {
        let slot = possible[(start + at) % possible.len()];
        match try_node(snapshot, pod, profile, slot) {
            Ok(candidate) => candidates.push(candidate),
            Err(unfit) => refused.entry(unfit).or_default().count += 1,
        }
        if candidates.len() >= enough {
            break;
        }
    }
    match candidates.into_iter().min_by_key(rank) {
        Some(best) => Preemption::Make { slot: best.slot, victims: best.victims },
        None => {
            let tried: usize = refused.values().map(|one| one.count).sum();
            if tried < nodes {
                let rest = refused.entry(Unfit::unresolvable(NOT_HELPFUL)).or_default();
                rest.count += nodes - tried;
            }
            Preemption::Not(format!("0/{nodes} nodes are available:{}", histogram(&refused)))
        }
    }
}

/// Different pods begin with different nodes, the same pod with the same.
fn start(pod: &PodInfo, count: usize) -> usize {
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(&pod.uid);
    usize::try_from(hash % count.max(1) as u64).unwrap_or(0)
}

/// Whether somebody is going already so that the pod gets the room.
fn is_waiting(snapshot: &Snapshot, pod: &PodInfo, diagnosis: &Diagnosis) -> bool {
    let slot = snapshot.nomination_of(&pod.uid).and_then(|name| snapshot.slot_of(name));
    let Some(slot) = slot.filter(|slot| diagnosis.resolvable.contains(slot)) else { return false };
    let pods = snapshot.node(slot).map_or(&[][..], |node| &node.pods);
    pods.iter().any(|other| other.is_terminating && other.priority < pod.priority)
}

/// Who must go from a node for the pod to fit.
fn try_node(
    snapshot: &mut Snapshot,
    pod: &PodInfo,
    profile: &Profile,
    slot: Slot,
) -> Result<Candidate, Unfit> {
    let Some(node) = snapshot.node(slot) else { return Err(Unfit::unresolvable(NOT_HELPFUL)) };
    let name = node.name.clone();
    let lesser = node.pods.iter().filter(|other| other.priority < pod.priority);
    let mut lesser: Vec<Arc<PodInfo>> = lesser.cloned().collect();
    if lesser.is_empty() {
        return Err(Unfit::unresolvable(NO_VICTIMS));
    }
    // The most important first: they stay if there is room.
    lesser.sort_by_key(|one| (Reverse(one.priority), started(one), one.uid.clone()));
    for one in &lesser {
        snapshot.displace(&one.uid);
    }
    let result = reprieve(snapshot, pod, profile, (slot, &lesser));
    for one in &lesser {
        snapshot.place(one, &name);
    }
    result
}

/// Puts back as many as the pod leaves room for, those first whose going breaks a budget.
fn reprieve(
    snapshot: &mut Snapshot,
    pod: &PodInfo,
    profile: &Profile,
    (slot, lesser): (Slot, &[Arc<PodInfo>]),
) -> Result<Candidate, Unfit> {
    fits(snapshot, pod, profile, slot)?;
    let name = snapshot.node(slot).map(|node| node.name.clone()).unwrap_or_default();
    let violating = budget::violating(lesser, snapshot.budgets.values());
    let mut candidate = Candidate { slot, victims: Vec::new(), violations: 0 };
    for is_violation in [true, false] {
        let these = lesser.iter().zip(&violating).filter(|(_, it)| **it == is_violation);
        for (one, _) in these {
            snapshot.place(one, &name);
            if fits(snapshot, pod, profile, slot).is_err() {
                snapshot.displace(&one.uid);
                candidate.victims.push(one.clone());
                candidate.violations += usize::from(is_violation);
            }
        }
    }
    candidate.victims.sort_by_key(|one| (Reverse(one.priority), started(one), one.uid.clone()));
    Ok(candidate)
}

/// Whether the pod fits on one node.
fn fits(snapshot: &Snapshot, pod: &PodInfo, profile: &Profile, slot: Slot) -> Result<(), Unfit> {
    let filters = cycle::filters(View { snapshot, pod, profile });
    let filters = filters.map_err(|_| Unfit::unresolvable(NOT_HELPFUL))?;
    match filters.iter().find(|(_, filter)| !filter.fits(slot)) {
        Some((_, filter)) => Err(filter.why(slot)),
        None => Ok(()),
    }
}

fn started(pod: &PodInfo) -> Timestamp {
    pod.started().unwrap_or(Timestamp::MAX)
}

/// The least is the best: few broken budgets, unimportant victims, few of them, young ones.
fn rank(candidate: &Candidate) -> impl Ord + use<> {
    let victims = &candidate.victims;
    let highest = victims.first().map_or(i32::MIN, |one| one.priority);
    let sum: i64 = victims.iter().map(|one| i64::from(one.priority) + (1 << 31)).sum();
    let oldest = victims.iter().filter(|one| one.priority == highest).map(|one| started(one));
    (candidate.violations, highest, sum, victims.len(), Reverse(oldest.min()), candidate.slot)
}
