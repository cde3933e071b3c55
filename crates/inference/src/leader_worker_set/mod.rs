//! Groups of pods that live and die together, each with a leader that the others can find.
//!
//! The leaders of a set are the pods of one StatefulSet; every leader has a StatefulSet of its own
//! with the workers of its group. An update walks over the leaders (`rollout.rs`), and a group is
//! always made from one revision (`revision.rs`). What a pod is told of its group is added when it
//! is made (`pod.rs`): no template can say it.
//!
//! Upstream: kubernetes-sigs/lws, pkg/controllers

pub mod admission;
mod build;
mod gang;
pub mod labels;
pub mod manifests;
mod members;
mod observe;
mod plan;
pub mod pod;
mod restart;
mod revision;
mod rollout;
mod spec;
mod status;
#[cfg(test)]
mod tests;
mod tpu;

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::reconciler::Settings;
use reconcile::{Context, Error, Kind, Name, Object, Plan, Reconciler, Watches};

use crate::kinds::{CONTROLLER_REVISION, LEADER_WORKER_SET, POD, POD_GROUP, SERVICE, STATEFUL_SET};

pub use observe::Observed;

pub const NAME: &str = "leaderworkerset";
/// A set rests so many times as long as it took to look at what its many pods do.
const REST: u32 = 8;

#[derive(Clone, Copy, Debug, Default)]
pub struct Controller {
    /// Whether Volcano can be told of groups.
    pub has_groups: bool,
}

impl Reconciler for Controller {
    type Observed = Observed;
    const NAME: &'static str = NAME;
    const IS_LOGGED: bool = true;
    const MANAGER: &'static str = "lws";
    const KIND: Kind = LEADER_WORKER_SET;

    fn settings(&self) -> Settings {
        Settings { rest: REST, ..Settings::default() }
    }

    fn watches(&self, watches: &mut Watches) {
        watches.by(POD, |change| set_of(change.object()));
        watches.by(STATEFUL_SET, |change| set_of(change.object()));
        watches.by(SERVICE, |change| set_of(change.object()));
        watches.children_by(CONTROLLER_REVISION, |change| set_of(change.object()));
        if self.has_groups {
            watches.reads(POD_GROUP);
        }
    }

    async fn observe(&self, context: &Context, object: &Arc<Object>) -> Result<Observed, Error> {
        observe::observe(context, object, self.has_groups).await
    }

    fn plan(&self, object: &Object, observed: &Observed, now: Timestamp) -> Result<Plan, Error> {
        plan::plan(object, observed, now)
    }

    fn refused(&self, _: &Object, _: &Observed, error: &Error, _: Timestamp) -> Option<Plan> {
        plan::refused(error)
    }
}

/// The set that an object says it is of.
fn set_of(object: &Object) -> Vec<Name> {
    let name = object.label(labels::NAME);
    name.map(|name| Name::new(object.name.namespace.clone(), name)).into_iter().collect()
}
