//! What the API server asks a node for, and how a node answers: the output of containers, programs
//! beside them, connections to their ports, and what is asked of virtual machines. The two know
//! each other by nothing else.
//!
//! `destination.rs` lists the addresses that nobody reaches through either of them.
//! `wire.rs` carries the same over a connection, for a node of another process: `answer.rs` is the
//! node's side of it, `remote.rs` the server's.

pub mod answer;
pub mod destination;
pub mod dial;
pub mod remote;
mod wire;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};

/// Which output of which container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogRequest {
    /// The pod's UID.
    pub pod: String,
    pub container: String,
    pub follow: bool,
    /// Of the run before.
    pub previous: bool,
    pub timestamps: bool,
    pub tail_lines: Option<u64>,
    pub limit_bytes: Option<u64>,
    /// In microseconds since 1970.
    pub since: Option<i64>,
}

/// Why a node has no output to show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Missing {
    /// The container has not run.
    NotStarted,
    /// There was no run before.
    NoPrevious,
    /// The file cannot be read.
    Unreadable,
    /// The node does not answer; why is for people to read.
    Unreachable(String),
}

/// A program to run beside a container, or without a command the container's own, to be joined.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramRequest {
    /// The pod's UID.
    pub pod: String,
    pub container: String,
    pub command: Vec<String>,
    pub streams: Streams,
}

/// Which streams of a program are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Streams {
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
    /// A terminal in place of the three.
    pub tty: bool,
}

pub type Input = Box<dyn AsyncWrite + Send + Unpin>;
pub type Output = Box<dyn AsyncRead + Send + Unpin>;
/// Takes the width and the height of a terminal.
pub type Resize = Box<dyn Fn(u16, u16) + Send + Sync>;

/// A program that runs. Dropped, it is ended; if it is a container's own, it is left.
pub struct Program {
    pub stdin: Option<Input>,
    pub stdout: Option<Output>,
    pub stderr: Option<Output>,
    pub resize: Option<Resize>,
    /// Its exit code, or why there is none.
    pub end: BoxFuture<'static, Result<i32, String>>,
}

/// A port of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// What is asked of a virtual machine of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MachineRequest {
    /// Its serial console; it goes by the UID of its instance, as in all but the last.
    Console {
        id: String,
    },
    /// Its screen, keyboard and pointer.
    Screen {
        id: String,
        /// Those who look at it already stay.
        #[serde(default)]
        keeps_others: bool,
    },
    Port {
        id: String,
        port: u16,
    },
    Pause {
        id: String,
    },
    Resume {
        id: String,
    },
    Reset {
        id: String,
    },
    /// What its guest says of itself.
    Guest {
        id: String,
    },
    /// What it uses.
    Figures {
        id: String,
    },
    /// A volume of the node that an image is to be sent for.
    Upload {
        namespace: String,
        name: String,
    },
}

/// What is answered.
pub enum MachineAnswer {
    Done,
    Value(Value),
    Connection(Box<dyn Duplex>),
}

/// Why not: a code of HTTP, and a text for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineRefusal {
    pub code: u16,
    pub message: String,
}

/// What runs the virtual machines of a node.
#[async_trait]
pub trait Machines: Send + Sync {
    async fn ask(&self, request: MachineRequest) -> Result<MachineAnswer, MachineRefusal>;
}

/// A node that can be asked.
#[async_trait]
pub trait Node: Send + Sync {
    fn name(&self) -> &str;

    async fn logs(&self, request: LogRequest) -> Result<BoxStream<'static, Bytes>, Missing>;

    /// Whether a container of a pod runs. Fails if the node cannot be asked; why is for people.
    async fn runs(&self, pod: &str, container: &str) -> Result<bool, String>;

    /// Starts a program, or joins one. Why it cannot is for people to read.
    async fn program(&self, request: ProgramRequest) -> Result<Program, String>;

    /// Connects to a port as from within the pod.
    async fn dial(&self, request: DialRequest) -> Result<Box<dyn Duplex>, String>;

    /// Asks for something of a virtual machine.
    async fn machine(&self, _: MachineRequest) -> Result<MachineAnswer, MachineRefusal> {
        let message = format!("node {:?} runs no virtual machines", self.name());
        Err(MachineRefusal { code: 503, message })
    }
}
