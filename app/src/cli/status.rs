//! `setpoint status`: what runs on a data directory.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::{Context, exit, small_runtime};
use crate::census::Census;
use crate::client;
use crate::directories;
use crate::health;
use crate::instance::Instance;
use crate::kubeconfig;
use crate::output;
use crate::time;

const AFTER_HELP: &str = "\
Examples:
  setpoint status                       what `setpoint up` started
  setpoint status -o json | jq .url     for a script

Exit codes:
  0  it runs and is well
  1  it runs and is not well, or could not be asked
  5  nothing runs";

/// Show what runs.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Status {
    /// The data directory to look at. Else SETPOINT_DATA_DIR, $XDG_DATA_HOME/setpoint or
    /// ~/.local/share/setpoint.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl Status {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let data_dir = directories::data(self.data_dir.as_deref())?;
        let Some(instance) = Instance::running(&data_dir)? else {
            context.output.print(&Stopped { state: "not-running", data_dir })?;
            return Ok(ExitCode::from(exit::NOT_FOUND));
        };
        let told = small_runtime()?.block_on(ask(&data_dir));
        let (health, told) = match told {
            Ok(told) => (told.health.clone(), Some(told)),
            Err(error) => (output::one_line(&error), None),
        };
        let unwell = told.iter().flat_map(|told| told.unwell.clone()).collect();
        let code = if health == "ok" { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        context.output.print(&Running {
            state: "running",
            health,
            url: instance.url(),
            since: time::rfc3339(instance.started()),
            up_seconds: instance.up().as_secs(),
            revision: told.as_ref().map(|told| told.revision),
            compacted: told.as_ref().map(|told| told.compacted),
            census: told.and_then(|told| told.census),
            unwell,
            kubeconfig: kubeconfig::in_data(&data_dir),
            data_dir,
            instance,
        })?;
        Ok(code)
    }
}

async fn ask(data: &Path) -> Result<health::Status> {
    let (_, body) = client::get(data, "/statusz").await?;
    Ok(serde_json::from_slice(&body)?)
}

#[derive(Serialize)]
struct Running {
    state: &'static str,
    health: String,
    url: Option<String>,
    since: String,
    up_seconds: u64,
    revision: Option<u64>,
    compacted: Option<u64>,
    census: Option<Census>,
    /// Components that are not well, and how they are.
    unwell: Vec<(String, String)>,
    kubeconfig: PathBuf,
    data_dir: PathBuf,
    #[serde(flatten)]
    instance: Instance,
}

impl fmt::Display for Running {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Instance { pid, store, node, version, config, .. } = &self.instance;
        let up = time::elapsed(Duration::from_secs(self.up_seconds));
        let revision = match self.revision {
            Some(revision) => format!(", revision {revision}"),
            None => String::new(),
        };
        writeln!(formatter, "state    running ({})", self.health)?;
        match &self.url {
            Some(url) => {
                writeln!(formatter, "url      {url}")?;
                writeln!(formatter, "clients  kubectl --kubeconfig {}", self.kubeconfig.display())?;
            }
            None => writeln!(formatter, "url      none: the API is served to this process alone")?,
        }
        writeln!(formatter, "process  {pid}, since {} ({up})", self.since)?;
        writeln!(formatter, "node     {node}")?;
        if let Some(census) = &self.census {
            let Census { nodes, nodes_ready, pods, pods_running, pods_waiting } = census;
            writeln!(formatter, "nodes    {nodes_ready} of {nodes} ready")?;
            writeln!(formatter, "pods     {pods}: {pods_running} running, {pods_waiting} waiting")?;
        }
        writeln!(formatter, "store    {store}{revision}")?;
        writeln!(formatter, "data     {}", self.data_dir.display())?;
        writeln!(formatter, "config   {config}")?;
        for (name, state) in &self.unwell {
            writeln!(formatter, "unwell   {name}: {state}")?;
        }
        write!(formatter, "version  {version}")
    }
}

#[derive(Serialize)]
struct Stopped {
    state: &'static str,
    data_dir: PathBuf,
}

impl fmt::Display for Stopped {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let data = self.data_dir.display();
        write!(formatter, "nothing runs on {data}; start it with `setpoint up`")
    }
}
