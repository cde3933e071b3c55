//! Operators for inference: graphs of model servers (NVIDIA Dynamo), and LeaderWorkerSet under
//! them.
//!
//! They know a Kubernetes API and nothing else, so they run the same inside this program and
//! beside any cluster.

pub mod kinds;

use reconcile::{Context, entry};
use tokio::task::JoinSet;

/// Where the operators live, and their service account.
pub const NAMESPACE: &str = "dynamo-system";
pub const SERVICE_ACCOUNT: &str = "dynamo-operator-controller-manager";

/// What an installation may choose.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Which operators run: on a cluster that has LeaderWorkerSet already, ours stays off.
    pub enabled: Enabled,
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
];

/// Starts the operators, and again whichever panics.
pub fn start(context: &Context, options: &Options) -> JoinSet<()> {
    entry::start(ALL, |_| context.clone(), (options.enabled, options))
}
