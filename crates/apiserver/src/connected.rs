//! The nodes that this process can ask for what only a machine has: the output of containers,
//! programs beside them, connections to their ports.
//!
//! The server knows nothing of nodes; whoever runs one beside it says so here.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};

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

/// A program to run beside a container, or without a command the container's own, to be joined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramRequest {
    /// The pod's UID.
    pub pod: String,
    pub container: String,
    pub command: Vec<String>,
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
    pub tty: bool,
}

pub type Input = Box<dyn AsyncWrite + Send + Unpin>;
pub type Output = Box<dyn AsyncRead + Send + Unpin>;
/// Takes the width and the height of a terminal.
pub type Resize = Box<dyn Fn(u16, u16) + Send + Sync>;

/// A program that runs. Dropped, it is ended, or left if it is a container's own.
pub struct Program {
    pub stdin: Option<Input>,
    pub stdout: Option<Output>,
    pub stderr: Option<Output>,
    pub resize: Option<Resize>,
    /// Its exit code, or why there is none.
    pub end: BoxFuture<'static, Result<i32, String>>,
}

/// A port of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DialRequest {
    /// The pod's UID.
    pub pod: String,
    /// The pod's address, as its status says.
    pub address: String,
    pub port: u16,
}

/// Both directions of a connection.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A node that can be asked.
#[async_trait]
pub trait Node: Send + Sync {
    fn name(&self) -> &str;

    async fn logs(&self, request: LogRequest) -> Result<Pieces, Missing>;

    /// Whether a container of a pod runs.
    async fn runs(&self, pod: &str, container: &str) -> bool;

    /// Starts a program, or joins one.
    async fn program(&self, request: ProgramRequest) -> Result<Program, String>;

    /// Connects to a port as from within the pod.
    async fn dial(&self, request: DialRequest) -> Result<Box<dyn Duplex>, String>;
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
