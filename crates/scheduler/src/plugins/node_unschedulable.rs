//! Cordoned nodes take no pods but those that tolerate it.

use crate::events::Events;
use crate::plugin::{Filter, Filtering, Plugin, Scope, Unfit, View};
use crate::pod::template::Taint;
use crate::snapshot::Slot;

const TAINT: &str = "node.kubernetes.io/unschedulable";

pub struct NodeUnschedulable;

impl Plugin for NodeUnschedulable {
    fn name(&self) -> &'static str {
        "NodeUnschedulable"
    }

    fn scope(&self) -> Scope {
        Scope::Node
    }

    fn woken_by(&self) -> Events {
        Events::NODE_TAINTS
    }

    fn filter<'a>(&self, view: View<'a>) -> Filtering<'a> {
        let cordoned = Taint { key: TAINT.into(), value: "".into(), effect: "NoSchedule".into() };
        if view.snapshot.is_all_open() || view.pod.template.tolerates(&cordoned) {
            return Filtering::Skip;
        }
        Filtering::Check(Box::new(Check(view)))
    }
}

struct Check<'a>(View<'a>);

impl Filter for Check<'_> {
    fn fits(&self, slot: Slot) -> bool {
        self.0.snapshot.is_open(slot)
            || self.0.snapshot.node(slot).is_some_and(|node| !node.is_unschedulable)
    }

    fn why(&self, _: Slot) -> Unfit {
        Unfit::unresolvable("node(s) were unschedulable")
    }
}
