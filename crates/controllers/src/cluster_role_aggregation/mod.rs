//! Gives every ClusterRole that aggregates others their rules.
//!
//! The server decides by the same union without these rules; they are what users read.
//!
//! Upstream: pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go

mod observe;
mod plan;

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::{Context, Error, Kind, Name, Object, Plan, Reconciler, Watches};

use crate::kinds::CLUSTER_ROLE;

pub use observe::Observed;

pub struct Controller;

impl Reconciler for Controller {
    type Observed = Observed;
    const NAME: &'static str = "clusterrole-aggregation-controller";
    const KIND: Kind = CLUSTER_ROLE;

    fn watches(&self, watches: &mut Watches) {
        let roles = watches.cache(CLUSTER_ROLE);
        watches.by(CLUSTER_ROLE, move |change| {
            let sides: Vec<_> = [&change.old, &change.new].into_iter().flatten().collect();
            let concerns = |role: &Arc<Object>| {
                let selectors = observe::selectors(role);
                selectors.iter().any(|one| sides.iter().any(|side| one.matches(side)))
            };
            let all = roles.all().into_iter().filter(concerns);
            all.map(|role| role.name.clone()).collect::<Vec<Name>>()
        });
    }

    async fn observe(&self, context: &Context, object: &Arc<Object>) -> Result<Observed, Error> {
        Ok(observe::observe(context, object))
    }

    fn plan(&self, object: &Object, observed: &Observed, _: Timestamp) -> Result<Plan, Error> {
        Ok(plan::plan(object, observed))
    }
}

#[cfg(test)]
mod tests;
