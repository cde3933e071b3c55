//! Deletes Jobs some time after they finished, if they say so.
//!
//! Upstream: pkg/controller/ttlafterfinished

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::{Context, Error, Kind, Object, Plan, Reconciler};

use crate::kinds::JOB;

pub struct Controller;

impl Reconciler for Controller {
    type Observed = ();
    const NAME: &'static str = "ttl-after-finished-controller";
    const KIND: Kind = JOB;

    async fn observe(&self, _: &Context, _: &Arc<Object>) -> Result<(), Error> {
        Ok(())
    }

    fn plan(&self, object: &Object, (): &(), now: Timestamp) -> Result<Plan, Error> {
        Ok(plan::plan(object, now))
    }
}
