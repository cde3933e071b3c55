//! A TrainJob becomes a JobSet, as its runtime and the plugins say, and tells how that fares.
//!
//! Upstream: kubeflow/trainer, pkg/controller/trainjob_controller.go

mod deadline;
mod job;
mod observe;
mod plan;
mod snapshot;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::{Change, Context, Error, Kind, Name, Object, Plan, Reconciler, Watches};

use crate::Options;
use crate::kinds::{
    CLUSTER_TRAINING_RUNTIME, CONFIG_MAP, COSCHEDULING_GROUP, TRAIN_JOB, TRAINING_RUNTIME,
    VOLCANO_GROUP,
};
use crate::plugin::Settings;
use crate::plugins;
use crate::timers::Timers;

pub use job::{RUNTIMES, TrainJob, runtime_kind};
pub use observe::{Observed, Runtime};
#[cfg(test)]
pub use plan::plan as plan_of;
pub use snapshot::name as snapshot_name;

pub const NAME: &str = "trainjob_controller";
/// Who owns the fields that are applied.
const MANAGER: &str = "trainer";

/// Whoever wants to know how jobs change.
pub trait Watcher: Send + Sync {
    /// A job was made, changed or went; a finished reconcile that reported is a change.
    fn changed(&self, old: Option<&Object>, new: Option<&Object>);
}

#[derive(Default)]
pub struct Controller {
    settings: Settings,
    timers: Timers,
    watchers: Vec<Arc<dyn Watcher>>,
}

impl Controller {
    pub fn new(options: &Options) -> Controller {
        Controller { settings: options.plugins.clone(), ..Controller::default() }
    }

    pub fn with_watchers(self, watchers: Vec<Arc<dyn Watcher>>) -> Controller {
        Controller { watchers, ..self }
    }

    /// The kinds of objects that plugins make, as far as the cluster has them.
    fn kinds(&self) -> BTreeSet<Kind> {
        let made = plugins::ALL.iter().flat_map(|plugin| plugin.makes(""));
        let groups = self.settings.groups;
        let is_here = |kind: &Kind| {
            (*kind != COSCHEDULING_GROUP || groups.coscheduling)
                && (*kind != VOLCANO_GROUP || groups.volcano)
        };
        made.map(|(kind, _)| kind).chain([CONFIG_MAP]).filter(is_here).collect()
    }
}

impl Reconciler for Controller {
    type Observed = Observed;
    const NAME: &'static str = NAME;
    const IS_LOGGED: bool = true;
    const MANAGER: &'static str = MANAGER;
    const KIND: Kind = TRAIN_JOB;

    fn watches(&self, watches: &mut Watches) {
        for kind in self.kinds() {
            watches.owned(kind, TRAIN_JOB);
            // What stands in the way of a job may belong to another.
            watches.by(kind, in_the_way);
        }
        for plugin in plugins::ALL {
            plugin.watches(&self.settings, watches);
        }
        for kind in [TRAINING_RUNTIME, CLUSTER_TRAINING_RUNTIME] {
            let jobs = watches.cache(TRAIN_JOB);
            watches.by(kind, move |change| {
                let runtime = change.object();
                let waits = |job: &&Arc<Object>| observe::waits_for(job, kind, runtime);
                jobs.all().iter().filter(waits).map(|job| job.name.clone()).collect()
            });
        }
        for watcher in &self.watchers {
            let watcher = watcher.clone();
            watches.by(TRAIN_JOB, move |change| {
                watcher.changed(change.old.as_deref(), change.new.as_deref());
                Vec::new()
            });
        }
    }

    async fn observe(&self, context: &Context, object: &Arc<Object>) -> Result<Observed, Error> {
        let kinds = self.kinds();
        observe::observe(
            context,
            object,
            &observe::Means { kinds: &kinds, settings: &self.settings, timers: &self.timers },
        )
        .await
    }

    fn plan(&self, object: &Object, observed: &Observed, now: Timestamp) -> Result<Plan, Error> {
        Ok(plan::plan(&self.settings, object, observed, now))
    }

    fn refused(&self, _: &Object, _: &Observed, error: &Error, _: Timestamp) -> Option<Plan> {
        let notices = vec![plan::failure(&error.said())];
        Some(Plan { notices, ..Plan::nothing() })
    }
}

/// The job whose object an object of another owner has the name of.
fn in_the_way(change: &Change) -> Vec<Name> {
    let object = change.object();
    let name: &str = &object.name.name;
    let ends = [
        "-runtime-snapshot",
        "-mpi-ssh-auth",
        "-mpi-hostfile",
        "-flux-entrypoint",
        "-flux-curve",
        "-tls-config",
    ];
    let job = ends.iter().find_map(|end| name.strip_suffix(end));
    match (change.new.is_none(), job) {
        (true, Some(job)) => vec![Name::new(object.name.namespace.clone(), job)],
        _ => Vec::new(),
    }
}
