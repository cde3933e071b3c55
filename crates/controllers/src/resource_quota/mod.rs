//! Says of every ResourceQuota what it allows and what is used of it.
//!
//! The server charges quotas in the commits that change what is used, so there is little left to
//! do: a quota that is new, whose specification changed or whose status somebody wrote is counted.
//! Counting reads lists that are at least as new as the quota and writes only if the quota is still
//! the one that was read; nothing can have been charged between the two.
//!
//! Upstream: pkg/controller/resourcequota

mod observe;
mod plan;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::{Context, Error, Kind, Object, Plan, Reconciler, Watches};

use crate::kinds::RESOURCE_QUOTA;

pub use observe::Observed;

/// A quota that is charged all the time is counted only so often.
const COUNT_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Default)]
pub struct Controller {
    counts: Arc<observe::Counts>,
}

impl Reconciler for Controller {
    type Observed = Observed;
    const NAME: &'static str = "resourcequota-controller";
    const KIND: Kind = RESOURCE_QUOTA;

    fn watches(&self, watches: &mut Watches) {
        let counts = self.counts.clone();
        watches.by(RESOURCE_QUOTA, move |change| {
            if change.new.is_none() {
                counts.forget(&change.object().uid);
            }
            Vec::new()
        });
    }

    async fn observe(&self, context: &Context, object: &Arc<Object>) -> Result<Observed, Error> {
        observe::observe(context, &self.counts, object).await
    }

    fn plan(&self, object: &Object, observed: &Observed, _: Timestamp) -> Result<Plan, Error> {
        Ok(plan::plan(object, observed))
    }
}

#[cfg(test)]
mod tests;
