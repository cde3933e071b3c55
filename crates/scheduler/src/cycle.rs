//! One decision: a pod and a snapshot in, a verdict out. Pure.

use std::sync::Arc;

use crate::events::Events;
use crate::plugin::{Filter, Filtering, Plugin, Unfit, View};
use crate::pod::PodInfo;
use crate::profile::{Policy, Profile};
use crate::snapshot::{Slot, Snapshot};
use crate::verdict::{Diagnosis, Verdict};

const NOT_READY: &str = "node(s) were not ready";

/// Where a pod goes.
pub fn schedule(snapshot: &Snapshot, pod: &PodInfo, profile: &Profile) -> Verdict {
    let view = View { snapshot, pod, profile };
    if snapshot.node_count() == 0 {
        return Verdict::Refuse(Arc::new(no_nodes()));
    }
    let filters = match filters(view) {
        Ok(filters) => filters,
        Err(diagnosis) => return Verdict::Refuse(Arc::new(diagnosis)),
    };
    let candidates = Candidates::of(&view);
    // Room was made for it there.
    if let Some(slot) = snapshot.nomination_of(&pod.uid).and_then(|name| snapshot.slot_of(name))
        && candidates.slots.contains(&slot)
        && filters.iter().all(|(_, filter)| filter.fits(slot))
    {
        return Verdict::Place(slot);
    }
    let mut feasible = candidates.slots.clone();
    filters.iter().for_each(|(_, filter)| filter.keep(&mut feasible));
    let chosen = match profile.policy {
        Policy::BestScore => best(view, &feasible),
        Policy::FirstReady => {
            let is_first = |(slot, node): &(Slot, &crate::snapshot::node::Node)| {
                node.is_ready && feasible.binary_search(slot).is_ok()
            };
            snapshot.by_name().find(is_first).map(|(slot, _)| slot)
        }
    };
    match chosen {
        Some(slot) => Verdict::Place(slot),
        None => Verdict::Refuse(Arc::new(diagnose(view, &filters, &candidates))),
    }
}

fn no_nodes() -> Diagnosis {
    Diagnosis { wakes: Events::NODE_ADDED, ..Diagnosis::default() }
}

type Filters<'a> = Vec<(&'static dyn Plugin, Box<dyn Filter + 'a>)>;

/// What must hold of a node, or why no node will do.
pub(crate) fn filters<'a>(view: View<'a>) -> Result<Filters<'a>, Diagnosis> {
    let mut filters: Filters<'a> = Vec::new();
    for plugin in view.profile.plugins() {
        match plugin.filter(view) {
            Filtering::Skip => {}
            Filtering::Check(filter) => filters.push((*plugin, filter)),
            Filtering::Refuse(unfit) => {
                let reason = unfit.reasons.join(", ");
                let wakes = plugin.woken_by() | Events::NODE_ADDED;
                return Err(Diagnosis::because(view.snapshot.node_count(), reason, wakes));
            }
        }
    }
    Ok(filters)
}

/// The nodes that come into question, in the order of slots.
struct Candidates {
    slots: Vec<Slot>,
    /// The plugins that left out the others.
    narrowed_by: Vec<&'static str>,
    wakes: Events,
}

impl Candidates {
    fn of(view: &View<'_>) -> Candidates {
        let mut candidates =
            Candidates { slots: Vec::new(), narrowed_by: Vec::new(), wakes: Events::NONE };
        let mut named: Option<Vec<Slot>> = None;
        for plugin in view.profile.plugins() {
            let Some(names) = plugin.narrows(view) else { continue };
            let slots = names.iter().filter_map(|name| view.snapshot.slot_of(name));
            let mut slots: Vec<Slot> = slots.collect();
            slots.sort_unstable();
            slots.dedup();
            named = Some(match named {
                None => slots,
                Some(before) => before.into_iter().filter(|slot| slots.contains(slot)).collect(),
            });
            candidates.narrowed_by.push(plugin.name());
            candidates.wakes |= plugin.woken_by();
        }
        candidates.slots = named.unwrap_or_else(|| view.snapshot.live_slots());
        candidates
    }
}

/// The node with the best score; the first of those that are equally good.
fn best(view: View<'_>, feasible: &[Slot]) -> Option<Slot> {
    if feasible.len() < 2 {
        return feasible.first().copied();
    }
    let totals = scores(view, feasible);
    let best = totals.iter().copied().max()?;
    let at = totals.iter().position(|total| *total == best)?;
    feasible.get(at).copied()
}

/// The score of each of the nodes that fit.
pub(crate) fn scores(view: View<'_>, feasible: &[Slot]) -> Vec<i64> {
    let mut totals = vec![0; feasible.len()];
    for plugin in view.profile.plugins() {
        let Some(score) = plugin.score(view, feasible) else { continue };
        let mut scores = vec![0; feasible.len()];
        score.add(feasible, 1, &mut scores);
        score.normalize(feasible, &mut scores);
        for (total, score) in totals.iter_mut().zip(scores) {
            *total += plugin.weight() * score;
        }
    }
    totals
}

/// Why each node does not fit.
fn diagnose(view: View<'_>, filters: &Filters<'_>, candidates: &Candidates) -> Diagnosis {
    let snapshot = view.snapshot;
    let mut diagnosis = Diagnosis {
        nodes: snapshot.node_count(),
        wakes: Events::NODE_ADDED | candidates.wakes,
        ..Diagnosis::default()
    };
    let narrowed = || {
        let names = candidates.narrowed_by.join(" ");
        Unfit::unresolvable(format!("node(s) didn't satisfy plugin(s) [{names}]"))
    };
    for (slot, node) in snapshot.live() {
        if !candidates.narrowed_by.is_empty() && candidates.slots.binary_search(&slot).is_err() {
            diagnosis.add(narrowed(), slot, &node.name);
            continue;
        }
        match filters.iter().find(|(_, filter)| !filter.fits(slot)) {
            Some((plugin, filter)) => {
                diagnosis.wakes |= plugin.woken_by();
                diagnosis.add(filter.why(slot), slot, &node.name);
            }
            None => {
                diagnosis.wakes |= Events::NODE_TAINTS;
                diagnosis.add(Unfit::unresolvable(NOT_READY), slot, &node.name);
            }
        }
    }
    diagnosis
}
