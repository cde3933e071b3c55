//! Keeps ReplicaSets so that the pods of a Deployment come to have its template.
//!
//! Upstream: pkg/controller/deployment/

mod annotations;
mod cleanup;
mod observe;
mod plan;
mod recreate;
mod rolling;
mod rollout;
mod scale;
mod sets;
mod spec;
mod status;
mod template;

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::owners;
use reconcile::reconciler::Settings;
use reconcile::{Cache, Change, Context, Error, Kind, Name, Object, Plan, Reconciler, Watches};

use crate::claims;
use crate::kinds::{DEPLOYMENT, POD, REPLICA_SET};
use crate::options::{Match, Options};
use crate::pods::{self, REST};

pub use observe::Observed;

#[derive(Clone, Copy, Debug, Default)]
pub struct Controller {
    pub matching: Match,
}

impl Controller {
    pub fn new(options: &Options) -> Controller {
        Controller { matching: options.deployment_match }
    }
}

impl Reconciler for Controller {
    type Observed = Observed;
    const NAME: &'static str = "deployment-controller";
    const KIND: Kind = DEPLOYMENT;

    fn settings(&self) -> Settings {
        // The statuses of many pods are told of together.
        Settings { rest: REST, ..Settings::default() }
    }

    fn watches(&self, watches: &mut Watches) {
        watches.owned(REPLICA_SET, DEPLOYMENT);
        let deployments = watches.cache(DEPLOYMENT);
        let sets = watches.cache(REPLICA_SET);
        let may_adopt = deployments.clone();
        watches.by(REPLICA_SET, move |change| claims::owners_that_may_adopt(&may_adopt, change));
        let all = deployments.clone();
        watches.by(POD, move |change| recreating(&all, &sets, change));
        if self.matching != Match::Owners {
            watches.by(POD, move |change| selecting(&deployments, change));
        }
    }

    async fn observe(&self, context: &Context, object: &Arc<Object>) -> Result<Observed, Error> {
        observe::observe(context, object, self.matching).await
    }

    fn plan(&self, object: &Object, observed: &Observed, now: Timestamp) -> Result<Plan, Error> {
        plan::plan(object, observed, self.matching, now)
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

/// A deployment that recreates waits for the last of its old pods; what pods do is of no concern to
/// the others, whose ReplicaSets tell.
fn recreating(deployments: &Cache, sets: &Cache, change: &Change) -> Vec<Name> {
    let is_over = change.new.as_ref().is_none_or(|pod| pods::is_finished(pod));
    if !is_over {
        return Vec::new();
    }
    let set = owners::controller_name(change.object(), REPLICA_SET);
    let set = set.and_then(|name| sets.get(&name));
    let name = set.and_then(|set| owners::controller_name(&set, DEPLOYMENT));
    let recreates = |name: &Name| {
        let found = deployments.get(name);
        found.is_some_and(|found| found.value["spec"]["strategy"]["type"] == "Recreate")
    };
    name.into_iter().filter(recreates).collect()
}

/// Deployments whose selector matches a pod of nobody's, or one that was.
fn selecting(deployments: &Cache, change: &Change) -> Vec<Name> {
    let sides = [&change.old, &change.new].into_iter().flatten();
    let of_nobody = sides.filter(|pod| pod.controller().is_none());
    let names = of_nobody.flat_map(|pod| {
        let change = Change { old: None, new: Some(pod.clone()) };
        claims::owners_that_may_adopt(deployments, &change)
    });
    names.collect()
}

#[cfg(test)]
mod tests;
