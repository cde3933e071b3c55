//! A port of a node is given once.

use crate::events::Events;
use crate::plugin::{Filter, Filtering, Plugin, Scope, Unfit, View};
use crate::pod::template::Port;
use crate::snapshot::Slot;

pub struct NodePorts;

impl Plugin for NodePorts {
    fn name(&self) -> &'static str {
        "NodePorts"
    }

    fn scope(&self) -> Scope {
        Scope::Load
    }

    fn woken_by(&self) -> Events {
        Events::POD_REMOVED
    }

    fn filter<'a>(&self, view: View<'a>) -> Filtering<'a> {
        if view.pod.template.ports.is_empty() {
            return Filtering::Skip;
        }
        Filtering::Check(Box::new(Check(view)))
    }
}

struct Check<'a>(View<'a>);

impl Filter for Check<'_> {
    fn fits(&self, slot: Slot) -> bool {
        let Some(node) = self.0.snapshot.node(slot) else { return false };
        let is_free =
            |port: &Port| !self.0.pod.template.ports.iter().any(|own| own.conflicts(port));
        let mut ahead = self.0.snapshot.ahead_of(self.0.pod, slot);
        node.ports.iter().all(is_free) && ahead.all(|one| one.template.ports.iter().all(is_free))
    }

    fn why(&self, _: Slot) -> Unfit {
        Unfit::resolvable("node(s) didn't have free ports for the requested pod ports")
    }
}
