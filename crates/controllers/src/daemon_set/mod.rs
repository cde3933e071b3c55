//! Keeps one pod of each DaemonSet on every node that it is meant for.
//!
//! Upstream: pkg/controller/daemon/

mod failures;
pub mod foresight;
mod node_affinity;
mod observe;
mod placement;
mod plan;
mod pod;
mod spec;
mod status;
mod update;

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::reconciler::Settings;
use reconcile::{Change, Context, Error, Kind, Object, Plan, Reconciler, Watches};

use crate::claims;
use crate::kinds::{CONTROLLER_REVISION, DAEMON_SET, NODE, POD};
use crate::pods::REST;

pub use observe::Observed;

#[derive(Default)]
pub struct Controller {
    failures: failures::Failures,
}

impl Reconciler for Controller {
    type Observed = Observed;
    const NAME: &'static str = "daemon-set-controller";
    const KIND: Kind = DAEMON_SET;

    fn settings(&self) -> Settings {
        // The statuses of many pods are told of together.
        Settings { rest: REST, ..Settings::default() }
    }

    fn watches(&self, watches: &mut Watches) {
        watches.owned(POD, DAEMON_SET);
        watches.owned(CONTROLLER_REVISION, DAEMON_SET);
        let sets = watches.cache(DAEMON_SET);
        let (of_pods, of_revisions) = (sets.clone(), sets.clone());
        watches.by(POD, move |change| claims::owners_that_may_adopt(&of_pods, change));
        watches.by(CONTROLLER_REVISION, move |change| {
            claims::owners_that_may_adopt(&of_revisions, change)
        });
        watches.by(NODE, move |change| {
            if !concerns_daemons(change) {
                return Vec::new();
            }
            sets.all().iter().map(|set| set.name.clone()).collect()
        });
    }

    async fn observe(&self, context: &Context, object: &Arc<Object>) -> Result<Observed, Error> {
        observe::observe(context, object, &self.failures).await
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

/// Nodes report all the time; only what decides who may run on them is of concern.
fn concerns_daemons(change: &Change) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return true };
    let labels = |node: &Object| node.value["metadata"]["labels"].clone();
    let spec = |node: &Object| {
        let spec = &node.value["spec"];
        (spec["taints"].clone(), spec["unschedulable"].clone())
    };
    old.uid != new.uid || labels(old) != labels(new) || spec(old) != spec(new)
}

#[cfg(test)]
mod tests;
