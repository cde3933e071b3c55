//! `setpoint paths`: where things are kept on this machine.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::Context;
use crate::config;
use crate::directories;
use crate::kubeconfig;

const AFTER_HELP: &str = "\
Examples:
  setpoint paths
  cd $(setpoint paths -o json | jq -r .data)

SETPOINT_DATA_DIR and --data-dir move the data; XDG_DATA_HOME, XDG_CONFIG_HOME, XDG_STATE_HOME and
XDG_CACHE_HOME move what is below them.";

/// Show where things are kept.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Paths {
    /// Data directory of the cluster [env: SETPOINT_DATA_DIR].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

#[derive(Serialize)]
struct Report {
    /// Everything of a cluster: its store, keys, pods, machines and its log.
    data: PathBuf,
    kubeconfig: PathBuf,
    log: PathBuf,
    /// The first of these that is there is read.
    config: Vec<PathBuf>,
    state: PathBuf,
    cache: PathBuf,
}

impl Paths {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let data = directories::data(self.data_dir.as_deref())?;
        context.output.print(&Report {
            kubeconfig: kubeconfig::in_data(&data),
            log: data.join(crate::log_file::NAME),
            config: config::usual_files(),
            state: directories::state()?,
            cache: directories::cache()?,
            data,
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { data, kubeconfig, log, config, state, cache } = self;
        writeln!(formatter, "data        {}", data.display())?;
        writeln!(formatter, "kubeconfig  {}", kubeconfig.display())?;
        writeln!(formatter, "log         {}", log.display())?;
        for path in config {
            let note = if path.exists() { "" } else { "   (not there)" };
            writeln!(formatter, "config      {}{note}", path.display())?;
        }
        writeln!(formatter, "state       {}", state.display())?;
        write!(formatter, "cache       {}", cache.display())
    }
}
