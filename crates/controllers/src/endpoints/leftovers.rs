//! Removes Endpoints whose service is gone, if they are ours: others keep theirs without a service.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::plan::Target;
use reconcile::{Context, Error, Kind, Object, Plan, Reconciler, Watches};

use super::plan::{MANAGED_BY, MANAGER};
use crate::kinds::{ENDPOINTS, SERVICE};

pub struct Leftovers;

impl Reconciler for Leftovers {
    /// Whether the server has no such service.
    type Observed = bool;
    const NAME: &'static str = "endpoint-controller";
    const KIND: Kind = ENDPOINTS;

    fn watches(&self, watches: &mut Watches) {
        watches.by(SERVICE, |change| match change.new {
            Some(_) => Vec::new(),
            None => vec![change.object().name.clone()],
        });
    }

    async fn observe(&self, context: &Context, object: &Arc<Object>) -> Result<bool, Error> {
        if !is_ours(object) || context.cache(SERVICE).get(&object.name).is_some() {
            return Ok(false);
        }
        // A service that is newer than the cache has the same right to its Endpoints.
        Ok(context.get_live(SERVICE, &object.name).await?.is_none())
    }

    fn plan(&self, object: &Object, is_left: &bool, _: Timestamp) -> Result<Plan, Error> {
        let mut plan = Plan::nothing();
        if *is_left && !object.is_terminating() {
            plan.delete(Target::unchanged(ENDPOINTS, object));
        }
        Ok(plan)
    }
}

fn is_ours(endpoints: &Object) -> bool {
    endpoints.label(MANAGED_BY) == Some(MANAGER)
}
