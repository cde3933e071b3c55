//! Starts Jobs by the clock.
//!
//! Upstream: pkg/controller/cronjob

mod due;
mod observe;
mod plan;
mod schedule;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::Timestamp;
use reconcile::plan::Notice;
use reconcile::{Context, Error, Kind, Object, Plan, Reconciler, Watches};

use crate::kinds::{CRON_JOB, JOB};

pub use observe::Observed;

pub struct Controller;

impl Reconciler for Controller {
    type Observed = Observed;
    const NAME: &'static str = "cronjob-controller";
    const KIND: Kind = CRON_JOB;

    fn watches(&self, watches: &mut Watches) {
        watches.owned(JOB, CRON_JOB);
    }

    async fn observe(&self, context: &Context, object: &Arc<Object>) -> Result<Observed, Error> {
        Ok(observe::observe(context, object))
    }

    fn plan(&self, object: &Object, observed: &Observed, now: Timestamp) -> Result<Plan, Error> {
        Ok(plan::plan(object, observed, now))
    }

    fn refused(&self, _: &Object, _: &Observed, error: &Error, _: Timestamp) -> Option<Plan> {
        let text = format!("Error creating job: {}", error.chain());
        let notices = vec![Notice::warning("FailedCreate", text)];
        Some(Plan { notices, ..Plan::nothing() })
    }
}
