//! Where a user may choose how the built-in controllers behave.

use std::time::Duration;

/// The choices; the defaults are what Kubernetes does.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// How long a node may be silent before nobody knows how it is.
    pub node_grace: Duration,
    /// The same for a node that has not reported yet.
    pub node_start_grace: Duration,
    /// How often a node without a lease reports its status: the mission's `heartbeat_interval`. Such
    /// a node is not given up before it has missed two.
    pub heartbeat_interval: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            node_grace: Duration::from_secs(50),
            node_start_grace: Duration::from_secs(60),
            heartbeat_interval: Duration::from_secs(30),
        }
    }
}
