//! Nodes that exist only as objects. They register, send heartbeats, and their pods go through the
//! states of real ones: started, ready, finished, deleted. What a pod does beside the usual is said
//! by its annotations (see `behaviour.rs`).

mod behaviour;
mod heartbeat;
mod pods;
mod register;
mod resources;

use reconcile::{Context, Kind, run};

pub use resources::Resources;

pub const NODE: Kind = Kind::cluster("", "v1", "Node", "nodes");
pub const POD: Kind = Kind::namespaced("", "v1", "Pod", "pods");
/// Who writes.
pub const NAME: &str = "simulated-nodes";
/// The annotation by which a node is known to be simulated.
pub const ANNOTATION: &str = "setpoint.dev/simulated";
/// Nodes that can be played at once.
pub const NODES_MAX: u32 = 10_000;

/// What to play.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// How many nodes, named `fake-0` and so on.
    pub count: u32,
    /// What each has.
    pub resources: Resources,
}

/// Registers the nodes and plays them until everything is to stop.
pub async fn run(context: Context, options: Options) {
    register::register(&context, &options).await;
    tokio::join!(
        heartbeat::beat(context.clone(), options.count),
        run::run(context.clone(), pods::Controller),
    );
}

/// The name of one of them.
pub fn name(index: u32) -> String {
    format!("fake-{index}")
}

#[cfg(test)]
mod tests;
