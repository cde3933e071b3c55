//! What a plugin is: it may refuse nodes for a pod, and it may like some better than others.

use std::borrow::Cow;
use std::sync::Arc;

use crate::events::Events;
use crate::pod::PodInfo;
use crate::profile::Profile;
use crate::snapshot::{Slot, Snapshot};

/// The best a plugin can say of a node.
pub const SCORE_MAX: i64 = 100;

/// What a decision is made from.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub snapshot: &'a Snapshot,
    pub pod: &'a PodInfo,
    pub profile: &'a Profile,
}

/// What the answer of a plugin for a node depends on, beside the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The node as it was registered.
    Node,
    /// The node and what runs on it.
    Load,
    /// Other nodes too.
    Cluster,
}

/// One rule of where pods may run and where they run best.
pub trait Plugin: Sync {
    fn name(&self) -> &'static str;

    fn scope(&self) -> Scope;

    /// What can make a node fit that this plugin refused. A new node always can.
    fn woken_by(&self) -> Events {
        Events::NONE
    }

    /// Whether it has anything to say about a pod. Asked often, so it is to be cheap.
    fn concerns(&self, view: View<'_>) -> bool {
        !matches!(self.filter(view), Filtering::Skip) || self.score(view, &[]).is_some()
    }

    /// The only nodes that come into question, if the pod names them.
    fn narrows(&self, _view: &View<'_>) -> Option<Vec<Arc<str>>> {
        None
    }

    fn filter<'a>(&self, _view: View<'a>) -> Filtering<'a> {
        Filtering::Skip
    }

    /// How much its score counts.
    fn weight(&self) -> i64 {
        1
    }

    /// Scores among nodes that fit; `None` if they are all the same to it.
    fn score<'a>(&self, _view: View<'a>, _feasible: &[Slot]) -> Option<Box<dyn Score + 'a>> {
        None
    }
}

/// What a plugin has to say about a pod before it looks at nodes.
pub enum Filtering<'a> {
    Skip,
    /// No node fits.
    Refuse(Unfit),
    Check(Box<dyn Filter + 'a>),
}

pub trait Filter {
    fn fits(&self, slot: Slot) -> bool;

    /// Leaves the nodes that fit: one call for all of them, so that each rule has its own loop.
    fn keep(&self, slots: &mut Vec<Slot>) {
        slots.retain(|slot| self.fits(*slot));
    }

    /// Why a node does not fit; asked only about those that do not.
    fn why(&self, slot: Slot) -> Unfit;
}

pub trait Score {
    /// Any number, if `normalize` brings it to 0..=100; else one of those.
    fn score(&self, slot: Slot) -> i64;

    /// Adds the weighted scores of nodes to their sums.
    fn add(&self, slots: &[Slot], weight: i64, sums: &mut [i64]) {
        for (slot, sum) in slots.iter().zip(sums) {
            *sum += weight * self.score(*slot);
        }
    }

    fn normalize(&self, _feasible: &[Slot], _scores: &mut [i64]) {}
}

/// Why a node does not fit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unfit {
    pub reasons: Vec<Cow<'static, str>>,
    /// Whether other pods going could help.
    pub is_resolvable: bool,
}

impl Unfit {
    pub fn resolvable(reason: impl Into<Cow<'static, str>>) -> Unfit {
        Unfit { reasons: vec![reason.into()], is_resolvable: true }
    }

    pub fn unresolvable(reason: impl Into<Cow<'static, str>>) -> Unfit {
        Unfit { reasons: vec![reason.into()], is_resolvable: false }
    }
}

/// The best gets 100, the others in proportion; reversed, the best gets 0.
pub fn normalize(scores: &mut [i64], is_reversed: bool) {
    let best = scores.iter().copied().max().unwrap_or(0);
    for score in scores {
        let share = if best == 0 { 0 } else { SCORE_MAX * *score / best };
        *score = if is_reversed { SCORE_MAX - share } else { share };
    }
}
