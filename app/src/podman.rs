//! Somebody who answers for Podman. It runs containers without a daemon, so where it is asked for
//! and nobody listens, its service is started here, on a socket in the data directory, and started
//! again when it ends. Containers do not end with it.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::time::Instant;

use crate::former::{self, Engine};
use crate::node_agent::DIRECTORY;
use crate::runtimes::{self, Runtime, Wanted};

const PROGRAM: &str = "podman";
/// In the node's directory.
const SOCKET: &str = "podman.sock";
/// The longest path that a socket can have.
const SOCKET_BYTES_MAX: usize = 107;
/// How long it may take to answer, and how often it is asked.
const APPEARS_MAX: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(100);
/// How often it is looked whether it goes on.
const CHECK: Duration = Duration::from_secs(1);

/// A service that ends with this value.
pub struct Service {
    socket: PathBuf,
    /// `None` where an earlier one of ours still answers.
    child: Option<Child>,
}

/// Whether it could be started.
pub fn is_installed() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(PROGRAM).is_file())
}

/// Starts it where Podman is asked for, nobody says where, and nobody answers; or where nobody says
/// anything, and it was so before.
pub async fn serve(wanted: &Wanted, data: &Path) -> Option<Service> {
    let own = data.join(DIRECTORY).join(SOCKET);
    let before = Wanted { runtime: Runtime::Podman, socket: Some(own.clone()) };
    let is_missing = match (wanted.runtime, &wanted.socket) {
        (Runtime::Podman, None) => wanted.choose().await.version.is_none(),
        (Runtime::Auto, None) => former::of(data) == Some(before),
        _ => false,
    };
    if is_missing { Service::start(&own).await } else { None }
}

/// Starts it again whenever it ended, until this is dropped.
pub async fn supervise(service: Option<Service>) {
    let Some(mut service) = service else { return std::future::pending().await };
    loop {
        tokio::time::sleep(CHECK).await;
        if !service.runs() && !service.answers().await {
            tracing::info!("podman's service is started again");
            service.spawn();
        }
    }
}

/// Starts it for who has to do with containers of a node that has stopped, if it was the node's.
pub async fn serve_again(engine: &Engine, directory: &Path) -> Option<Service> {
    match engine.runtime == Runtime::Podman && engine.socket == directory.join(SOCKET) {
        true => Service::start(&engine.socket).await,
        false => None,
    }
}

impl Service {
    async fn start(socket: &Path) -> Option<Service> {
        let mut service = Service { socket: socket.to_owned(), child: None };
        if service.answers().await {
            return Some(service);
        }
        if socket.as_os_str().as_bytes().len() > SOCKET_BYTES_MAX {
            tracing::warn!(socket = %socket.display(), "no socket can have so long a path");
            return None;
        }
        let began = Instant::now();
        service.spawn();
        while !service.answers().await {
            if !service.runs() || began.elapsed() > APPEARS_MAX {
                tracing::warn!(socket = %socket.display(), "podman's service does not answer");
                return None;
            }
            tokio::time::sleep(LOOK).await;
        }
        Some(service)
    }

    /// What is asked for when it answers.
    pub fn wanted(&self) -> Wanted {
        Wanted { runtime: Runtime::Podman, socket: Some(self.socket.clone()) }
    }

    async fn answers(&self) -> bool {
        runtimes::ask(Runtime::Podman, self.socket.clone()).await.is_ok()
    }

    fn runs(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    fn spawn(&mut self) {
        match self.try_spawn() {
            Ok(child) => self.child = Some(child),
            Err(error) => tracing::warn!(%error, "podman's service is not started"),
        }
    }

    fn try_spawn(&self) -> io::Result<Child> {
        if let Some(folder) = self.socket.parent() {
            fs::create_dir_all(folder)?;
        }
        // Of one that was killed.
        let _ = fs::remove_file(&self.socket);
        let mut command = Command::new(PROGRAM);
        command.args(["system", "service", "--time=0"]);
        command.arg(format!("unix://{}", self.socket.display()));
        // A key of the terminal is not meant for it.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null());
        command.spawn()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
