//! Pods are spread evenly over places, by hard constraints and by soft ones.
//!
//! Upstream: pkg/scheduler/framework/plugins/podtopologyspread

use std::borrow::Cow;

use crate::events::Events;
use crate::plugin::{Filter, Filtering, Plugin, SCORE_MAX, Scope, Score, Unfit, View};
use crate::plugins::{node_affinity, taint_toleration};
use crate::pod::affinity::Spread;
use crate::snapshot::Slot;
use crate::snapshot::counts;
use crate::snapshot::topology::{NOWHERE, Topology};

const HOSTNAME: &str = "kubernetes.io/hostname";
const MISMATCH: &str = "node(s) didn't match pod topology spread constraints";
const MISSING: &str =
    "node(s) didn't match pod topology spread constraints (missing required label)";

pub struct PodTopologySpread;

impl Plugin for PodTopologySpread {
    fn name(&self) -> &'static str {
        "PodTopologySpread"
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn woken_by(&self) -> Events {
        Events::POD_ADDED | Events::POD_REMOVED | Events::NODE_LABELS | Events::NODE_TAINTS
    }

    fn concerns(&self, view: View<'_>) -> bool {
        !view.pod.template.relations.spread.is_empty()
    }

    fn filter<'a>(&self, view: View<'a>) -> Filtering<'a> {
        let constraints: Vec<Domains<'a>> = domains(view, true);
        if constraints.is_empty() {
            return Filtering::Skip;
        }
        Filtering::Check(Box::new(Hard { constraints }))
    }

    fn weight(&self) -> i64 {
        2
    }

    fn score<'a>(&self, view: View<'a>, feasible: &[Slot]) -> Option<Box<dyn Score + 'a>> {
        let constraints = domains(view, false);
        if constraints.is_empty() {
            return None;
        }
        let has_all = |slot: &Slot| constraints.iter().all(|one| one.topology.of(*slot) != NOWHERE);
        let counted: Vec<Slot> = feasible.iter().copied().filter(has_all).collect();
        let weights = constraints.iter().map(|one| one.weight(&counted)).collect();
        Some(Box::new(Soft { constraints, weights }))
    }
}

/// One constraint, and how many matching pods are in each place.
struct Domains<'a> {
    spread: &'a Spread,
    topology: Cow<'a, Topology>,
    /// By the number of the value; `None` where no node counts.
    counts: Vec<Option<i64>>,
    /// In the emptiest place.
    least: i64,
    /// On each node, for soft constraints on host names.
    on_node: Cow<'a, [u32]>,
}

fn domains<'a>(view: View<'a>, is_hard: bool) -> Vec<Domains<'a>> {
    let View { snapshot, pod, .. } = view;
    let constraints = pod.template.relations.spread.iter().filter(|one| one.is_hard == is_hard);
    let mut all: Vec<Domains<'a>> = constraints
        .map(|spread| Domains {
            spread,
            topology: snapshot.topologies.of(&spread.topology, &snapshot.nodes),
            counts: Vec::new(),
            least: 0,
            on_node: match snapshot.counts.of(&spread.matcher) {
                Some(counts) => Cow::Borrowed(counts),
                None => {
                    let namespaces = &snapshot.namespaces;
                    Cow::Owned(counts::count(&spread.matcher, &snapshot.nodes, namespaces))
                }
            },
        })
        .collect();
    if all.is_empty() {
        return all;
    }
    let counts = count(view, &all);
    for (domains, counts) in all.iter_mut().zip(counts) {
        domains.counts = counts;
        domains.least = domains.emptiest();
    }
    all
}

/// How many matching pods are in each place of each constraint. A node counts if it has all the
/// labels and the pod could go there.
fn count(view: View<'_>, all: &[Domains<'_>]) -> Vec<Vec<Option<i64>>> {
    let mut counts: Vec<_> = all.iter().map(|one| vec![None; one.topology.bound()]).collect();
    let affinity_matters = !view.pod.template.selects_every_node();
    for (slot, _) in view.snapshot.live() {
        if all.iter().any(|one| one.topology.of(slot) == NOWHERE) {
            continue;
        }
        for (one, counts) in all.iter().zip(&mut counts) {
            let is_out = (one.spread.honors_affinity
                && affinity_matters
                && !node_affinity::selects(view, slot))
                || (one.spread.honors_taints && !taint_toleration::tolerates(view, slot));
            if !is_out {
                let value = one.topology.of(slot) as usize;
                *counts[value].get_or_insert(0) += one.pods_on(slot);
            }
        }
    }
    counts
}

impl Domains<'_> {
    fn pods_on(&self, slot: Slot) -> i64 {
        self.on_node.get(slot).copied().unwrap_or(0).into()
    }

    /// Matching pods in the place of a node.
    fn pods_near(&self, slot: Slot) -> i64 {
        self.counts.get(self.topology.of(slot) as usize).copied().flatten().unwrap_or(0)
    }

    fn emptiest(&self) -> i64 {
        let domains = self.counts.iter().flatten();
        let count = i64::try_from(domains.clone().count()).unwrap_or(i64::MAX);
        if count < self.spread.domains_min {
            return 0;
        }
        domains.copied().min().unwrap_or(0)
    }

    fn allows(&self, slot: Slot) -> bool {
        let own = i64::from(self.spread.matches_self);
        self.topology.of(slot) != NOWHERE
            && self.pods_near(slot) + own - self.least <= self.spread.skew_max
    }

    /// Constraints with many places count more, as each holds fewer pods.
    fn weight(&self, counted: &[Slot]) -> f64 {
        let places = if &*self.spread.topology == HOSTNAME {
            counted.len()
        } else {
            let mut values: Vec<u32> = counted.iter().map(|slot| self.topology.of(*slot)).collect();
            values.sort_unstable();
            values.dedup();
            values.len()
        };
        (places as f64 + 2.0).ln()
    }
}

struct Hard<'a> {
    constraints: Vec<Domains<'a>>,
}

impl Filter for Hard<'_> {
    fn fits(&self, slot: Slot) -> bool {
        self.constraints.iter().all(|one| one.allows(slot))
    }

    fn why(&self, slot: Slot) -> Unfit {
        let broken = self.constraints.iter().find(|one| !one.allows(slot));
        match broken {
            Some(one) if one.topology.of(slot) == NOWHERE => Unfit::unresolvable(MISSING),
            _ => Unfit::resolvable(MISMATCH),
        }
    }
}

struct Soft<'a> {
    constraints: Vec<Domains<'a>>,
    weights: Vec<f64>,
}

/// The score of a node that lacks a label; it becomes the worst.
const IGNORED: i64 = -1;

impl Score for Soft<'_> {
    fn score(&self, slot: Slot) -> i64 {
        if self.constraints.iter().any(|one| one.topology.of(slot) == NOWHERE) {
            return IGNORED;
        }
        let mut sum = 0.0;
        for (one, weight) in self.constraints.iter().zip(&self.weights) {
            let pods = if &*one.spread.topology == HOSTNAME {
                one.pods_on(slot)
            } else {
                one.pods_near(slot)
            };
            sum += pods as f64 * weight + (one.spread.skew_max - 1) as f64;
        }
        sum.round() as i64
    }

    fn normalize(&self, _: &[Slot], scores: &mut [i64]) {
        let counted = scores.iter().copied().filter(|score| *score != IGNORED);
        let (least, most) = (counted.clone().min().unwrap_or(0), counted.max().unwrap_or(0));
        for score in scores {
            *score = match (*score, most) {
                (IGNORED, _) => 0,
                (_, 0) => SCORE_MAX,
                (own, most) => SCORE_MAX * (most + least - own) / most,
            };
        }
    }
}
