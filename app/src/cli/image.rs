//! `setpoint image`: loads container images from an archive into the runtime of this machine.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde::Serialize;

use super::runtime::RuntimeOptions;
use super::{Context, small_runtime};
use crate::config;
use crate::directories;
use crate::former;
use crate::node_agent;

const AFTER_HELP: &str = "\
Examples:
  setpoint image load app.tar                    what `docker save` or `podman save` wrote
  setpoint image load app.tar --runtime podman   to the runtime that is named

Archives (*.tar, *.tar.gz) in the directory `images` of the data directory are loaded when the node
starts, unless they were before.";

/// Load container images from an archive.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Image {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Load the images of an archive.
    Load(Load),
}

#[derive(Args)]
struct Load {
    /// What `docker save` or `podman save` wrote.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The configuration file that names the runtime, as for `setpoint up`.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    runtime: RuntimeOptions,
}

impl Image {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let Action::Load(load) = &self.action;
        let loaded = config::load(load.config.as_deref())?;
        let wanted = load.runtime.wanted(&loaded);
        if !load.file.is_file() {
            bail!("{} is no file; name an archive that `docker save` wrote", load.file.display());
        }
        let (runtime, images) = small_runtime()?.block_on(async {
            // Where pods look for images, if they run already.
            let former = directories::data(None).ok().and_then(|data| former::of(&data));
            let chosen = wanted.choose_after(former).await;
            let images = node_agent::load_image(&chosen, &load.file).await?;
            anyhow::Ok((chosen.to_string(), images))
        })?;
        context.output.print(&Report { runtime, images })?;
        Ok(ExitCode::SUCCESS)
    }
}

#[derive(Serialize)]
struct Report {
    runtime: String,
    images: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.images[..] {
            [] => write!(formatter, "loaded, but the archive names no image"),
            names => write!(formatter, "loaded {} into {}", names.join(", "), self.runtime),
        }
    }
}
