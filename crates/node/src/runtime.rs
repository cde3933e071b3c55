//! What can run the containers of pods. One trait for processes, Docker, Podman and CRI.
//!
//! A runtime knows containers by pod, name and attempt; it decides nothing. Whether a container is
//! to run, and again, is `pod/lifecycle.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use link::{Duplex, Program, Streams};
use serde::{Deserialize, Serialize};

use crate::confinement::{Limits, Processes, Security};
use crate::image::ImageStore;
use crate::machine::OOM_SCORE_MIN;

/// How long a call to start a container may take.
pub const START_MAX: Duration = Duration::from_secs(120);

/// What a pod's containers are to share: asked for before the first of them starts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SandboxSpec {
    /// The pod's UID.
    pub pod: String,
    pub namespace: String,
    /// The pod's name.
    pub pod_name: String,
    pub hostname: String,
    /// The pod shares the network of the machine.
    pub host_network: bool,
    pub host_ports: Vec<HostPort>,
    pub dns: Dns,
    /// Settings of the kernel for all containers.
    #[serde(default)]
    pub sysctls: Vec<(String, String)>,
    /// Which processes its containers see.
    #[serde(default)]
    pub processes: Processes,
    /// System V and POSIX message queues are the machine's.
    #[serde(default)]
    pub host_ipc: bool,
}

/// A port of the machine that leads to one of the pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPort {
    /// `None` for every address of the machine.
    pub host_address: Option<IpAddr>,
    /// 0 for any that is free: who makes the network gives one.
    pub host_port: u16,
    pub container_port: u16,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
}

/// How programs of the pod resolve names: what its `/etc/resolv.conf` says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dns {
    pub servers: Vec<String>,
    pub searches: Vec<String>,
    pub options: Vec<String>,
}

/// What a pod's containers share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sandbox {
    /// The pod's addresses, the first is the usual. Empty: those of the machine.
    pub addresses: Vec<IpAddr>,
    /// The file of the network namespace to join; `None` for the machine's.
    pub network: Option<PathBuf>,
}

/// One run of one container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ContainerId {
    /// The pod's UID.
    pub pod: String,
    pub name: String,
    /// How many runs came before.
    pub attempt: u32,
}

/// What to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContainerSpec {
    pub id: ContainerId,
    pub namespace: String,
    /// The pod's name.
    pub pod_name: String,
    pub image: String,
    /// Program and arguments; empty where the image is to say, which not every runtime knows.
    pub command: Vec<String>,
    /// Arguments of the image's own program, in place of those that the image has. Empty where
    /// there is a command.
    #[serde(default)]
    pub arguments: Vec<String>,
    pub env: Vec<(String, String)>,
    pub working_directory: Option<String>,
    pub mounts: Vec<Mount>,
    pub user: Option<u32>,
    pub group: Option<u32>,
    #[serde(default)]
    pub limits: Limits,
    #[serde(default)]
    pub security: Security,
    /// What asks it to end, if it is not SIGTERM.
    #[serde(default)]
    pub stop_signal: Option<i32>,
    #[serde(default)]
    pub input: Input,
    /// The numbers of GPUs of this machine that are its own, for a runtime that hands them over.
    #[serde(default)]
    pub gpus: Vec<u32>,
    /// Failures in a row before this run, for the delay before the next.
    pub failures: u32,
}

/// What a container has for input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// Who attaches may write to it; without it there is none.
    pub is_open: bool,
    /// It ends with the first who attached.
    pub is_once: bool,
    /// It is a terminal, and the output too.
    pub is_terminal: bool,
}

/// A file or directory of the host that the container sees elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Mount {
    pub source: PathBuf,
    pub target: PathBuf,
    pub read_only: bool,
    /// The place below `source` that is meant, if it is not all of it. Programs of the pod may
    /// write there, so it is opened so that no link leads out of `source`.
    #[serde(default)]
    pub within: Option<PathBuf>,
    /// What is mounted below is read-only too; only where `read_only` is.
    #[serde(default)]
    pub recursive: bool,
    /// It is left out where nothing may be mounted.
    #[serde(default)]
    pub optional: bool,
    #[serde(default)]
    pub propagation: Propagation,
}

/// Whether what is mounted below a volume later is seen on the other side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Propagation {
    #[default]
    None,
    /// The container sees what the host mounts.
    FromHost,
    /// The host sees what the container mounts, too.
    Both,
}

/// A container as the runtime has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Container {
    pub id: ContainerId,
    /// What it was started from, by the name that its specification has.
    pub image: String,
    /// What exactly that was, as `imageID` has it; empty where images are names only.
    pub image_id: String,
    /// What the runtime itself calls it, if it has a name of its own.
    pub native_id: Option<String>,
    pub failures: u32,
    pub state: State,
}

#[derive(Clone, Debug, PartialEq)]
pub enum State {
    Running { since: Timestamp },
    Exited(Exit),
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Exit {
    pub began: Timestamp,
    pub ended: Timestamp,
    pub code: i32,
    pub signal: Option<i32>,
    /// Set where the code does not tell: `OOMKilled`, `ContainerStatusUnknown`.
    pub reason: Option<&'static str>,
}

/// The reason of a `Refusal` that says that the program itself cannot be run: there is no such
/// file, or nobody may execute it. Trying again brings nothing unless somebody changes something.
pub const START_ERROR: &str = "StartError";

/// Why a container does not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {message}")]
pub struct Refusal {
    /// As a container's status has it: `RunContainerError`.
    pub reason: &'static str,
    pub message: String,
}

/// What containers are started from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    pub names: Vec<String>,
    /// 0 where nobody knows.
    pub bytes: u64,
}

/// Told with the UID of a pod of which a container began or ended.
pub type Listener = Arc<dyn Fn(&str) + Send + Sync>;

/// Runs containers.
///
/// Guarantees: of one `ContainerId` there is at most one process tree, ever. What runs outlives
/// whoever uses this trait and is found again by `containers` after a restart, exit codes too.
/// Nothing that this runtime did not start is touched.
///
/// Assumptions: one user of the trait at a time for a place of records.
///
/// Errors: a `Refusal` is for the status of the container; trying again is the caller's.
#[async_trait::async_trait]
pub trait PodRuntime: Send + Sync + 'static {
    /// `process`; before `://` in container IDs.
    fn name(&self) -> &'static str;

    fn version(&self) -> String;

    /// Says whom to tell of changes, in place of whom it was before.
    fn listen(&self, listener: Listener);

    /// Makes what the pod's containers share, or finds it again. It goes with `remove_pod`.
    async fn sandbox(&self, spec: &SandboxSpec) -> Result<Sandbox, Refusal>;

    /// The sandbox of a pod, if it was made or found again, and is whole.
    fn sandbox_of(&self, pod: &str) -> Option<Sandbox>;

    /// Everything there is, by pod; a pod of which only its sandbox is there has no containers.
    fn containers(&self) -> BTreeMap<String, Vec<Container>>;

    /// The containers of a pod, in the order of names and attempts.
    fn of_pod(&self, pod: &str) -> Vec<Container>;

    /// Starts a container. Returns when its program runs.
    async fn start(&self, spec: &ContainerSpec) -> Result<(), Refusal>;

    /// Asks it to end, and after a time makes it. Returns when nothing of it runs.
    async fn stop(&self, id: &ContainerId, grace: Duration) -> Result<(), Refusal>;

    /// Returns when the container does not run, or is not known.
    async fn ended(&self, id: &ContainerId);

    /// Forgets a container that ended.
    async fn remove(&self, id: &ContainerId);

    /// Forgets a pod of which nothing runs, with its logs.
    async fn remove_pod(&self, pod: &str);

    /// Where images are, for a runtime whose containers are made of them. Without it containers see
    /// the files of the machine, and an image is but a name.
    fn image_store(&self) -> Option<&dyn ImageStore> {
        None
    }

    /// The lowest score for the killer of processes that its containers can be given.
    fn oom_score_min(&self) -> i32 {
        OOM_SCORE_MIN
    }

    /// Why nothing can be started or stopped for the time being, if that is so: whoever does the
    /// work does not answer. What was known before is told meanwhile.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// Returns the resources that the processes of a pod use, if the runtime can measure them.
    fn usage(&self, _pod: &str) -> Option<PodUsage> {
        None
    }

    /// What containers can be started from without pulling, as far as that is known.
    fn images(&self) -> Vec<Image> {
        let containers = self.containers().into_values().flatten();
        let names: BTreeSet<String> = containers.map(|container| container.image).collect();
        names.into_iter().map(|name| Image { names: vec![name], bytes: 0 }).collect()
    }

    /// Where the output of a run is, in the format of CRI.
    fn log(&self, id: &ContainerId) -> PathBuf;

    /// Runs a program beside a container, with its environment and mounts.
    async fn exec(&self, id: &ContainerId, command: &[String]) -> Result<Executed, Refusal>;

    /// The same with its streams in the hands of the caller.
    async fn run_beside(
        &self,
        id: &ContainerId,
        command: &[String],
        wanted: &Streams,
    ) -> Result<Program, Refusal> {
        let _ = (id, command, wanted);
        Err(Refusal::unable("run programs beside containers"))
    }

    /// The streams of the container's own program, from here on.
    async fn attach(&self, id: &ContainerId, wanted: &Streams) -> Result<Program, Refusal> {
        let _ = (id, wanted);
        Err(Refusal::unable("attach to containers"))
    }

    /// A connection to a port as from within the pod, which may have an address of its own.
    async fn dial(
        &self,
        pod: &str,
        address: Option<IpAddr>,
        port: u16,
    ) -> Result<Box<dyn Duplex>, Refusal> {
        let _ = (pod, address, port);
        Err(Refusal::unable("connect to ports of pods"))
    }
}

/// Resources that the processes of a pod use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodUsage {
    /// Without the page cache that the kernel can give up at once.
    pub memory_bytes: u64,
    pub processes: u64,
}

/// What came of a program that was run beside a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executed {
    pub code: i32,
    /// What it wrote, up to a bound.
    pub output: Vec<u8>,
}

impl Refusal {
    fn unable(what: &str) -> Refusal {
        Refusal { reason: "Unsupported", message: format!("this runtime does not {what}") }
    }
}

impl ContainerId {
    pub fn new(pod: &str, name: &str, attempt: u32) -> ContainerId {
        ContainerId { pod: pod.to_owned(), name: name.to_owned(), attempt }
    }
}

impl Container {
    pub fn is_running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }
}
