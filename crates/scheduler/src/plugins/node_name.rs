//! A pod that names its node goes nowhere else.

use crate::plugin::{Filter, Filtering, Plugin, Scope, Unfit, View};
use crate::snapshot::Slot;

pub struct NodeName;

impl Plugin for NodeName {
    fn name(&self) -> &'static str {
        "NodeName"
    }

    fn scope(&self) -> Scope {
        Scope::Node
    }

    fn filter<'a>(&self, view: View<'a>) -> Filtering<'a> {
        if view.pod.node.is_empty() {
            return Filtering::Skip;
        }
        Filtering::Check(Box::new(Check(view)))
    }
}

struct Check<'a>(View<'a>);

impl Filter for Check<'_> {
    fn fits(&self, slot: Slot) -> bool {
        let node = self.0.snapshot.node(slot);
        node.is_some_and(|node| self.0.pod.node == node.name)
    }

    fn why(&self, _: Slot) -> Unfit {
        Unfit::unresolvable("node(s) didn't match the requested node name")
    }
}
