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
        Filtering::Check(Box::new(Fit(view)))
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

struct Fit<'a>(View<'a>);

impl Fit<'_> {
    /// What is left of a resource, without the room that is kept for others.
    fn free(&self, resource: ResourceId, slot: Slot) -> i64 {
        let snapshot = self.0.snapshot;
        let free = snapshot.columns.free(resource, slot);
        let kept = snapshot.ahead_of(self.0.pod, slot).map(|one| {
            let needed = one.template.needed.iter();
            let own: i64 = needed.filter(|(id, _)| *id == resource).map(|(_, it)| it).sum();
            own + i64::from(resource == PODS)
        });
        free - kept.sum::<i64>()
    }

    fn lacking(&self, slot: Slot) -> impl Iterator<Item = (ResourceId, i64)> + '_ {
        let needed = self.0.pod.template.needed.iter().copied();
        let needed = std::iter::once((PODS, 1)).chain(needed);
        needed.filter(move |(resource, amount)| *amount > self.free(*resource, slot))
    }
}

impl Filter for Fit<'_> {
    fn fits(&self, slot: Slot) -> bool {
        self.lacking(slot).next().is_none()
    }

    fn why(&self, slot: Slot) -> Unfit {
        let snapshot = self.0.snapshot;
        let mut unfit = Unfit { reasons: Vec::new(), is_resolvable: true };
        for (resource, amount) in self.lacking(slot) {
            unfit.reasons.push(match resource {
                PODS => Cow::Borrowed("Too many pods"),
                _ => format!("Insufficient {}", snapshot.catalogue.name(resource)).into(),
            });
            // Not even an empty node would do.
            unfit.is_resolvable &= amount <= snapshot.columns.allocatable(resource, slot);
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
    let share = i128::from(part) * i128::from(SCORE_MAX) / i128::from(whole);
    i64::try_from(share).unwrap_or(SCORE_MAX)
}
