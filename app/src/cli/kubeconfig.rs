//! `setpoint kubeconfig`: prints the kubeconfig of what runs.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::Context;
use super::exit::not_found;
use crate::directories;
use crate::kubeconfig;

const AFTER_HELP: &str = "\
Examples:
  setpoint kubeconfig > cluster.yaml
  export KUBECONFIG=$(setpoint kubeconfig --path)

It is that of an administrator: keep it to yourself.

Exit codes:
  0  printed
  5  there is none; `setpoint up` makes one";

/// Print the kubeconfig of what runs.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Kubeconfig {
    /// Print only where the file is.
    #[arg(long)]
    path: bool,

    /// Data directory of the cluster [env: SETPOINT_DATA_DIR].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

struct Printed {
    text: String,
    value: Value,
}

impl fmt::Display for Printed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.text.trim_end())
    }
}

impl Serialize for Printed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

impl Kubeconfig {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let data = directories::data(self.data_dir.as_deref())?;
        let path = kubeconfig::in_data(&data);
        if !path.exists() {
            let data = data.display();
            return Err(not_found(format!("there is no cluster in {data}; run `setpoint up`")));
        }
        if self.path {
            let text = path.display().to_string();
            let value = serde_json::json!({"path": text});
            context.output.print(&Printed { text, value })?;
            return Ok(ExitCode::SUCCESS);
        }
        let reading = || format!("could not read {}", path.display());
        let text = std::fs::read_to_string(&path).with_context(reading)?;
        let value = serde_saphyr::from_str(&text).with_context(reading)?;
        context.output.print(&Printed { text, value })?;
        Ok(ExitCode::SUCCESS)
    }
}
