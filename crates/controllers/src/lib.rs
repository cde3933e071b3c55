//! The built-in controllers. Each is a folder with the same names: `mod.rs` (the type and what
//! wakes it), `observe.rs` (reads), `plan.rs` (decides), `status.rs` (reports).

pub mod claims;
pub mod cluster_role_aggregation;
pub mod cron_job;
pub mod daemon_set;
pub mod deployment;
pub mod discovery;
pub mod disruption;
pub mod endpoint_slice;
pub mod endpoints;
pub mod ephemeral_volume;
pub mod garbage_collector;
pub mod job;
pub mod kinds;
pub mod namespace;
pub mod node_lifecycle;
pub mod options;
pub mod pod_garbage;
pub mod pods;
pub mod replica_set;
pub mod resource_quota;
pub mod revisions;
pub mod root_ca;
pub mod service_account;
pub mod service_pods;
pub mod stateful_set;
pub mod taint_eviction;
pub mod templates;
pub mod ttl_after_finished;
pub mod volume_binder;
pub mod volume_protection;

pub use options::Options;
use reconcile::entry::{self, Task, run_boxed};
use reconcile::{Context, Reconciler};
use tokio::task::JoinSet;

/// One controller: its name, which is also its service account in kube-system, and how it starts.
/// All of them are always enabled.
pub type Entry = reconcile::Entry<(), Options>;

/// A controller that is one reconciler.
const fn entry<R: Reconciler>(start: fn(Context, &Options) -> Task) -> Entry {
    component(R::NAME, start)
}

/// A component of its own kind.
const fn component(name: &'static str, start: fn(Context, &Options) -> Task) -> Entry {
    Entry { name, is_enabled: |()| true, start }
}

/// Every controller, one line each.
#[rustfmt::skip]
pub const ALL: &[Entry] = &[
    entry::<daemon_set::Controller>(|context, _| {
        run_boxed(context, daemon_set::Controller::default())
    }),
    entry::<cron_job::Controller>(|context, _| run_boxed(context, cron_job::Controller)),
    component(garbage_collector::NAME, |context, _| Box::pin(garbage_collector::run(context))),
    component(job::NAME, |context, _| Box::pin(job::run(context))),
    component(disruption::NAME, |context, _| Box::pin(disruption::run(context))),
    component(pod_garbage::NAME, |context, options| {
        Box::pin(pod_garbage::run(context, options.finished_pods_max))
    }),
    entry::<root_ca::Controller>(|context, options| {
        run_boxed(context, root_ca::Controller { authority_pem: options.authority_pem.clone() })
    }),
    entry::<service_account::Controller>(|context, _| {
        run_boxed(context, service_account::Controller)
    }),
    entry::<ttl_after_finished::Controller>(|context, _| {
        run_boxed(context, ttl_after_finished::Controller)
    }),
    entry::<namespace::Controller>(|context, _| run_boxed(context, namespace::Controller)),
    entry::<endpoint_slice::Controller>(|context, _| {
        run_boxed(context, endpoint_slice::Controller)
    }),
    entry::<endpoints::Controller>(|context, _| endpoints::start(context)),
    entry::<node_lifecycle::Controller>(node_lifecycle::start),
    entry::<ephemeral_volume::Controller>(|context, _| {
        run_boxed(context, ephemeral_volume::Controller)
    }),
    entry::<volume_binder::Claims>(|context, _| volume_binder::start(context)),
    entry::<volume_protection::Claims>(|context, _| run_boxed(context, volume_protection::Claims)),
    entry::<volume_protection::Volumes>(|context, _| {
        run_boxed(context, volume_protection::Volumes)
    }),
    entry::<resource_quota::Controller>(|context, _| {
        run_boxed(context, resource_quota::Controller::default())
    }),
    entry::<cluster_role_aggregation::Controller>(|context, _| {
        run_boxed(context, cluster_role_aggregation::Controller)
    }),
    entry::<deployment::Controller>(|context, options| {
        run_boxed(context, deployment::Controller::new(options))
    }),
    entry::<replica_set::Controller>(|context, _| run_boxed(context, replica_set::Controller)),
    entry::<stateful_set::Controller>(|context, _| run_boxed(context, stateful_set::Controller)),
];

/// Starts every controller, each with the context of its own identity, and again if it panics.
pub fn start(context_of: impl Fn(&'static str) -> Context, options: &Options) -> JoinSet<()> {
    entry::start(ALL, context_of, ((), options))
}
