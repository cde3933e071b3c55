//! Where the pods are that want others near or far: what they say holds for pods that come later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::labels::{Labels, Operator};
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
    terms: BTreeMap<Key, BTreeMap<Slot, u32>>,
    /// Terms that mean only pods with a certain label, by that label; the others under `None`.
    by_label: BTreeMap<Option<Label>, BTreeSet<Key>>,
}

type Key = (Relation, Arc<Term>);
type Label = (Arc<str>, Arc<str>);

impl Holders {
    pub fn add(&mut self, slot: Slot, pod: &PodInfo) {
        for key in held(pod) {
            let slots = match self.terms.get_mut(&key) {
                Some(slots) => slots,
                None => {
                    self.by_label.entry(label(&key.1)).or_default().insert(key.clone());
                    self.terms.entry(key).or_default()
                }
            };
            *slots.entry(slot).or_default() += 1;
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
                let label = label(&key.1);
                if let Some(keys) = self.by_label.get_mut(&label) {
                    keys.remove(&key);
                    if keys.is_empty() {
                        self.by_label.remove(&label);
                    }
                }
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
        let labels = pod.labels.iter().map(|(key, value)| Some((key.clone(), value.clone())));
        let labels = labels.chain([None]).filter(|_| !self.terms.is_empty());
        let keys = labels.filter_map(|label| self.by_label.get(&label)).flatten();
        keys.filter_map(move |key| {
            let (relation, term) = key;
            let namespace = &pod.name().namespace;
            let labels_of = |name: &str| namespaces.get(name);
            let is_meant = term.matcher.matches(namespace, &pod.labels, labels_of);
            is_meant.then_some((*relation, &**term, self.terms.get(key)?))
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

/// A label that every pod has that the term means.
fn label(term: &Term) -> Option<Label> {
    term.matcher.selector.requirements.iter().find_map(|one| match &one.operator {
        Operator::In(values) if values.len() == 1 => Some((one.key.clone(), values[0].clone())),
        _ => None,
    })
}

fn held(pod: &PodInfo) -> impl Iterator<Item = Key> + '_ {
    let relations = &pod.template.relations;
    let near = relations.near.iter().map(|term| (Relation::Near, term));
    let far = relations.far.iter().map(|term| (Relation::Far, term));
    let liked = relations.preferred.iter();
    let liked = liked.map(|(weight, term)| (Relation::Likes(*weight), term));
    near.chain(far).chain(liked).map(|(relation, term)| (relation, Arc::new(term.clone())))
}
