//! Programs beside containers and connections to their ports, as `kubectl exec`, `attach` and
//! `port-forward` ask for them.

use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::runtime::{Container, ContainerId, PodRuntime};

/// Which streams of a program are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
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
pub struct Streams {
    pub stdin: Option<Input>,
    pub stdout: Option<Output>,
    pub stderr: Option<Output>,
    pub resize: Option<Resize>,
    /// Its exit code, or why there is none.
    pub end: BoxFuture<'static, Result<i32, String>>,
}

/// Both directions of a connection.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// The run of a container that runs.
pub fn running(runtime: &Arc<dyn PodRuntime>, pod: &str, container: &str) -> Option<ContainerId> {
    let runs = runtime.of_pod(pod).into_iter();
    let mut runs = runs.filter(|run| run.id.name == container).filter(Container::is_running);
    runs.next_back().map(|run| run.id)
}

/// Runs a program beside a container; without a command, joins the container's own.
pub async fn open(
    runtime: &Arc<dyn PodRuntime>,
    (pod, container): (&str, &str),
    command: &[String],
    wanted: &Wanted,
) -> Result<Streams, String> {
    let id = running(runtime, pod, container);
    let id = id.ok_or_else(|| format!("container {container:?} is not running"))?;
    let opened = match command.is_empty() {
        true => runtime.attach(&id, wanted).await,
        false => runtime.run_beside(&id, command, wanted).await,
    };
    opened.map_err(|refusal| refusal.message)
}

/// Connects to a port as from within a pod.
pub async fn dial(
    runtime: &Arc<dyn PodRuntime>,
    (pod, address): (&str, &str),
    port: u16,
) -> Result<Box<dyn Duplex>, String> {
    runtime.dial(pod, address.parse().ok(), port).await.map_err(|refusal| refusal.message)
}
