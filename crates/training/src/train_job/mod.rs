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
use std::fmt;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::{Context, Error, Kind, Name, Object, Plan, Reconciler, Watches};

use crate::Options;
use crate::kinds::{
    CLUSTER_TRAINING_RUNTIME, CONFIG_MAP, COSCHEDULING_GROUP, TRAIN_JOB, TRAINING_RUNTIME,
    VOLCANO_GROUP,
};
use crate::plugin::Settings;
use crate::plugins;
use crate::timers::Timers;

pub use deadline::TTL;
pub use job::{RUNTIMES, TrainJob, runtime_kind};
pub use observe::{Observed, Runtime};
#[cfg(test)]
pub use plan::plan as plan_of;
pub use snapshot::name as snapshot_name;

pub const NAME: &str = "trainjob_controller";
/// Who owns the fields that are applied.
const MANAGER: &str = "trainer";

/// Whoever wants to know how jobs change.
pub trait Watcher: fmt::Debug + Send + Sync {
    /// A job was made, changed or went; a finished reconcile that reported is a change.
    fn changed(&self, _old: Option<&Object>, _new: Option<&Object>) {}

    /// A job was looked at to the end, whether there was anything to report or not.
    fn reconciled(&self, _job: &Name, _result: Result<(), &Error>) {}
}

#[derive(Debug, Default)]
pub struct Controller {
    settings: Settings,
    timers: Timers,
    watchers: Vec<Arc<dyn Watcher>>,
}

impl Controller {
    pub fn new(options: &Options) -> Controller {
        let (settings, watchers) = (options.plugins.clone(), options.watchers.clone());
        Controller { settings, watchers, timers: Timers::default() }
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
            watches.children(kind, TRAIN_JOB);
            // What stands in the way of a job may belong to another.
            let endings = endings(kind);
            watches.removals(kind, move |name| in_the_way(&endings, name));
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

    /// How the job is does not depend on what could not be done for it.
    fn refused(
        &self,
        object: &Object,
        observed: &Observed,
        error: &Error,
        now: Timestamp,
    ) -> Option<Plan> {
        let mut report = plan::plan(&self.settings, object, observed, now);
        report.steps.clear();
        report.notices.push(plan::failure(&error.said()));
        Some(report)
    }

    fn finished(&self, job: &Name, result: Result<(), &Error>) {
        for watcher in &self.watchers {
            watcher.reconciled(job, result);
        }
    }
}

/// What the names of the objects of a kind have after the name of their job.
fn endings(kind: Kind) -> Vec<String> {
    let made = plugins::ALL.iter().flat_map(|plugin| plugin.makes(""));
    let made = made.chain([(CONFIG_MAP, snapshot::name(""))]);
    made.filter(|(one, _)| *one == kind).map(|(_, ending)| ending).collect()
}

/// The jobs whose object an object of another owner had the name of, when it has gone.
fn in_the_way(endings: &[String], object: &Name) -> Vec<Name> {
    let jobs = endings.iter().filter_map(|ending| object.name.strip_suffix(ending.as_str()));
    jobs.map(|job| Name::new(object.namespace.clone(), job)).collect()
}
