//! Deletes pods that do not tolerate a NoExecute taint of their node, or no longer; and says of
//! pods on a node that is not heard of that they are not ready.
//!
//! It runs as part of the node controller and under its identity.
//!
//! Upstream: pkg/controller/tainteviction/taint_eviction.go, pkg/controller/util/node

mod observe;
mod plan;

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::{Change, Context, Error, Kind, Object, Plan, Reconciler, Watches};

use crate::kinds::{NODE, POD};
use crate::pods;

pub use observe::{Observed, Taint};

#[derive(Default)]
pub struct Evictor {
    seen: observe::FirstSeen,
}

impl Reconciler for Evictor {
    type Observed = Observed;
    const NAME: &'static str = "taint-eviction-controller";
    const KIND: Kind = POD;

    fn concerns(pod: &Object) -> bool {
        !pods::node(pod).is_empty()
    }

    fn watches(&self, watches: &mut Watches) {
        let all_pods = watches.cache(POD);
        watches.by(NODE, move |change| {
            if !concerns_pods(change) {
                return Vec::new();
            }
            let node = &*change.object().name.name;
            let mut on_node = all_pods.all();
            on_node.retain(|pod| pods::node(pod) == node);
            on_node.iter().map(|pod| pod.name.clone()).collect()
        });
    }

    async fn observe(&self, context: &Context, object: &Arc<Object>) -> Result<Observed, Error> {
        Ok(observe::observe(context, &self.seen, object))
    }

    fn plan(&self, object: &Object, observed: &Observed, now: Timestamp) -> Result<Plan, Error> {
        Ok(plan::plan(object, observed, now))
    }
}

/// Whether a node has other taints that drive pods away, or is heard of again, or no longer.
fn concerns_pods(change: &Change) -> bool {
    let shown = |node: &Option<Arc<Object>>| {
        node.as_ref().map(|node| (observe::taints(node), observe::is_unheard(node)))
    };
    shown(&change.old) != shown(&change.new)
}

#[cfg(test)]
mod tests;
