//! Nodes whose cpu and memory are taken in equal shares are liked better.

use crate::plugin::{Plugin, SCORE_MAX, Scope, Score, View};
use crate::plugins::node_resources_fit::packed;
use crate::resources::{CPU, MEMORY};
use crate::snapshot::Slot;

pub struct NodeResourcesBalancedAllocation;

impl Plugin for NodeResourcesBalancedAllocation {
    fn name(&self) -> &'static str {
        "NodeResourcesBalancedAllocation"
    }

    fn scope(&self) -> Scope {
        Scope::Load
    }

    fn score<'a>(&self, view: View<'a>, _: &[Slot]) -> Option<Box<dyn Score + 'a>> {
        // A packed pod goes where it packs best, whatever the rest looks like.
        if view.pod.template.is_best_effort() || packed(&view).is_some() {
            return None;
        }
        let shares = [CPU, MEMORY].map(|resource| {
            let needed = view.pod.template.needed.iter();
            let own = needed.filter(|(id, _)| *id == resource).map(|(_, amount)| amount).sum();
            let (all, taken) = view.snapshot.columns.column(resource);
            Share { own, all, taken }
        });
        Some(Box::new(Balance { shares }))
    }
}

/// How much of a resource would be taken.
struct Share<'a> {
    own: i64,
    all: &'a [i64],
    taken: &'a [i64],
}

struct Balance<'a> {
    shares: [Share<'a>; 2],
}

impl Share<'_> {
    fn of(&self, slot: Slot) -> Option<f64> {
        let (all, taken) = (*self.all.get(slot)?, *self.taken.get(slot)?);
        (all > 0).then(|| ((taken + self.own) as f64 / all as f64).min(1.0))
    }
}

impl Score for Balance<'_> {
    fn score(&self, slot: Slot) -> i64 {
        let [cpu, memory] = &self.shares;
        let deviation = match (cpu.of(slot), memory.of(slot)) {
            (Some(cpu), Some(memory)) => (cpu - memory).abs() / 2.0,
            _ => 0.0,
        };
        ((1.0 - deviation) * SCORE_MAX as f64) as i64
    }
}
