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
use crate::log_file;
use crate::output;
use crate::time;

/// Parts of the startup report that are shown.
const SHOWN: [&str; 3] = ["runtime", "python", "control"];

const AFTER_HELP: &str = "\
Examples:
  setpoint status                       what `setpoint up` started
  setpoint status -o json | jq .url     for a script

Exit codes:
  0  it runs and is well
  1  it runs and is not well, or could not be asked
  5  nothing runs";

/// Show cluster status.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Status {
    /// Data directory of the cluster [env: SETPOINT_DATA_DIR].
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
        let unwell: Vec<_> = told.iter().flat_map(|told| told.unwell.clone()).collect();
        let census = told.as_ref().and_then(|told| told.census.clone());
        let is_well = health == "ok";
        let mut hints = hints(census.as_ref());
        hints.extend(super::keys::expiry_hints(&data_dir));
        if !is_well || !unwell.is_empty() {
            let log = data_dir.join(log_file::NAME);
            hints.push(format!("{} has the log; `setpoint doctor` looks further", log.display()));
        }
        let code = if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        context.output.print(&Running {
            state: "running",
            health,
            url: instance.url(),
            since: time::rfc3339(instance.started()),
            up_seconds: instance.up().as_secs(),
            revision: told.as_ref().map(|told| told.revision),
            compacted: told.as_ref().map(|told| told.compacted),
            census,
            unwell,
            hints,
            kubeconfig: kubeconfig::in_data(&data_dir),
            data_dir,
            instance,
        })?;
        Ok(code)
    }
}

/// What to do about nodes and pods that are not as they should be.
fn hints(census: Option<&Census>) -> Vec<String> {
    let mut hints = Vec::new();
    let Some(census) = census else { return hints };
    if census.nodes_ready < census.nodes {
        hints.push("`setpoint describe nodes` says why a node is not ready".to_owned());
    }
    if census.pods_waiting > 0 {
        hints.push("`setpoint why pod/NAME` says what a pod waits for".to_owned());
    }
    hints
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
    /// What to do about what is not well.
    hints: Vec<String>,
    kubeconfig: PathBuf,
    data_dir: PathBuf,
    #[serde(flatten)]
    instance: Instance,
}

impl fmt::Display for Running {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Instance { pid, store, node, version, config, parts, .. } = &self.instance;
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
        for part in parts.iter().filter(|part| SHOWN.contains(&part.name.as_str())) {
            writeln!(formatter, "{:<8} {}", part.name, part.detail)?;
        }
        writeln!(formatter, "store    {store}{revision}")?;
        writeln!(formatter, "data     {}", self.data_dir.display())?;
        writeln!(formatter, "config   {config}")?;
        for (name, state) in &self.unwell {
            writeln!(formatter, "unwell   {name}: {state}")?;
        }
        for hint in &self.hints {
            writeln!(formatter, "hint     {hint}")?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_as_it_should_be_has_a_hint() {
        let well = Census { nodes: 1, nodes_ready: 1, pods: 2, pods_running: 2, pods_waiting: 0 };
        assert!(hints(Some(&well)).is_empty() && hints(None).is_empty());
        let unwell = Census { nodes: 2, pods_waiting: 1, ..well };
        let told = hints(Some(&unwell)).join("\n");
        assert!(told.contains("describe nodes") && told.contains("why pod/NAME"), "{told}");
    }
}
