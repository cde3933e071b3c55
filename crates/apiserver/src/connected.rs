//! The node that this process can ask for what only a machine has: the output of containers,
//! programs beside them, connections to their ports.
//!
//! The server knows nothing of nodes; whoever runs one beside it says so here.

use std::sync::{Arc, OnceLock};

use link::Node;

/// The node of this process, if it runs one.
#[derive(Clone, Default)]
pub struct Connected(Arc<OnceLock<Arc<dyn Node>>>);

impl Connected {
    /// Says which it is; only the first counts.
    pub fn set(&self, node: Arc<dyn Node>) {
        let _ = self.0.set(node);
    }

    pub fn find(&self, name: &str) -> Option<&Arc<dyn Node>> {
        self.0.get().filter(|node| node.name() == name)
    }
}
