//! `setpoint down`: stops what runs on a data directory.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::confirm::Consent;
use super::demo::cluster::kill_machines;
use super::exit::{self, Failure};
use super::{Context, small_runtime};
use crate::directories;
use crate::instance::Instance;
use crate::kubeconfig;
use crate::node_agent;
use crate::process;

const POLL: Duration = Duration::from_millis(5);

const AFTER_HELP: &str = "\
Examples:
  setpoint down                       stop what `setpoint up` started
  setpoint down --pods                and end the pods of this machine as well
  setpoint down --data-dir ./data     the one of another data directory
  setpoint down --delete-data         and remove what it has stored; asks at a terminal

Data is kept unless --delete-data says otherwise. The context that `up` put into your kubeconfig is
taken out of it. Pods go on running, and are found again by the next `setpoint up`, unless --pods
says otherwise. When nothing runs, that is said and the exit code is 0.";

/// Stop the cluster.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Down {
    /// Data directory of the cluster [env: SETPOINT_DATA_DIR].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// How many seconds to wait.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=86_400))]
    timeout: u64,

    /// End what runs in pods of this machine too. The next `up` starts again what is to run always.
    #[arg(long)]
    pods: bool,

    /// End pods and machines too, and remove what the data directory holds: objects, history, keys.
    /// What is in a MySQL, an etcd or volumes elsewhere stays there.
    #[arg(long)]
    delete_data: bool,

    #[command(flatten)]
    consent: Consent,
}

/// What a data directory holds of ours; what else somebody put there is not removed.
const OURS: [&str; 13] = [
    "console.html",
    "controller",
    "images",
    "kubeconfig",
    "machines",
    "node",
    "pki",
    "setpoint.json",
    "setpoint.log",
    "setpoint.log.1",
    "setpoint.sock",
    "store",
    "store.upgrades",
];

impl Down {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let data_dir = directories::data(self.data_dir.as_deref())?;
        if self.delete_data {
            self.ask(&data_dir)?;
        }
        let ends_pods = self.pods || self.delete_data;
        let pid = match Instance::running(&data_dir)? {
            Some(instance) => {
                small_runtime()?.block_on(self.stop(&instance))?;
                Some(instance.pid)
            }
            None => None,
        };
        // It may never have been there, or be somebody else's to write.
        let kubeconfig = kubeconfig::remove_from_users(&data_dir).ok().flatten();
        let state = if pid.is_some() { "stopped" } else { "not-running" };
        let containers = match ends_pods {
            true => small_runtime()?.block_on(node_agent::stop_containers(&data_dir))?,
            false => small_runtime()?.block_on(node_agent::count_containers(&data_dir)),
        };
        let containers = Containers { count: containers, are_stopped: ends_pods };
        if self.delete_data {
            kill_machines(&data_dir);
            remove(&data_dir)?;
        }
        let is_deleted = self.delete_data;
        context.output.print(&Report {
            state,
            pid,
            data_dir,
            kubeconfig,
            containers,
            is_deleted,
        })?;
        Ok(ExitCode::SUCCESS)
    }

    /// Whoever sits at a terminal types the name of the directory.
    fn ask(&self, data: &Path) -> Result<()> {
        if !data.join("pki").is_dir() {
            let what = format!("there is no cluster in {}", data.display());
            return Err(anyhow!(Failure::new(exit::NOT_FOUND, what).hint("see `setpoint ls`")));
        }
        let name = data.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let what = format!("All that is stored in {} goes, for good.", data.display());
        self.consent.ask(&what, &name)
    }

    async fn stop(&self, instance: &Instance) -> Result<()> {
        let pid = instance.pid;
        let deadline = Instant::now() + Duration::from_secs(self.timeout);
        if let Err(error) = process::ask_to_stop(pid)
            && instance.is_alive()
        {
            let what = format!("could not stop process {pid}; run this as the user who started it");
            return Err(error).context(what);
        }
        while instance.is_alive() {
            if Instant::now() > deadline {
                bail!(
                    "process {pid} still runs after {} s; wait with --timeout SECONDS, or end it \
                     with `kill -9 {pid}`: no acknowledged write is lost",
                    self.timeout
                );
            }
            sleep(POLL).await;
        }
        Ok(())
    }
}

/// Removes what is ours, and the directory where nothing else is left in it.
fn remove(data: &Path) -> Result<()> {
    for path in OURS.iter().map(|name| data.join(name)) {
        let removed = match path.symlink_metadata() {
            Err(_) => continue,
            Ok(found) if found.is_dir() => fs::remove_dir_all(&path),
            Ok(_) => fs::remove_file(&path),
        };
        removed.with_context(|| format!("could not remove {}", path.display()))?;
    }
    // Fails when something of somebody else is in it, and then it must stay.
    let _ = fs::remove_dir(data);
    Ok(())
}

#[derive(Serialize)]
struct Report {
    state: &'static str,
    pid: Option<u32>,
    data_dir: PathBuf,
    /// The file that its context was taken out of.
    kubeconfig: Option<PathBuf>,
    containers: Containers,
    is_deleted: bool,
}

/// Those that ran on this machine.
#[derive(Serialize)]
struct Containers {
    count: usize,
    are_stopped: bool,
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let data = self.data_dir.display();
        match self.pid {
            Some(pid) => write!(formatter, "stopped process {pid} (data {data})")?,
            None => write!(formatter, "nothing runs on {data}")?,
        }
        match &self.containers {
            Containers { count: 0, .. } => {}
            Containers { count: 1, are_stopped: true } => {
                write!(formatter, "\nstopped 1 container")?;
            }
            Containers { count, are_stopped: true } => {
                write!(formatter, "\nstopped {count} containers")?;
            }
            Containers { count, are_stopped: false } => write!(
                formatter,
                "\n{count} containers go on running; the next `setpoint up` finds them again, and \
                 `setpoint down --pods` ends them"
            )?,
        }
        match self.is_deleted {
            true => write!(formatter, "\nremoved what was stored in {data}"),
            false => Ok(()),
        }
    }
}
