//! Keeps the Endpoints object of every service that selects pods, for programs that know no
//! EndpointSlices; and removes it after its service.
//!
//! Upstream: pkg/controller/endpoint/endpoints_controller.go

mod leftovers;
mod observe;
mod plan;
mod subsets;

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::entry::Task;
use reconcile::{Context, Error, Kind, Object, Plan, Reconciler, Watches, run};

use crate::kinds::{ENDPOINTS, POD, SERVICE};
use crate::service_pods;

pub use leftovers::Leftovers;
pub use observe::Observed;

pub struct Controller;

impl Reconciler for Controller {
    type Observed = Observed;
    const NAME: &'static str = "endpoint-controller";
    const KIND: Kind = SERVICE;

    fn watches(&self, watches: &mut Watches) {
        // Endpoints have the name of their service.
        watches.by(ENDPOINTS, |change| vec![change.object().name.clone()]);
        let services = watches.cache(SERVICE);
        watches.by(POD, move |change| service_pods::services_of(&services, change));
    }

    async fn observe(&self, context: &Context, object: &Arc<Object>) -> Result<Observed, Error> {
        Ok(observe::observe(context, object))
    }

    fn plan(&self, object: &Object, observed: &Observed, _: Timestamp) -> Result<Plan, Error> {
        Ok(plan::plan(object, observed))
    }

    fn refused(&self, object: &Object, _: &Observed, error: &Error, _: Timestamp) -> Option<Plan> {
        Some(plan::refused(object, error))
    }
}

/// Runs both halves.
pub fn start(context: Context) -> Task {
    Box::pin(async move {
        tokio::join!(run::run(context.clone(), Controller), run::run(context, Leftovers));
    })
}

#[cfg(test)]
mod tests;
