//! Where the pods are that want others near or far: what they say holds for pods that come later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::labels::Labels;
use crate::pod::PodInfo;
use crate::pod::affinity::Term;
use crate::snapshot::Slot;

/// What a pod on a node says about others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Relation {
    /// Must have been near when it came; others are liked near.
    Near,
    /// Must not have them near.
    Far,
    /// Likes them near, or far if the weight is negative.
    Likes(i64),
}

/// Distinct terms, and how many pods on each node hold each.
#[derive(Clone, Debug, Default)]
pub struct Holders {
    terms: BTreeMap<(Relation, Term), BTreeMap<Slot, u32>>,
}

impl Holders {
    pub fn add(&mut self, slot: Slot, pod: &PodInfo) {
        for key in held(pod) {
            *self.terms.entry(key).or_default().entry(slot).or_default() += 1;
        }
    }

    pub fn remove(&mut self, slot: Slot, pod: &PodInfo) {
        for key in held(pod) {
            let Some(slots) = self.terms.get_mut(&key) else { continue };
            if let Some(count) = slots.get_mut(&slot) {
                *count -= 1;
                if *count == 0 {
                    slots.remove(&slot);
                }
            }
            if slots.is_empty() {
                self.terms.remove(&key);
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The terms that mean a pod, with where their holders are.
    pub fn meaning<'a>(
        &'a self,
        pod: &'a PodInfo,
        namespaces: &'a BTreeMap<Arc<str>, Labels>,
    ) -> impl Iterator<Item = (Relation, &'a Term, &'a BTreeMap<Slot, u32>)> + 'a {
        self.terms.iter().filter_map(move |((relation, term), slots)| {
            let namespace = &pod.name().namespace;
            let labels_of = |name: &str| namespaces.get(name);
            let is_meant = term.matcher.matches(namespace, &pod.labels, labels_of);
            is_meant.then_some((*relation, term, slots))
        })
    }

    pub fn topologies_for(
        &self,
        pod: &PodInfo,
        namespaces: &BTreeMap<Arc<str>, Labels>,
    ) -> BTreeSet<Arc<str>> {
        self.meaning(pod, namespaces).map(|(_, term, _)| term.topology.clone()).collect()
    }
}

fn held(pod: &PodInfo) -> impl Iterator<Item = (Relation, Term)> + '_ {
    let relations = &pod.template.relations;
    let near = relations.near.iter().map(|term| (Relation::Near, term.clone()));
    let far = relations.far.iter().map(|term| (Relation::Far, term.clone()));
    let liked = relations.preferred.iter();
    near.chain(far).chain(liked.map(|(weight, term)| (Relation::Likes(*weight), term.clone())))
}
