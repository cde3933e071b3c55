//! Operators for training: TrainJob with its runtimes (Kubeflow Trainer), and JobSet under it.
//!
//! They know a Kubernetes API and nothing else, so they run the same inside this program and
//! beside any cluster. Read `train_job/plan.rs`, then `blueprint.rs`, `plugins/mod.rs` (the visible
//! order), `job_set/plan.rs`.

pub mod admission;
pub mod blueprint;
pub mod foresight;
pub mod job_set;
pub mod kinds;
pub mod manifests;
pub mod plugin;
pub mod plugins;
pub mod progress;
pub mod resources;
pub mod runtime_patches;
pub mod runtimes;
pub mod status_server;
pub mod timers;
pub mod train_job;
pub mod training_runtime;

use std::sync::Arc;

pub use api::{field_error, value};
use reconcile::entry::run_boxed;
use reconcile::supervise::supervise;
use reconcile::{Context, entry};
use tokio::task::JoinSet;

/// Where the operators live, and their service account.
pub const NAMESPACE: &str = "kubeflow-system";
pub const SERVICE_ACCOUNT: &str = "kubeflow-trainer-controller-manager";

/// What an installation may choose.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Which operators run: on a cluster that has JobSet already, ours stays off.
    pub enabled: Enabled,
    pub plugins: plugin::Settings,
    /// Who is told how TrainJobs change, and of every look at them.
    pub watchers: Vec<Arc<dyn train_job::Watcher>>,
    /// True if progress is derived from the output of jobs that do not report it.
    pub reads_output: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enabled {
    pub trainer: bool,
    pub job_set: bool,
}

impl Default for Enabled {
    fn default() -> Enabled {
        Enabled { trainer: true, job_set: true }
    }
}

/// One operator: its name, whose it is, and how it starts.
pub type Entry = reconcile::Entry<Enabled, Options>;

/// Every operator, one line each.
#[rustfmt::skip]
pub const ALL: &[Entry] = &[
    Entry { name: job_set::NAME, is_enabled: |enabled| enabled.job_set,
        start: |context, _| run_boxed(context, job_set::Controller::default()) },
    Entry { name: train_job::NAME, is_enabled: |enabled| enabled.trainer,
        start: |context, options| run_boxed(context, train_job::Controller::new(options)) },
    Entry { name: training_runtime::NAMESPACED, is_enabled: |enabled| enabled.trainer,
        start: |context, _| run_boxed(context, training_runtime::Namespaced::default()) },
    Entry { name: training_runtime::CLUSTER, is_enabled: |enabled| enabled.trainer,
        start: |context, _| run_boxed(context, training_runtime::Cluster::default()) },
];

/// Starts the operators, and again whichever panics.
pub fn start(context: &Context, options: &Options) -> JoinSet<()> {
    let reads_output = options.reads_output && options.enabled.trainer;
    let candidates = Arc::new(progress::Candidates::default());
    let mut options = options.clone();
    if reads_output {
        options.watchers.push(candidates.clone());
    }
    let mut tasks = entry::start(ALL, |_| context.clone(), (options.enabled, &options));
    if reads_output {
        let run = move |context| progress::run(context, candidates.clone());
        tasks.spawn(supervise(progress::NAME, context.clone(), run));
    }
    tasks
}
