//! Node selectors and node affinity.

use std::sync::Arc;

use crate::events::Events;
use crate::plugin::{Filter, Filtering, Plugin, Scope, Score, Unfit, View, normalize};
use crate::snapshot::Slot;

pub struct NodeAffinity;

impl Plugin for NodeAffinity {
    fn name(&self) -> &'static str {
        "NodeAffinity"
    }

    fn scope(&self) -> Scope {
        Scope::Node
    }

    fn woken_by(&self) -> Events {
        Events::NODE_LABELS
    }

    /// If every alternative names nodes, only those come into question.
    fn narrows(&self, view: &View<'_>) -> Option<Vec<Arc<str>>> {
        let terms = view.pod.template.node_terms.as_ref()?;
        let mut names = Vec::new();
        for term in terms {
            names.extend_from_slice(term.names()?);
        }
        Some(names)
    }

    fn filter<'a>(&self, view: View<'a>) -> Filtering<'a> {
        if view.pod.template.selects_every_node() {
            return Filtering::Skip;
        }
        Filtering::Check(Box::new(Check(view)))
    }

    fn weight(&self) -> i64 {
        2
    }

    fn score<'a>(&self, view: View<'a>, _: &[Slot]) -> Option<Box<dyn Score + 'a>> {
        if view.pod.template.node_preferences.is_empty() {
            return None;
        }
        Some(Box::new(Check(view)))
    }
}

struct Check<'a>(View<'a>);

/// Whether the pod's selector and affinity allow a node.
pub fn selects(view: View<'_>, slot: Slot) -> bool {
    let node = view.snapshot.node(slot);
    node.is_some_and(|node| view.pod.template.selects(&node.name, &node.labels))
}

impl Filter for Check<'_> {
    fn fits(&self, slot: Slot) -> bool {
        selects(self.0, slot)
    }

    fn why(&self, _: Slot) -> Unfit {
        Unfit::unresolvable("node(s) didn't match Pod's node affinity/selector")
    }
}

impl Score for Check<'_> {
    fn score(&self, slot: Slot) -> i64 {
        let Some(node) = self.0.snapshot.node(slot) else { return 0 };
        let preferences = &self.0.pod.template.node_preferences;
        let met = preferences.iter().filter(|(_, term)| term.matches(&node.name, &node.labels));
        met.map(|(weight, _)| weight).sum()
    }

    fn normalize(&self, _: &[Slot], scores: &mut [i64]) {
        normalize(scores, false);
    }
}
