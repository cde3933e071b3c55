//! Makes the claims of a pod's ephemeral volumes. They are the pod's and go with it.
//!
//! Upstream: pkg/controller/volume/ephemeral/controller.go

mod plan;

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::{Context, Error, Kind, Name, Object, Plan, Reconciler, Watches};

use crate::kinds::{PERSISTENT_VOLUME_CLAIM, POD};

pub struct Controller;

impl Reconciler for Controller {
    /// The claims that have the names of the pod's volumes.
    type Observed = Vec<Arc<Object>>;
    const NAME: &'static str = "ephemeral-volume-controller";
    const KIND: Kind = POD;

    fn concerns(pod: &Object) -> bool {
        plan::volumes(pod).next().is_some()
    }

    fn watches(&self, watches: &mut Watches) {
        // A claim that goes is made again while its pod is there.
        watches.owned(PERSISTENT_VOLUME_CLAIM, POD);
    }

    async fn observe(&self, context: &Context, pod: &Arc<Object>) -> Result<Self::Observed, Error> {
        let claims = context.cache(PERSISTENT_VOLUME_CLAIM);
        let names = plan::volumes(pod).map(|volume| plan::name(pod, volume));
        let named = names.map(|name| Name::new(&*pod.name.namespace, name));
        Ok(named.filter_map(|name| claims.get(&name)).collect())
    }

    fn plan(&self, pod: &Object, claims: &Self::Observed, _: Timestamp) -> Result<Plan, Error> {
        Ok(plan::plan(pod, claims))
    }
}

#[cfg(test)]
mod tests;
