//! Decisions about pods that are alike. For each class of pods a tree holds the score of every node
//! where they fit; a node that changed costs the height of the tree, a decision its top.
//!
//! It gives what [`schedule`](crate::cycle::schedule) gives, for pods that nothing but the nodes'
//! own state concerns; for others it says that it cannot.

use std::sync::Arc;

use crate::cycle;
use crate::plugin::{Filter, Filtering, Scope, Score, View};
use crate::pod::PodInfo;
use crate::pod::template::Template;
use crate::profile::{Policy, Profile};
use crate::snapshot::{Map, Slot, Snapshot};
use crate::verdict::{Diagnosis, Verdict};

/// Classes whose trees are kept. The longest unused goes first.
const CLASSES_MAX: usize = 64;
/// The score of a node where a pod does not fit.
const UNFIT: i64 = -1;

#[derive(Default)]
pub struct Classes {
    classes: Map<Key, Class>,
    uses: u64,
    /// Refusals are reused until this changes.
    round: u64,
}

/// The address of the template, which the class keeps alive, and what else decides.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    template: usize,
    profile: usize,
    priority: i32,
}

struct Class {
    _template: Arc<Template>,
    /// Up to which change of the snapshot it was kept.
    position: u64,
    epoch: u64,
    /// Nodes that fit as far as the nodes themselves are concerned.
    fits: Vec<bool>,
    tree: Tree,
    used: u64,
    refusal: Option<(u64, Arc<Diagnosis>)>,
}

impl Classes {
    /// Refusals of before are not reused from here on.
    pub fn begin_round(&mut self) {
        self.round += 1;
    }

    /// Where a pod goes.
    pub fn schedule(&mut self, snapshot: &Snapshot, pod: &PodInfo, profile: &Profile) -> Verdict {
        let view = View { snapshot, pod, profile };
        if !is_simple(view) {
            return cycle::schedule(snapshot, pod, profile);
        }
        self.uses += 1;
        let key = Key {
            template: Arc::as_ptr(&pod.template) as usize,
            profile: std::ptr::from_ref(profile) as usize,
            priority: pod.priority,
        };
        if !self.classes.contains_key(&key) {
            self.make_room();
            self.classes.insert(key, Class::new(view));
        }
        let class = self.classes.get_mut(&key).expect("a class must be there once made");
        class.used = self.uses;
        class.catch_up(view);
        if let Some(slot) = class.tree.best() {
            return Verdict::Place(slot);
        }
        if let Some((round, refusal)) = &class.refusal
            && *round == self.round
        {
            return Verdict::Refuse(refusal.clone());
        }
        let verdict = cycle::schedule(snapshot, pod, profile);
        if let Verdict::Refuse(refusal) = &verdict {
            class.refusal = Some((self.round, refusal.clone()));
        }
        verdict
    }

    fn make_room(&mut self) {
        if self.classes.len() < CLASSES_MAX {
            return;
        }
        let oldest = self.classes.iter().min_by_key(|(_, class)| class.used);
        if let Some(key) = oldest.map(|(key, _)| *key) {
            self.classes.remove(&key);
        }
    }
}

/// Whether every node can be judged by itself.
fn is_simple(view: View<'_>) -> bool {
    let View { snapshot, pod, profile } = view;
    if profile.policy != Policy::BestScore
        || snapshot.node_count() == 0
        || snapshot.nomination_of(&pod.uid).is_some()
    {
        return false;
    }
    profile.plugins().iter().all(|plugin| match plugin.scope() {
        Scope::Cluster => !plugin.concerns(view),
        // Scores that only the nodes decide are compared with each other.
        Scope::Node => plugin.score(view, &[]).is_none() && plugin.narrows(&view).is_none(),
        Scope::Load => true,
    })
}

impl Class {
    fn new(view: View<'_>) -> Class {
        let mut class = Class {
            _template: view.pod.template.clone(),
            position: 0,
            epoch: 0,
            fits: Vec::new(),
            tree: Tree::default(),
            used: 0,
            refusal: None,
        };
        class.rebuild(view);
        class
    }

    fn rebuild(&mut self, view: View<'_>) {
        let judge = Judge::new(view);
        let mut slots = view.snapshot.live_slots();
        judge.of_node.iter().for_each(|filter| filter.keep(&mut slots));
        self.fits = vec![false; view.snapshot.nodes.len()];
        slots.iter().for_each(|slot| self.fits[*slot] = true);
        judge.of_load.iter().for_each(|filter| filter.keep(&mut slots));
        let mut sums = vec![0; slots.len()];
        judge.scores.iter().for_each(|(weight, score)| score.add(&slots, *weight, &mut sums));
        let mut leaves = vec![UNFIT; view.snapshot.nodes.len()];
        slots.iter().zip(sums).for_each(|(slot, sum)| leaves[*slot] = sum);
        self.tree = Tree::new(leaves);
        self.position = view.snapshot.changes.position();
        self.epoch = view.snapshot.epoch;
    }

    /// Judges again what changed.
    fn catch_up(&mut self, view: View<'_>) {
        let snapshot = view.snapshot;
        let position = snapshot.changes.position();
        if self.position == position && self.epoch == snapshot.epoch {
            return;
        }
        let behind = usize::try_from(position - self.position).unwrap_or(usize::MAX);
        let changed = snapshot.changes.since(self.position);
        let (Some(changed), false) = (changed, behind > snapshot.nodes.len()) else {
            return self.rebuild(view);
        };
        if self.epoch != snapshot.epoch || self.fits.len() != snapshot.nodes.len() {
            return self.rebuild(view);
        }
        let judge = Judge::new(view);
        for slot in changed {
            if snapshot.changes.is_node_newer(slot, self.position) {
                self.fits[slot] = judge.node_fits(slot);
            }
            self.tree.set(slot, judge.score(slot, self.fits[slot]));
        }
        self.position = position;
    }
}

/// Judges nodes for the pods of a class.
struct Judge<'a> {
    view: View<'a>,
    of_node: Vec<Box<dyn Filter + 'a>>,
    of_load: Vec<Box<dyn Filter + 'a>>,
    scores: Vec<(i64, Box<dyn Score + 'a>)>,
}

impl<'a> Judge<'a> {
    fn new(view: View<'a>) -> Judge<'a> {
        let mut judge =
            Judge { view, of_node: Vec::new(), of_load: Vec::new(), scores: Vec::new() };
        for plugin in view.profile.plugins() {
            let filters = match plugin.scope() {
                Scope::Node => &mut judge.of_node,
                Scope::Load => &mut judge.of_load,
                Scope::Cluster => continue,
            };
            if let Filtering::Check(filter) = plugin.filter(view) {
                filters.push(filter);
            }
            if let Some(score) = plugin.score(view, &[]) {
                judge.scores.push((plugin.weight(), score));
            }
        }
        judge
    }

    fn node_fits(&self, slot: Slot) -> bool {
        self.view.snapshot.node(slot).is_some()
            && self.of_node.iter().all(|filter| filter.fits(slot))
    }

    fn score(&self, slot: Slot, fits: bool) -> i64 {
        if !fits || !self.of_load.iter().all(|filter| filter.fits(slot)) {
            return UNFIT;
        }
        self.scores.iter().map(|(weight, score)| weight * score.score(slot)).sum()
    }
}

/// A binary tree over the slots in which every node holds the greater of its children.
#[derive(Default)]
struct Tree {
    /// The top is at 1, the children of n at 2n and 2n + 1, the leaves in the second half.
    values: Vec<i64>,
}

impl Tree {
    fn new(leaves: Vec<i64>) -> Tree {
        let width = leaves.len().next_power_of_two().max(1);
        let mut values = vec![UNFIT; width];
        values.extend(leaves);
        values.resize(2 * width, UNFIT);
        for at in (1..width).rev() {
            values[at] = values[2 * at].max(values[2 * at + 1]);
        }
        Tree { values }
    }

    fn set(&mut self, slot: Slot, value: i64) {
        let mut at = self.values.len() / 2 + slot;
        self.values[at] = value;
        while at > 1 {
            at /= 2;
            let greater = self.values[2 * at].max(self.values[2 * at + 1]);
            if self.values[at] == greater {
                break;
            }
            self.values[at] = greater;
        }
    }

    /// The slot with the greatest value; the first of equal ones.
    fn best(&self) -> Option<Slot> {
        let best = *self.values.get(1)?;
        if best == UNFIT {
            return None;
        }
        let width = self.values.len() / 2;
        let mut at = 1;
        while at < width {
            at = if self.values[2 * at] == best { 2 * at } else { 2 * at + 1 };
        }
        Some(at - width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_of_a_tree_is_the_first_of_the_best() {
        let mut tree = Tree::new(vec![1, 5, 5, 2, UNFIT]);
        assert_eq!(tree.best(), Some(1));
        tree.set(1, 0);
        assert_eq!(tree.best(), Some(2));
        tree.set(4, 9);
        assert_eq!(tree.best(), Some(4));
        for slot in 0..5 {
            tree.set(slot, UNFIT);
        }
        assert_eq!(tree.best(), None);
    }
}
