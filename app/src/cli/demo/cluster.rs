//! The cluster of a demonstration: this program again, in a directory of its own that is gone
//! afterwards, with nothing of the user's touched.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use reconcile::Environment;
use reconcile::environment::System;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep};

use super::Keeping;
use crate::cli::connect::Target;
use crate::node_agent;
use crate::process;

/// How long it may take until it is ready.
const READY_MAX: Duration = Duration::from_secs(60);
/// How long it may take to stop; then it is killed.
const STOP_MAX: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(10);
/// Images of guests come from this very process, which is on this machine.
const CONFIG: &str = "machines: {images: everything}\nlog: {level: info, format: text}\n";
const LOG_LINES_MAX: usize = 20;

pub struct Cluster {
    /// What is removed in the end.
    pub directory: PathBuf,
    data: PathBuf,
    child: Child,
    is_kept: bool,
    /// As the program measured it.
    pub ready_millis: u64,
    pub node: String,
}

impl Cluster {
    /// Starts it and waits until it is ready.
    pub async fn start(keeping: Keeping) -> Result<Cluster> {
        let directory = make_directory()?;
        match (Cluster::start_in(&directory).await, keeping) {
            (Ok(cluster), _) => Ok(cluster),
            (Err(error), Keeping::Yes) => {
                let place = directory.display();
                Err(error.context(format!("the cluster did not start; its files are in {place}")))
            }
            (Err(error), Keeping::No) => {
                let _ = fs::remove_dir_all(&directory);
                Err(error.context("the cluster did not start"))
            }
        }
    }

    async fn start_in(directory: &Path) -> Result<Cluster> {
        let data = directory.join("data");
        let config = directory.join("config.yaml");
        fs::write(&config, CONFIG).context("could not write a configuration")?;
        let log = File::create(directory.join("setpoint.log")).context("could not make a log")?;
        let program = std::env::current_exe().context("could not find this program's file")?;
        let (sender, receiver) = pipe::pipe().context("could not make a pipe")?;
        let mut command = Command::new(program);
        // In a session of its own: Ctrl-C is for us, and we stop it in order.
        command.args(["start", "--detached", "--store", "embedded", "--output", "json"]);
        command.args(["--listen", "127.0.0.1:0", "--runtime", "process"]);
        command.arg("--data-dir").arg(&data).arg("--config").arg(&config);
        command.env_remove("KUBECONFIG").stdin(Stdio::null()).stderr(log);
        command.stdout(sender.into_blocking_fd().context("could not make a pipe")?);
        let child = command.spawn().context("could not start this program again")?;
        // Only the child holds the other end from here on.
        drop(command);
        let (ready_millis, node) = (0, String::new());
        let directory = directory.to_owned();
        let mut cluster = Cluster { directory, data, child, is_kept: false, ready_millis, node };
        let line = tokio::time::timeout(READY_MAX, first_line(receiver)).await;
        let ready = match line {
            Ok(Ok(line)) => line,
            other => {
                cluster.stop().await;
                let said = last_lines(&cluster.directory.join("setpoint.log"));
                match other {
                    Ok(Err(error)) => return Err(error.context(said)),
                    _ => bail!("it was not ready after {} s: {said}", READY_MAX.as_secs()),
                }
            }
        };
        cluster.ready_millis = ready["ready_millis"].as_u64().unwrap_or_default();
        cluster.node = ready["node"].as_str().unwrap_or_default().to_owned();
        Ok(cluster)
    }

    /// How commands reach it.
    pub fn target(&self) -> Target {
        Target::of_data(&self.data)
    }

    /// Ends everything that it started, and removes what it wrote.
    pub async fn remove(mut self) -> Result<()> {
        self.stop().await;
        let containers = node_agent::stop_containers(&self.data).await;
        kill_machines(&self.data);
        containers.context("a container of the demonstration goes on")?;
        fs::remove_dir_all(&self.directory)
            .with_context(|| format!("could not remove {}", self.directory.display()))
    }

    /// Leaves the cluster running and returns its directory.
    pub fn keep(mut self) -> PathBuf {
        self.is_kept = true;
        self.directory.clone()
    }

    async fn stop(&mut self) {
        let deadline = Instant::now() + STOP_MAX;
        let _ = process::ask_to_stop(self.child.id());
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            sleep(POLL).await;
        }
    }
}

/// Whatever became of the demonstration, its program and its files do not outlive it.
impl Drop for Cluster {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn make_directory() -> Result<PathBuf> {
    let name = format!("setpoint-demo-{:08x}", System.random() & 0xffff_ffff);
    let directory = std::env::temp_dir().join(name);
    fs::DirBuilder::new().mode(0o700).create(&directory).with_context(|| {
        format!("could not make {}; set TMPDIR to another directory", directory.display())
    })?;
    Ok(directory)
}

/// What the program says when it is ready.
async fn first_line(output: pipe::Receiver) -> Result<Value> {
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).await.context("it says nothing")?;
    if line.is_empty() {
        bail!("it ended before it was ready");
    }
    serde_json::from_str(&line).context("it says something else than expected")
}

fn last_lines(log: &Path) -> String {
    let mut text = String::new();
    let _ = File::open(log).and_then(|mut file| file.read_to_string(&mut text));
    let lines: Vec<&str> = text.lines().collect();
    let errors = lines.iter().filter(|line| line.starts_with("error:"));
    let errors: Vec<&str> = errors.copied().collect();
    let chosen = match errors.is_empty() {
        true => &lines[lines.len().saturating_sub(LOG_LINES_MAX)..],
        false => &errors,
    };
    chosen.join("; ")
}

/// Guests outlive the program; those of the demonstration, and of data that is deleted, do not.
pub fn kill_machines(data: &Path) {
    let place = data.join("machines/machines");
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let record = fs::read(entry.path().join("process.json")).unwrap_or_default();
        let record: Value = serde_json::from_slice(&record).unwrap_or_default();
        let pid = record["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
        // A number may mean another process by now; when it began tells.
        if let (Some(pid), Some(began)) = (pid, record["began"].as_u64())
            && process::began(pid) == Some(began)
        {
            let _ = process::kill(pid);
        }
    }
}
