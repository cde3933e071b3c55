//! Keeps pods with names of their own, one after another or all at once, and the claims they mount.
//!
//! Upstream: pkg/controller/statefulset/

mod identity;
mod observe;
mod plan;
mod spec;
mod status;
mod volume_claims;

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::reconciler::Settings;
use reconcile::{Change, Context, Error, Kind, Object, Plan, Reconciler, Watches};

use crate::claims;
use crate::kinds::{CONTROLLER_REVISION, PERSISTENT_VOLUME_CLAIM, POD, STATEFUL_SET};
use crate::pods::REST;

pub use observe::Observed;

#[derive(Clone, Copy, Debug, Default)]
pub struct Controller;

impl Reconciler for Controller {
    type Observed = Observed;
    const NAME: &'static str = "statefulset-controller";
    const KIND: Kind = STATEFUL_SET;

    fn settings(&self) -> Settings {
        // The statuses of many pods are told of together.
        Settings { rest: REST, ..Settings::default() }
    }

    fn watches(&self, watches: &mut Watches) {
        watches.owned(POD, STATEFUL_SET);
        watches.owned(CONTROLLER_REVISION, STATEFUL_SET);
        let sets = watches.cache(STATEFUL_SET);
        let (of_pods, of_revisions) = (sets.clone(), sets.clone());
        watches.by(POD, move |change| claims::owners_that_may_adopt(&of_pods, change));
        watches.by(CONTROLLER_REVISION, move |change| {
            claims::owners_that_may_adopt(&of_revisions, change)
        });
        watches.by(PERSISTENT_VOLUME_CLAIM, move |change: &Change| {
            volume_claims::sets_of(&sets, change.object())
        });
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
        plan::refused(object, observed, error, now)
    }
}

#[cfg(test)]
mod tests;
