//! Keeps a number of pods running for each ReplicaSet.
//!
//! Upstream: pkg/controller/replicaset/replica_set.go

mod observe;
mod plan;
mod status;

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::reconciler::Settings;
use reconcile::{Context, Error, Kind, Object, Plan, Reconciler, Watches};

use crate::claims;
use crate::kinds::{POD, REPLICA_SET};
use crate::pods::REST;

pub use observe::Observed;

pub struct Controller;

impl Reconciler for Controller {
    type Observed = Observed;
    const NAME: &'static str = "replicaset-controller";
    const KIND: Kind = REPLICA_SET;

    fn settings(&self) -> Settings {
        // The statuses of many pods are told of together.
        Settings { rest: REST, ..Settings::default() }
    }

    fn watches(&self, watches: &mut Watches) {
        watches.owned(POD, REPLICA_SET);
        let sets = watches.cache(REPLICA_SET);
        watches.by(POD, move |change| claims::owners_that_may_adopt(&sets, change));
    }

    async fn observe(&self, context: &Context, object: &Arc<Object>) -> Result<Observed, Error> {
        observe::observe(context, object).await
    }

    fn plan(&self, object: &Object, observed: &Observed, now: Timestamp) -> Result<Plan, Error> {
        plan::plan(object, observed, now)
    }

    fn refused(
        &self,
        object: &Object,
        observed: &Observed,
        error: &Error,
        now: Timestamp,
    ) -> Option<Plan> {
        Some(plan::refused(object, observed, error, now))
    }
}

#[cfg(test)]
mod tests;
