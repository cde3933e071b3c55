//! What a container may use and what it may do. How that is enforced is the runtime's matter;
//! how it follows from a pod is `pod/confinement.rs`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a container may use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    pub quality: Quality,
    pub own: Share,
    /// Of all containers of the pod together.
    pub pod: Share,
    /// Processes and threads of the pod.
    pub processes: Option<u64>,
    /// How willingly it is killed when memory is short, from -1000 to 1000.
    pub oom_score: i32,
}

/// How much of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Share {
    /// Its weight against others when processors are short; 1024 for one processor.
    pub cpu_shares: Option<u64>,
    /// Microseconds of processor time in every tenth of a second.
    pub cpu_quota: Option<u64>,
    pub memory_bytes: Option<u64>,
}

/// The class of a pod, by what it asks for and may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Quality {
    Guaranteed,
    Burstable,
    #[default]
    BestEffort,
}

/// What a container may do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Security {
    /// It may do what the node may.
    pub privileged: bool,
    /// Nothing that it starts may do more than it may itself.
    pub no_new_privileges: bool,
    /// Capabilities besides the usual ones, and which of the usual it lacks: `NET_ADMIN`, `ALL`.
    pub add: Vec<String>,
    pub drop: Vec<String>,
    /// Only its volumes can be written.
    pub read_only_root: bool,
    /// Groups besides its own.
    pub groups: Vec<u32>,
    pub filter: Filter,
    /// Nothing of `/proc` is hidden.
    pub unmasked: bool,
    /// Settings of the kernel for the pod.
    pub sysctls: Vec<(String, String)>,
    pub processes: Processes,
    /// The container of its pod whose processes it sees besides its own.
    pub processes_of: Option<String>,
    /// System V and POSIX message queues are the machine's.
    pub host_ipc: bool,
    /// What the machine is called; `None` for what it is called outside.
    pub hostname: Option<String>,
    /// Isolation of a container without an image from the host.
    pub isolation: Isolation,
}

/// Isolation of a container without an image from the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Isolation {
    /// The root of the host, but for what is always hidden.
    #[default]
    Host,
    /// Programs and settings of the host, read-only, and memory elsewhere. As root, user ids of its
    /// own.
    Isolated {
        /// Paths of the host that can be read besides.
        readable: Vec<PathBuf>,
    },
}

/// Which calls of the kernel are refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Filter {
    #[default]
    Unconfined,
    /// What programs have no business with.
    RuntimeDefault,
    /// A file of the node.
    Localhost(String),
}

/// Which processes it sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Processes {
    #[default]
    Own,
    /// Those of every container of its pod.
    OfPod,
    OfHost,
}
