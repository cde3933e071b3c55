//! Operators for virtual machines: a Wukong becomes networks, disks and a machine that runs
//! (KubeVirt's, CDI's and Multus's objects), a WukongSnapshot becomes a snapshot of one.
//!
//! They know a Kubernetes API and nothing else, so they run the same inside this program and
//! beside any cluster. Read `wukong/plan.rs`, then what it asks in its order: `networks.rs`,
//! `disks.rs`, `machine.rs`, `status.rs`; and `deletion.rs`.

pub mod add_ons;
pub mod admission;
pub mod kinds;
pub mod manifests;
pub mod provider;
pub mod roles;
pub mod wukong;
pub mod wukong_snapshot;

pub use api::value;
use reconcile::Context;
use reconcile::entry::run_boxed;
use tokio::task::JoinSet;

use crate::add_ons::AddOns;

/// Where the operators live, and their service account.
pub const NAMESPACE: &str = "novasphere-system";
pub const SERVICE_ACCOUNT: &str = "novasphere-controller-manager";
/// The service that servers ask before objects are written.
pub const WEBHOOK_SERVICE: &str = "novasphere-webhook-service";

/// What an installation may choose.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    pub enabled: Enabled,
    pub bridges: Bridges,
    /// What machines are made of and the cluster has. It is found out at the start.
    pub add_ons: AddOns,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enabled {
    pub wukong: bool,
}

impl Default for Enabled {
    fn default() -> Enabled {
        Enabled { wukong: true }
    }
}

/// Who makes the bridge of a network that names no interface of its machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bridges {
    /// A policy of NMState, which needs the interface.
    #[default]
    ByPolicy,
    /// Whoever starts the machine.
    ByNode,
}

/// One operator: its name, whose it is, and how it starts.
pub type Entry = reconcile::Entry<Enabled, Options>;

/// Every operator, one line each.
#[rustfmt::skip]
pub const ALL: &[Entry] = &[
    Entry { name: wukong::NAME, is_enabled: |enabled| enabled.wukong,
        start: |context, options| run_boxed(context, wukong::Controller::new(options)) },
    Entry { name: wukong_snapshot::NAME, is_enabled: |enabled| enabled.wukong,
        start: |context, options| run_boxed(context, wukong_snapshot::Controller::new(options)) },
];

/// Starts the operators, again whichever panics, and all of them when the cluster has learned a
/// kind that they make use of.
pub fn start(context: &Context, options: &Options) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(add_ons::run_with(context.clone(), *options));
    tasks
}
