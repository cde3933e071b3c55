//! Runs this machine as a node of the cluster, beside the API server.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use apiserver::answer::Pieces;
use apiserver::connected::{
    DialRequest, Duplex, LogRequest, Missing, Node, Program, ProgramRequest,
};
use async_trait::async_trait;
use node::agent::Options;
use node::machine;
use node::runtime::PodRuntime;
use node::runtimes::process::{self, Process};
use node::server::{logs, streams};
use reconcile::Context;

/// In the data directory: records of containers, their logs, volumes.
const DIRECTORY: &str = "node";
/// The argument that makes this program the shim of a container.
const SHIM: &str = "container-shim";
/// The file of this program, even when another has taken its place.
const PROGRAM: &str = "/proc/self/exe";

/// What runs containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Runtime {
    /// The best there is: processes.
    Auto,
    /// Every container is a process of this machine; images are not pulled.
    Process,
    /// Nothing runs here; the node is there, but not ready.
    None,
}

impl Runtime {
    /// As the command line has it.
    pub fn name(self) -> &'static str {
        match self {
            Runtime::Auto => "auto",
            Runtime::Process => "process",
            Runtime::None => "none",
        }
    }
}

/// What the agent is told at the start.
#[derive(Clone, Debug)]
pub struct Settings {
    pub node: String,
    pub data: PathBuf,
    pub api: SocketAddr,
    pub runtime: Runtime,
}

/// Does the work of a container's shim, if this process is one.
pub fn shim_if_asked() -> Option<std::process::ExitCode> {
    let is_shim = std::env::args_os().nth(1).is_some_and(|argument| argument == SHIM);
    if is_shim { process::shim::main_if_asked() } else { None }
}

/// Opens the runtime; containers that run are found again.
pub fn open(settings: &Settings) -> Result<Options> {
    let directory = settings.data.join(DIRECTORY);
    let runtime = match settings.runtime {
        Runtime::Auto | Runtime::Process => Some(open_process(&directory)?),
        Runtime::None => None,
    };
    Ok(Options {
        node: settings.node.clone(),
        directory,
        api: settings.api,
        address: machine::address(),
        runtime,
    })
}

fn open_process(directory: &Path) -> Result<Arc<dyn PodRuntime>> {
    let shim = vec![PROGRAM.into(), SHIM.into()];
    let options = process::Options { directory: directory.to_owned(), shim };
    let process = Process::open(options)
        .with_context(|| format!("could not open the records in {}", directory.display()))?;
    Ok(Arc::new(process))
}

/// Runs the agent until it is dropped.
pub async fn run(context: Context, options: Options) {
    node::agent::run(context, options).await;
}

/// What the API server asks the node for.
pub struct Link {
    pub node: String,
    pub runtime: Arc<dyn PodRuntime>,
}

#[async_trait]
impl Node for Link {
    fn name(&self) -> &str {
        &self.node
    }

    async fn logs(&self, request: LogRequest) -> Result<Pieces, Missing> {
        let wanted = logs::Wanted {
            pod: request.pod,
            container: request.container,
            follow: request.follow,
            previous: request.previous,
            timestamps: request.timestamps,
            tail_lines: request.tail_lines,
            limit_bytes: request.limit_bytes,
            since_microseconds: request.since,
        };
        logs::open(&self.runtime, &wanted).map_err(|missing| match missing {
            logs::Missing::NotStarted => Missing::NotStarted,
            logs::Missing::NoPrevious => Missing::NoPrevious,
            logs::Missing::Unreadable => Missing::Unreadable,
        })
    }

    async fn runs(&self, pod: &str, container: &str) -> bool {
        streams::running(&self.runtime, pod, container).is_some()
    }

    async fn program(&self, request: ProgramRequest) -> Result<Program, String> {
        let ProgramRequest { pod, container, command, stdin, stdout, stderr, tty } = request;
        let wanted = streams::Wanted { stdin, stdout, stderr, tty };
        let opened = streams::open(&self.runtime, (&pod, &container), &command, &wanted).await;
        opened.map(|streams::Streams { stdin, stdout, stderr, resize, end }| Program {
            stdin,
            stdout,
            stderr,
            resize,
            end,
        })
    }

    async fn dial(&self, request: DialRequest) -> Result<Box<dyn Duplex>, String> {
        let DialRequest { pod, address, port } = request;
        let stream = streams::dial(&self.runtime, (&pod, &address), port).await?;
        Ok(Box::new(stream))
    }
}
