//! Keeps EndpointSlices of every service that selects pods: where its pods can be reached.
//!
//! Upstream: staging/endpointslice/reconciler.go, pkg/controller/endpointslice

mod distribute;
mod observe;
mod plan;

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::{Change, Context, Error, Kind, Name, Object, Plan, Reconciler, Watches};

use crate::kinds::{ENDPOINT_SLICE, NODE, POD, SERVICE};
use crate::{pods, service_pods};

pub use observe::Observed;

pub struct Controller;

impl Reconciler for Controller {
    type Observed = Observed;
    const NAME: &'static str = "endpointslice-controller";
    const KIND: Kind = SERVICE;

    fn watches(&self, watches: &mut Watches) {
        watches.owned(ENDPOINT_SLICE, SERVICE);
        let services = watches.cache(SERVICE);
        watches.by(POD, move |change| service_pods::services_of(&services, change));
        let (services, all_pods) = (watches.cache(SERVICE), watches.cache(POD));
        watches.by(NODE, move |change| {
            if !is_moved(change) {
                return Vec::new();
            }
            let node = &*change.object().name.name;
            let on_node = all_pods.all().into_iter().filter(|pod| pods::node(pod) == node);
            let concerned = on_node.flat_map(|pod| {
                service_pods::services_of(&services, &Change { old: None, new: Some(pod) })
            });
            let mut concerned: Vec<Name> = concerned.collect();
            concerned.sort();
            concerned.dedup();
            concerned
        });
    }

    async fn observe(&self, context: &Context, object: &Arc<Object>) -> Result<Observed, Error> {
        Ok(observe::observe(context, object))
    }

    fn plan(&self, object: &Object, observed: &Observed, _: Timestamp) -> Result<Plan, Error> {
        Ok(plan::plan(object, observed))
    }
}

/// Whether a node came, went or is in another zone.
fn is_moved(change: &Change) -> bool {
    let zone = |node: &Option<Arc<Object>>| node.as_deref().map(observe::zone);
    zone(&change.old) != zone(&change.new)
}

#[cfg(test)]
mod tests;
