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
            None => Box::new(Least::new(view)),
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

    fn keep(&self, slots: &mut Vec<Slot>) {
        if self.keeps_room {
            return slots.retain(|slot| self.fits(*slot));
        }
        for need in &self.needed {
            slots.retain(|slot| need.amount <= need.free(*slot));
        }
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
struct Least<'a> {
    parts: [Part<'a>; 2],
}

/// Cpu or memory, as it is compared.
struct Part<'a> {
    own: i64,
    all: &'a [i64],
    taken: &'a [i64],
}

impl<'a> Least<'a> {
    fn new(view: View<'a>) -> Least<'a> {
        let columns = &view.snapshot.columns;
        let part = |which: usize, resource| Part {
            own: view.pod.template.compared[which],
            all: columns.column(resource).0,
            taken: columns.compared_column(which),
        };
        Least { parts: [part(0, CPU), part(1, MEMORY)] }
    }
}

impl Score for Least<'_> {
    fn score(&self, slot: Slot) -> i64 {
        let (mut sum, mut weights) = (0, 0);
        for part in &self.parts {
            let (Some(all), Some(taken)) = (part.all.get(slot), part.taken.get(slot)) else {
                continue;
            };
            if *all == 0 {
                continue;
            }
            weights += 1;
            sum += share((all - taken - part.own).max(0), *all);
        }
        // There are two at most.
        if weights == 2 { sum / 2 } else { sum }
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

/// How many hundredths a part is, rounded down.
fn share(part: i64, whole: i64) -> i64 {
    // Below this, dividing in floating point gives the same and is several times faster: no
    // quotient that is not whole comes near enough to a whole number to be rounded to it.
    const EXACT_MAX: i64 = 1 << 45;
    match part.checked_mul(SCORE_MAX) {
        Some(product) if whole < EXACT_MAX && product < EXACT_MAX * SCORE_MAX => {
            (product as f64 / whole as f64) as i64
        }
        Some(product) => product / whole,
        None => part / (whole / SCORE_MAX).max(1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::share;

    proptest! {
        #[test]
        fn a_share_is_what_whole_numbers_give(whole in 1..1i64 << 50, part in 0..1i64 << 50) {
            let part = part % (whole + 1);
            let exact = i128::from(part) * 100 / i128::from(whole);
            prop_assert_eq!(i128::from(share(part, whole)), exact);
        }

        #[test]
        fn also_where_it_is_whole(unit in 1..1i64 << 38, hundredths in 0..101i64) {
            prop_assert_eq!(share(unit * hundredths, unit * 100), hundredths);
        }
    }
}
