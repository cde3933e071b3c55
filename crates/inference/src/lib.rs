//! Operators for inference: graphs of model servers (NVIDIA Dynamo), and LeaderWorkerSet under
//! them.
//!
//! They know a Kubernetes API and nothing else, so they run the same inside this program and
//! beside any cluster.

pub mod admission;
pub mod backends;
pub mod census;
pub mod checkpoint;
pub mod component;
pub mod configuration;
pub mod conversion;
pub mod definition_migrator;
pub mod digest;
pub mod discovery_account;
pub mod foresight;
pub mod graph;
pub mod kinds;
pub mod leader_worker_set;
pub mod manifests;
pub mod memory_service;
pub mod model;
pub mod multinode;
pub mod names;
pub mod namespace_scope;
pub mod pods;
pub mod request;
pub mod scaling_adapter;
pub mod settings;
pub mod sync_resource;
pub mod topology_label;

use std::sync::Arc;

pub use api::{field_error, review, value};
use reconcile::Context;
use reconcile::entry::{self, run_boxed};
use tokio::task::JoinSet;

/// Where the operators live, and their service account.
pub const NAMESPACE: &str = "dynamo-system";
pub const SERVICE_ACCOUNT: &str = "dynamo-operator-controller-manager";
/// The service that servers ask before objects are written.
pub const WEBHOOK_SERVICE: &str = "dynamo-operator-webhook-service";

/// Before the names of what is counted of Dynamo's kinds.
pub const METRICS_PREFIX: &str = "dynamo_operator_";

/// What an installation may choose.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Which operators run: on a cluster that has LeaderWorkerSet already, ours stays off.
    pub enabled: Enabled,
    pub settings: Arc<settings::Settings>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enabled {
    pub dynamo: bool,
    pub leader_worker_set: bool,
}

impl Default for Enabled {
    fn default() -> Enabled {
        Enabled { dynamo: true, leader_worker_set: true }
    }
}

/// One operator: its name, whose it is, and how it starts.
pub type Entry = reconcile::Entry<Enabled, Options>;

/// Every operator, one line each.
#[rustfmt::skip]
pub const ALL: &[Entry] = &[
    Entry { name: graph::NAME, is_enabled: |enabled| enabled.dynamo,
        start: |context, options|
            run_boxed(context, graph::Controller::new(options.settings.clone())) },
    Entry { name: component::NAME, is_enabled: |enabled| enabled.dynamo,
        start: |context, options|
            run_boxed(context, component::Controller::new(options.settings.clone())) },
    Entry { name: scaling_adapter::NAME, is_enabled: |enabled| enabled.dynamo,
        start: |context, _| run_boxed(context, scaling_adapter::Controller) },
    Entry { name: leader_worker_set::NAME, is_enabled: |enabled| enabled.leader_worker_set,
        start: |context, options| run_boxed(context, leader_worker_set::Controller {
            has_groups: options.settings.gates.pod_groups }) },
    Entry { name: model::NAME, is_enabled: |enabled| enabled.dynamo,
        start: |context, _| run_boxed(context, model::Controller::default()) },
    Entry { name: request::NAME, is_enabled: |enabled| enabled.dynamo,
        start: |context, options|
            run_boxed(context, request::Controller::new(options.settings.clone())) },
    Entry { name: checkpoint::NAME, is_enabled: |enabled| enabled.dynamo,
        start: |context, options|
            run_boxed(context, checkpoint::Controller::new(options.settings.clone())) },
    Entry { name: memory_service::cascade::NAME, is_enabled: |enabled| enabled.dynamo,
        start: |context, _| run_boxed(context, memory_service::cascade::Controller::default()) },
    Entry { name: memory_service::replacement::NAME, is_enabled: |enabled| enabled.dynamo,
        start: |context, _| run_boxed(context, memory_service::replacement::Controller) },
    Entry { name: topology_label::NAME, is_enabled: |enabled| enabled.dynamo,
        start: |context, _| run_boxed(context, topology_label::Controller) },
    Entry { name: definition_migrator::NAME, is_enabled: |enabled| enabled.dynamo,
        start: |context, options| match options.settings.manages_roles {
            true => Box::pin(definition_migrator::run(context)),
            // Who works in one namespace leaves definitions alone.
            false => Box::pin(async move { context.stopping().await }),
        } },
    Entry { name: census::NAME, is_enabled: |enabled| enabled.dynamo,
        start: |context, _| Box::pin(census::run(context)) },
];

/// Starts the operators, and again whichever panics.
pub fn start(context: &Context, options: &Options) -> JoinSet<()> {
    let is_restricted = !options.settings.manages_roles;
    let context_of = |name: &'static str| match is_restricted || name == leader_worker_set::NAME {
        true => context.clone(),
        false => {
            let elsewhere = context.elsewhere.clone().or_named_like(namespace_scope::EPHEMERAL);
            Context { elsewhere, ..context.clone() }
        }
    };
    entry::start(ALL, context_of, (options.enabled, options))
}
