//! `setpoint ls`: the clusters of this machine that `setpoint up` has started.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::wait::watch;
use super::{Context, small_runtime};
use crate::directories;
use crate::instance::Instance;
use crate::time;

/// In the directory for state: a line for each data directory.
const FILE_NAME: &str = "clusters";
const CLUSTERS_MAX: usize = 256;
/// Files that are looked at for the size of one cluster.
const FILES_MAX: usize = 10_000;

const AFTER_HELP: &str = "\
Examples:
  setpoint ls
  setpoint ls -o name       the data directories, a line each
  setpoint ls --watch       again whenever something changes

A cluster whose data directory was removed is not shown.";

/// List the clusters of this machine.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Ls {
    /// Show them again whenever they change.
    #[arg(short, long)]
    watch: bool,
}

#[derive(Serialize)]
#[serde(transparent)]
struct Listed {
    clusters: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    /// The data directory, which is what a cluster goes by.
    name: PathBuf,
    state: &'static str,
    url: Option<String>,
    store: Option<String>,
    pid: Option<u32>,
    up_seconds: Option<u64>,
    bytes: u64,
}

impl Ls {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        if self.watch {
            return small_runtime()?.block_on(watch(context, || async { list() }));
        }
        context.output.print(&list()?)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Remembers a data directory, so that it is listed. That it cannot be is no reason to fail.
pub fn remember(data: &Path) {
    let Ok(state) = directories::state() else { return };
    let mut known = known(&state);
    if !known.insert(data.to_owned()) || known.len() > CLUSTERS_MAX {
        return;
    }
    let there = known.iter().filter(|path| path.is_dir()).filter_map(|path| path.to_str());
    let text: String = there.map(|path| format!("{path}\n")).collect();
    let _ = fs::create_dir_all(&state).and_then(|()| fs::write(state.join(FILE_NAME), text));
}

/// The other data directories that are remembered.
pub fn others(data: &Path) -> Vec<PathBuf> {
    let Ok(state) = directories::state() else { return Vec::new() };
    known(&state).into_iter().filter(|path| path != data).collect()
}

fn known(state: &Path) -> BTreeSet<PathBuf> {
    let text = fs::read_to_string(state.join(FILE_NAME)).unwrap_or_default();
    text.lines().filter(|line| !line.is_empty()).map(PathBuf::from).collect()
}

fn list() -> Result<Listed> {
    let mut all = known(&directories::state()?);
    all.insert(directories::data(None)?);
    let there = all.into_iter().filter(|path| path.is_dir());
    Ok(Listed { clusters: there.map(row).collect() })
}

fn row(name: PathBuf) -> Row {
    // A file that cannot be read is not one of a program that runs.
    let instance = Instance::running(&name).ok().flatten();
    let mut left = FILES_MAX;
    let bytes = size(&name.join("store"), &mut left);
    Row {
        state: if instance.is_some() { "running" } else { "stopped" },
        url: instance.as_ref().and_then(Instance::url),
        store: instance.as_ref().map(|instance| instance.store.clone()),
        pid: instance.as_ref().map(|instance| instance.pid),
        up_seconds: instance.as_ref().map(|instance| instance.up().as_secs()),
        name,
        bytes,
    }
}

/// Of the files below a directory, as far as they are looked at.
fn size(directory: &Path, left: &mut usize) -> u64 {
    let mut bytes = 0;
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if *left == 0 {
            break;
        }
        *left -= 1;
        bytes += match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => size(&entry.path(), left),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        };
    }
    bytes
}

impl fmt::Display for Listed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.clusters.is_empty() {
            return write!(formatter, "there are no clusters; start one with `setpoint up`");
        }
        let length = |row: &Row| row.name.display().to_string().len();
        let widest = self.clusters.iter().map(length).max().unwrap_or(0).max(4);
        let is_wide = formatter.alternate();
        let more = if is_wide { "PROCESS   " } else { "" };
        write!(formatter, "{:widest$}  STATE    UP        STORE     SIZE      {more}URL", "DATA")?;
        for Row { name, state, url, store, up_seconds, bytes, pid } in &self.clusters {
            let up =
                up_seconds.map(|seconds| time::elapsed(std::time::Duration::from_secs(seconds)));
            let (up, store) = (up.unwrap_or_default(), store.clone().unwrap_or_default());
            let (size, url) = (format!("{} KiB", bytes >> 10), url.clone().unwrap_or_default());
            let name = name.display().to_string();
            let pid = pid.map(|pid| pid.to_string()).unwrap_or_default();
            let more = if is_wide { format!("{pid:<8}  ") } else { String::new() };
            let line =
                format!("{name:widest$}  {state:<7}  {up:<8}  {store:<8}  {size:<8}  {more}{url}");
            write!(formatter, "\n{}", line.trim_end())?;
        }
        Ok(())
    }
}
