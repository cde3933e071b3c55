//! Runs pods until enough of them have succeeded, or too many have failed.
//!
//! Upstream: pkg/controller/job

mod backoff;
mod census;
mod indexes;
mod observe;
mod orphans;
mod plan;
mod policies;
mod scale;
mod spec;
mod status;
#[cfg(test)]
mod tests;
mod track;
mod verdict;

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::{Context, Error, Kind, Object, Plan, Reconciler, Watches, run};

use crate::claims;
use crate::kinds::{JOB, POD};

pub use backoff::finished;
pub use observe::Observed;

pub const NAME: &str = "job-controller";

pub struct Controller;

impl Reconciler for Controller {
    type Observed = Observed;
    const NAME: &'static str = NAME;
    const KIND: Kind = JOB;

    fn watches(&self, watches: &mut Watches) {
        watches.owned(POD, JOB);
        let jobs = watches.cache(JOB);
        watches.by(POD, move |change| claims::owners_that_may_adopt(&jobs, change));
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

/// Runs both halves: jobs, and pods that have lost theirs.
pub async fn run(context: Context) {
    tokio::join!(run::run(context.clone(), Controller), run::run(context, orphans::Orphans));
}
