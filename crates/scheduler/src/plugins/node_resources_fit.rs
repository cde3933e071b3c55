//! A node has room for what a pod asks for. Emptier nodes are liked better, except for packed
//! resources, where fuller ones are.

use std::borrow::Cow;

use crate::events::Events;
use crate::plugin::{Filter, Filtering, Plugin, SCORE_MAX, Scope, Score, Unfit, View};
use crate::resources::{CPU, MEMORY, PODS, ResourceId};
use crate::snapshot::Slot;

pub struct NodeResourcesFit;

impl Plugin for NodeResourcesFit {
    fn name(&self) -> &'static str {
        "NodeResourcesFit"
    }

    fn scope(&self) -> Scope {
        Scope::Load
    }

    fn woken_by(&self) -> Events {
        Events::POD_REMOVED | Events::NODE_RESOURCES
    }

    fn filter<'a>(&self, view: View<'a>) -> Filtering<'a> {
        let columns = &view.snapshot.columns;
        let needed = view.pod.template.needed.iter().copied();
        let needed = std::iter::once((PODS, 1)).chain(needed);
        let needed = needed.map(|(resource, amount)| {
            let (all, taken) = columns.column(resource);
            Need { resource, amount, all, taken }
        });
        let keeps_room = view.snapshot.has_nominations();
        Filtering::Check(Box::new(Fit { view, needed: needed.collect(), keeps_room }))
    }

    fn score<'a>(&self, view: View<'a>, _: &[Slot]) -> Option<Box<dyn Score + 'a>> {
        Some(match packed(&view) {
            Some((resource, amount)) => Box::new(Most { view, resource, amount }),
            None => Box::new(Least(view)),
        })
    }
}

/// The packed resource that a pod asks for, and how much.
pub fn packed(view: &View<'_>) -> Option<(ResourceId, i64)> {
    let needed = &view.pod.template.needed;
    let mut packed = view.profile.packed.iter();
    packed.find_map(|name| {
        let id = view.snapshot.catalogue.find(name)?;
        needed.iter().find(|(needed, _)| *needed == id).copied()
    })
}

struct Fit<'a> {
    view: View<'a>,
    needed: Vec<Need<'a>>,
    /// Whether room is kept for anybody.
    keeps_room: bool,
}

/// How much of a resource a pod needs, beside what every node has of it and has given.
struct Need<'a> {
    resource: ResourceId,
    amount: i64,
    all: &'a [i64],
    taken: &'a [i64],
}

impl Need<'_> {
    fn free(&self, slot: Slot) -> i64 {
        match (self.all.get(slot), self.taken.get(slot)) {
            (Some(all), Some(taken)) => all - taken,
            _ => 0,
        }
    }
}

impl Fit<'_> {
    /// What others have kept of a resource.
    fn kept(&self, resource: ResourceId, slot: Slot) -> i64 {
        if !self.keeps_room {
            return 0;
        }
        let kept = self.view.snapshot.ahead_of(self.view.pod, slot).map(|one| {
            let needed = one.template.needed.iter();
            let own: i64 = needed.filter(|(id, _)| *id == resource).map(|(_, it)| it).sum();
            own + i64::from(resource == PODS)
        });
        kept.sum()
    }

    fn is_lacking(&self, need: &Need<'_>, slot: Slot) -> bool {
        need.amount > need.free(slot) - self.kept(need.resource, slot)
    }
}

impl Filter for Fit<'_> {
    fn fits(&self, slot: Slot) -> bool {
        self.needed.iter().all(|need| !self.is_lacking(need, slot))
    }

    fn why(&self, slot: Slot) -> Unfit {
        let snapshot = self.view.snapshot;
        let mut unfit = Unfit { reasons: Vec::new(), is_resolvable: true };
        for need in self.needed.iter().filter(|need| self.is_lacking(need, slot)) {
            unfit.reasons.push(match need.resource {
                PODS => Cow::Borrowed("Too many pods"),
                resource => format!("Insufficient {}", snapshot.catalogue.name(resource)).into(),
            });
            // Not even an empty node would do.
            unfit.is_resolvable &= need.amount <= need.all.get(slot).copied().unwrap_or(0);
        }
        unfit
    }
}

/// The more is left, the better.
struct Least<'a>(View<'a>);

impl Score for Least<'_> {
    fn score(&self, slot: Slot) -> i64 {
        let columns = &self.0.snapshot.columns;
        let (mut sum, mut weights) = (0, 0);
        for (which, resource) in [CPU, MEMORY].into_iter().enumerate() {
            let all = columns.allocatable(resource, slot);
            if all == 0 {
                continue;
            }
            let taken = columns.compared(which, slot) + self.0.pod.template.compared[which];
            weights += 1;
            if taken <= all {
                sum += share(all - taken, all);
            }
        }
        sum / weights.max(1)
    }
}

/// The less is left of one resource, the better.
struct Most<'a> {
    view: View<'a>,
    resource: ResourceId,
    amount: i64,
}

impl Score for Most<'_> {
    fn score(&self, slot: Slot) -> i64 {
        let columns = &self.view.snapshot.columns;
        let all = columns.allocatable(self.resource, slot);
        let taken = columns.requested(self.resource, slot) + self.amount;
        if all == 0 || taken > all { 0 } else { share(taken, all) }
    }
}

fn share(part: i64, whole: i64) -> i64 {
    match part.checked_mul(SCORE_MAX) {
        Some(product) => product / whole,
        None => part / (whole / SCORE_MAX).max(1),
    }
}
