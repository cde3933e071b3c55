//! Nodes whose cpu and memory are taken in equal shares are liked better.

use crate::plugin::{Plugin, SCORE_MAX, Scope, Score, View};
use crate::plugins::node_resources_fit::packed;
use crate::resources::{CPU, MEMORY, ResourceId};
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
        Some(Box::new(Balance(view)))
    }
}

struct Balance<'a>(View<'a>);

impl Balance<'_> {
    fn share(&self, resource: ResourceId, slot: Slot) -> Option<f64> {
        let columns = &self.0.snapshot.columns;
        let all = columns.allocatable(resource, slot);
        let needed = self.0.pod.template.needed.iter();
        let own: i64 = needed.filter(|(id, _)| *id == resource).map(|(_, it)| it).sum();
        let taken = columns.requested(resource, slot) + own;
        (all > 0).then(|| (taken as f64 / all as f64).min(1.0))
    }
}

impl Score for Balance<'_> {
    fn score(&self, slot: Slot) -> i64 {
        let deviation = match (self.share(CPU, slot), self.share(MEMORY, slot)) {
            (Some(cpu), Some(memory)) => (cpu - memory).abs() / 2.0,
            _ => 0.0,
        };
        ((1.0 - deviation) * SCORE_MAX as f64) as i64
    }
}
