//! Gangs: groups of pods that start together or not at all.
//!
//! A gang is decided at once against the snapshot, so two gangs never hold each other's room.

pub mod group;
pub mod manifests;
pub mod status;

use std::sync::Arc;

use crate::classes::Classes;
use crate::events::Events;
use crate::gang::group::Group;
use crate::pod::PodInfo;
use crate::profile::Profile;
use crate::snapshot::{Slot, Snapshot};
use crate::verdict::{Diagnosis, Verdict};

pub const NOT_FOUND: &str = "PodGroup not found";

/// A group and its pods.
pub struct Gang<'a> {
    pub group: &'a Group,
    /// Members without a node, each with its profile.
    pub pending: &'a [(Arc<PodInfo>, &'a Profile)],
    /// How many have a node, or are assumed to.
    pub placed: usize,
}

/// Why a gang does not start.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub diagnosis: Arc<Diagnosis>,
    /// Whether it is for want of members, which may be on their way.
    pub lacks_members: bool,
}

/// Decides a gang. On success its pods are assumed in the snapshot; else nothing changed.
pub fn decide(
    snapshot: &mut Snapshot,
    classes: &mut Classes,
    gang: &Gang<'_>,
) -> Result<Vec<(Arc<PodInfo>, Slot)>, Refusal> {
    let missing = gang.group.members_min.saturating_sub(gang.placed);
    if let Some(refusal) = refuse_early(snapshot, gang, missing) {
        let lacks_members = gang.pending.len() < missing;
        return Err(Refusal { diagnosis: Arc::new(refusal), lacks_members });
    }
    let mut found: Vec<(Arc<PodInfo>, Slot)> = Vec::new();
    let mut refusal = None;
    for (at, (pod, profile)) in gang.pending.iter().enumerate() {
        snapshot.prepare(pod);
        match classes.schedule(snapshot, pod, profile) {
            Verdict::Place(slot) => {
                let Some(node) = snapshot.node(slot).map(|node| node.name.clone()) else {
                    continue;
                };
                snapshot.place(pod, &node);
                found.push((pod.clone(), slot));
            }
            Verdict::Refuse(diagnosis) => {
                refusal.get_or_insert(diagnosis);
            }
        }
        let left = gang.pending.len() - at - 1;
        if found.len() + left < missing {
            break;
        }
    }
    match refusal {
        Some(refusal) if found.len() < missing || found.is_empty() => {
            for (pod, _) in &found {
                snapshot.displace(&pod.uid);
            }
            Err(Refusal { diagnosis: refusal, lacks_members: false })
        }
        _ => Ok(found),
    }
}

/// Why a pod whose gang has too few members waits.
pub fn lacks_members(nodes: usize, pod: &PodInfo, count: usize, group: &Group) -> Diagnosis {
    let (name, enough) = (&pod.name().name, group.members_min);
    let reason = format!(
        "pre-filter pod {name} cannot find enough sibling pods, current pods number: {count}, \
         minMember of group: {enough}"
    );
    Diagnosis::because(nodes, reason, Events::NONE)
}

/// What can be said without looking at nodes one by one.
fn refuse_early(snapshot: &Snapshot, gang: &Gang<'_>, missing: usize) -> Option<Diagnosis> {
    let nodes = snapshot.node_count();
    let count = gang.pending.len() + gang.placed;
    if gang.pending.len() < missing {
        let (first, _) = gang.pending.first()?;
        return Some(lacks_members(nodes, first, count, gang.group));
    }
    if gang.placed > 0 {
        return None;
    }
    let lacking = gang.group.resources_min.iter().find(|(name, amount)| {
        let free = snapshot.catalogue.find(name).map_or(0, |id| {
            snapshot.live().map(|(slot, _)| snapshot.columns.free(id, slot).max(0)).sum()
        });
        **amount > free
    });
    let (name, _) = lacking?;
    let reason = format!("not enough free {name} for the minResources of the PodGroup");
    let wakes = Events::POD_REMOVED | Events::NODE_ADDED | Events::NODE_RESOURCES;
    Some(Diagnosis::because(nodes, reason, wakes))
}
