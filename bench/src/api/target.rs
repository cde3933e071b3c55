//! What is measured: a server that was started for it, or one that runs already.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use store::{Environment, System};

use super::client::{Connection, Http};
use super::kubeconfig::{self, Access};
use super::{Options, items};

/// A server.
pub struct Target {
    pub authority: String,
    pub token: Option<String>,
    /// For HTTP/1.1 and HTTP/2, by what is offered in the handshake.
    pub tls: [Arc<rustls::ClientConfig>; 2],
    pub pid: Option<u32>,
    /// A namespace of this run.
    pub namespace: String,
    pub started: Option<Started>,
}

/// A process of ours, ended when it is dropped.
pub struct Started {
    child: Child,
    pub directory: PathBuf,
}

impl Target {
    pub async fn prepare(options: &Options) -> Result<Target> {
        match &options.kubeconfig {
            Some(path) => Ok(Target::of(kubeconfig::read(path)?, options.pid, None)),
            None => {
                let directory = options.directory.join(format!(".bench-{:016x}", System.random()));
                Target::start(options, directory)
            }
        }
    }

    /// Starts a server on a directory and waits until it says that it is ready.
    pub fn start(options: &Options, directory: PathBuf) -> Result<Target> {
        Target::launch(options.program.as_deref(), directory, &["--components", "api"])
    }

    /// The same with arguments of one's own.
    pub fn launch(program: Option<&Path>, directory: PathBuf, more: &[&str]) -> Result<Target> {
        std::fs::create_dir_all(&directory)?;
        let directory = directory.canonicalize()?;
        let program = match program {
            Some(program) => program.canonicalize()?,
            None => std::env::current_exe()?.with_file_name("setpoint"),
        };
        let mut command = Command::new(&program);
        command.args(["start", "--listen", "127.0.0.1:0", "--store", "embedded", "--data-dir"]);
        command.arg(&directory).args(more).current_dir(&directory);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let starting = || format!("could not start {}", program.display());
        let mut child = command.spawn().with_context(starting)?;
        let output = child.stdout.take().context("the output must be piped")?;
        let started = Started { child, directory };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        ensure!(!line.is_empty(), "{} ended before it was ready", program.display());
        let access = kubeconfig::read(&started.directory.join("kubeconfig"))?;
        let pid = started.child.id();
        Ok(Target::of(access, Some(pid), Some(started)))
    }

    fn of(access: Access, pid: Option<u32>, started: Option<Started>) -> Target {
        let offering = |protocol: &[u8]| {
            let mut tls = access.tls.clone();
            tls.alpn_protocols = vec![protocol.to_vec()];
            Arc::new(tls)
        };
        Target {
            tls: [offering(b"http/1.1"), offering(b"h2")],
            authority: access.authority,
            token: access.token,
            pid,
            namespace: format!("bench-{:08x}", System.random() as u32),
            started,
        }
    }

    /// Leaves nothing behind.
    pub async fn clean_up(&self) -> Result<()> {
        let mut connection = Connection::open(self, Http::One).await?;
        for prefix in [items::ITEM, ""] {
            let path = format!("/api/v1/namespaces/{}", items::namespace(self, prefix));
            connection.send(self.request("DELETE", &path, String::new())).await?;
        }
        Ok(())
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Started {
    /// Copies its files while it runs, which is what a crash would leave.
    pub fn copy_to(&self, directory: &Path) -> Result<()> {
        copy(&self.directory, directory)
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (kind, to) = (entry.file_type()?, to.join(entry.file_name()));
        match kind {
            kind if kind.is_dir() => copy(&entry.path(), &to)?,
            kind if kind.is_file() => drop(std::fs::copy(entry.path(), &to)?),
            // A socket belongs to the process that listens on it.
            _ => {}
        }
    }
    Ok(())
}
