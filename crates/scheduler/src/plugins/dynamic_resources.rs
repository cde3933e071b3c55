//! Pods that claim devices wait: no component of this cluster allocates them.
//!
//! Upstream: pkg/scheduler/framework/plugins/dynamicresources

use crate::events::Events;
use crate::plugin::{Filter, Filtering, Plugin, Scope, Unfit, View};
use crate::snapshot::Slot;

pub struct DynamicResources;

impl Plugin for DynamicResources {
    fn name(&self) -> &'static str {
        "DynamicResources"
    }

    fn scope(&self) -> Scope {
        Scope::Node
    }

    fn woken_by(&self) -> Events {
        Events::NONE
    }

    fn filter<'a>(&self, view: View<'a>) -> Filtering<'a> {
        match view.pod.template.has_resource_claims {
            true => Filtering::Check(Box::new(Refuse)),
            false => Filtering::Skip,
        }
    }
}

struct Refuse;

impl Filter for Refuse {
    fn fits(&self, _: Slot) -> bool {
        false
    }

    fn why(&self, _: Slot) -> Unfit {
        Unfit::unresolvable(
            "node(s) cannot allocate the devices of resource claims (spec.resourceClaims)",
        )
    }
}
