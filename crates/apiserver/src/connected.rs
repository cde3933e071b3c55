//! The nodes that this process can ask for what only a machine has: the output of containers.
//!
//! The server knows nothing of nodes; whoever runs one beside it says so here.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;

use crate::answer::Pieces;

/// Which output of which container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogRequest {
    /// The pod's UID.
    pub pod: String,
    pub container: String,
    pub follow: bool,
    pub previous: bool,
    pub timestamps: bool,
    pub tail_lines: Option<u64>,
    pub limit_bytes: Option<u64>,
    /// In microseconds since 1970.
    pub since: Option<i64>,
}

/// Why a node has nothing to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    NotStarted,
    NoPrevious,
    Unreadable,
}

/// A node that can be asked.
#[async_trait]
pub trait Node: Send + Sync {
    fn name(&self) -> &str;

    async fn logs(&self, request: LogRequest) -> Result<Pieces, Missing>;
}

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
