//! Pods want others near or far, and what pods on nodes want holds for those that come.
//!
//! Upstream: pkg/scheduler/framework/plugins/interpodaffinity

use std::borrow::Cow;

use crate::events::Events;
use crate::plugin::{Filter, Filtering, Plugin, SCORE_MAX, Scope, Score, Unfit, View};
use crate::pod::affinity::Term;
use crate::snapshot::Slot;
use crate::snapshot::counts::{count, means};
use crate::snapshot::holders::Relation;
use crate::snapshot::topology::{NOWHERE, Topology};

const NOT_NEAR: &str = "node(s) didn't match pod affinity rules";
const NOT_FAR: &str = "node(s) didn't match pod anti-affinity rules";
const NOT_WANTED: &str = "node(s) didn't satisfy existing pods anti-affinity rules";
/// How much it counts that a pod on a node had to have such a pod near.
const NEAR_WEIGHT: i64 = 1;

pub struct InterPodAffinity;

impl Plugin for InterPodAffinity {
    fn name(&self) -> &'static str {
        "InterPodAffinity"
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn woken_by(&self) -> Events {
        Events::POD_ADDED | Events::POD_REMOVED | Events::NODE_LABELS | Events::NAMESPACES
    }

    fn concerns(&self, view: View<'_>) -> bool {
        let View { snapshot, pod, .. } = view;
        !pod.template.relations.has_no_terms()
            || snapshot.holders.meaning(pod, &snapshot.namespaces).next().is_some()
    }

    fn filter<'a>(&self, view: View<'a>) -> Filtering<'a> {
        let View { snapshot, pod, .. } = view;
        let relations = &pod.template.relations;
        let mut unwanted = Vec::new();
        for (relation, term, slots) in snapshot.holders.meaning(pod, &snapshot.namespaces) {
            if relation == Relation::Far {
                let held = slots.iter().map(|(slot, count)| (*slot, i64::from(*count)));
                unwanted.push(Places::new(view, term, held));
            }
        }
        if relations.near.is_empty() && relations.far.is_empty() && unwanted.is_empty() {
            return Filtering::Skip;
        }
        let near = near(view);
        let is_first = !near.is_empty()
            && near.iter().all(|places| places.sums.iter().all(|sum| *sum == 0))
            && relations.near.iter().all(|term| means(&term.matcher, pod, &snapshot.namespaces));
        let far = relations.far.iter().map(|term| Places::counted(view, term)).collect();
        Filtering::Check(Box::new(Check { near, is_first, far, unwanted }))
    }

    fn weight(&self) -> i64 {
        2
    }

    fn score<'a>(&self, view: View<'a>, _: &[Slot]) -> Option<Box<dyn Score + 'a>> {
        let View { snapshot, pod, .. } = view;
        let mut parts = Vec::new();
        for (weight, term) in &pod.template.relations.preferred {
            parts.push((*weight, Places::counted(view, term)));
        }
        for (relation, term, slots) in snapshot.holders.meaning(pod, &snapshot.namespaces) {
            let weight = match relation {
                Relation::Far => continue,
                Relation::Near => NEAR_WEIGHT,
                Relation::Likes(weight) => weight,
            };
            let held = slots.iter().map(|(slot, count)| (*slot, i64::from(*count)));
            parts.push((weight, Places::new(view, term, held)));
        }
        if parts.is_empty() { None } else { Some(Box::new(Likes(parts))) }
    }
}

/// How many pods are in each place, for one term.
struct Places<'a> {
    topology: Cow<'a, Topology>,
    sums: Vec<i64>,
}

impl<'a> Places<'a> {
    fn new(view: View<'a>, term: &Term, pods: impl Iterator<Item = (Slot, i64)>) -> Places<'a> {
        let topology = view.snapshot.topologies.of(&term.topology, &view.snapshot.nodes);
        let mut sums = vec![0; topology.bound()];
        for (slot, count) in pods {
            let value = topology.of(slot);
            if value != NOWHERE {
                sums[value as usize] += count;
            }
        }
        Places { topology, sums }
    }

    /// The pods that a term means.
    fn counted(view: View<'a>, term: &Term) -> Places<'a> {
        let snapshot = view.snapshot;
        let counts = match snapshot.counts.of(&term.matcher) {
            Some(counts) => Cow::Borrowed(counts),
            None => Cow::Owned(count(&term.matcher, &snapshot.nodes, &snapshot.namespaces)),
        };
        let pods = counts.iter().enumerate().map(|(slot, count)| (slot, i64::from(*count)));
        Places::new(view, term, pods)
    }

    fn near(&self, slot: Slot) -> i64 {
        match self.topology.of(slot) {
            NOWHERE => 0,
            value => self.sums[value as usize],
        }
    }
}

/// Where the pods are that the pod must be near to. With several terms only a pod that all of them
/// mean counts.
fn near<'a>(view: View<'a>) -> Vec<Places<'a>> {
    let View { snapshot, pod, .. } = view;
    let terms = &pod.template.relations.near;
    if let [term] = terms.as_slice() {
        return vec![Places::counted(view, term)];
    }
    let is_meant = |other: &crate::pod::PodInfo| {
        terms.iter().all(|term| means(&term.matcher, other, &snapshot.namespaces))
    };
    let counts: Vec<(Slot, i64)> = match terms.is_empty() {
        true => Vec::new(),
        false => snapshot
            .live()
            .map(|(slot, node)| {
                let count = node.pods.iter().filter(|other| is_meant(other)).count();
                (slot, i64::try_from(count).unwrap_or(i64::MAX))
            })
            .collect(),
    };
    terms.iter().map(|term| Places::new(view, term, counts.iter().copied())).collect()
}

struct Check<'a> {
    near: Vec<Places<'a>>,
    /// Whether it is the first of pods that want each other near: it may be alone.
    is_first: bool,
    far: Vec<Places<'a>>,
    unwanted: Vec<Places<'a>>,
}

impl Check<'_> {
    fn is_near(&self, slot: Slot) -> bool {
        self.near.iter().all(|places| {
            places.topology.of(slot) != NOWHERE && (self.is_first || places.near(slot) > 0)
        })
    }

    fn is_far(&self, slot: Slot) -> bool {
        self.far.iter().all(|places| places.near(slot) == 0)
    }
}

impl Filter for Check<'_> {
    fn fits(&self, slot: Slot) -> bool {
        self.is_near(slot)
            && self.is_far(slot)
            && self.unwanted.iter().all(|places| places.near(slot) == 0)
    }

    fn why(&self, slot: Slot) -> Unfit {
        if !self.is_near(slot) {
            Unfit::unresolvable(NOT_NEAR)
        } else if !self.is_far(slot) {
            Unfit::resolvable(NOT_FAR)
        } else {
            Unfit::resolvable(NOT_WANTED)
        }
    }
}

struct Likes<'a>(Vec<(i64, Places<'a>)>);

impl Score for Likes<'_> {
    fn score(&self, slot: Slot) -> i64 {
        self.0.iter().map(|(weight, places)| weight * places.near(slot)).sum()
    }

    fn normalize(&self, _: &[Slot], scores: &mut [i64]) {
        let least = scores.iter().copied().min().unwrap_or(0);
        let most = scores.iter().copied().max().unwrap_or(0);
        let range = most - least;
        for score in scores {
            *score = if range == 0 { 0 } else { SCORE_MAX * (*score - least) / range };
        }
    }
}
