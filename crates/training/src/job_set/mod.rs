//! Jobs that start, end and begin again together.
//!
//! A JobSet makes a Job for every replica of its replicated jobs, a service that gives their pods
//! names, and the claims that they share. What one Job's end means for all of them is written in
//! its policies.
//!
//! Upstream: kubernetes-sigs/jobset, pkg/controllers/jobset_controller.go

mod build;
mod children;
mod failure_policy;
mod network;
mod observe;
mod placement;
mod plan;
mod spec;
mod startup_policy;
mod status;
mod success_policy;
#[cfg(test)]
mod tests;
mod volume_claims;

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::plan::Notice;
use reconcile::{Context, Error, Kind, Object, Plan, Reconciler, Watches};

use crate::kinds::{JOB, JOB_SET, PERSISTENT_VOLUME_CLAIM, SERVICE};
use crate::timers::Timers;

pub use observe::Observed;
pub use spec::{CONTROLLER, Spec};

pub const NAME: &str = "jobset-controller";

#[derive(Default)]
pub struct Controller {
    timers: Timers,
}

impl Reconciler for Controller {
    type Observed = Observed;
    const NAME: &'static str = NAME;
    const IS_LOGGED: bool = true;
    const KIND: Kind = JOB_SET;

    fn watches(&self, watches: &mut Watches) {
        watches.children(JOB, JOB_SET);
        watches.children(SERVICE, JOB_SET);
        watches.children(PERSISTENT_VOLUME_CLAIM, JOB_SET);
    }

    async fn observe(&self, context: &Context, object: &Arc<Object>) -> Result<Observed, Error> {
        observe::observe(context, object, &self.timers).await
    }

    fn plan(&self, object: &Object, observed: &Observed, now: Timestamp) -> Result<Plan, Error> {
        Ok(plan::plan(object, observed, now))
    }

    fn refused(&self, _: &Object, _: &Observed, error: &Error, _: Timestamp) -> Option<Plan> {
        let Error::Request { what, .. } = error else { return None };
        let kinds = [
            (JOB, "JobCreationFailed"),
            (SERVICE, "HeadlessServiceCreationFailed"),
            (PERSISTENT_VOLUME_CLAIM, "PVCCreationFailed"),
        ];
        let failed = kinds.iter().find(|(kind, _)| what.starts_with(&format!("create {kind} ")));
        let (_, reason) = failed?;
        let notices = vec![Notice::warning(reason, error.said())];
        Some(Plan { notices, ..Plan::nothing() })
    }
}
