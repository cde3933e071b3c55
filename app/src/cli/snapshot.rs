//! `setpoint snapshot`: the state of a cluster at this moment, in one file.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use super::connect::Target;
use super::export::{self, Wanted};
use super::sealed::Passphrase;
use super::{Context, small_runtime};

const AFTER_HELP: &str = "\
Examples:
  SETPOINT_PASSPHRASE=... setpoint snapshot                 into snapshot.setpoint
  setpoint snapshot before-upgrade.setpoint --without-secrets
  setpoint import before-upgrade.setpoint                   bring it into a cluster

All of it is of one revision, which is told. For the history as well, see `setpoint export`.";

/// Write the state of a cluster at this moment into one file.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Snapshot {
    /// The file to write.
    #[arg(value_name = "FILE", default_value = "snapshot.setpoint")]
    file: PathBuf,

    #[command(flatten)]
    passphrase: Passphrase,

    #[command(flatten)]
    target: Target,
}

impl Snapshot {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let wanted = Wanted { file: &self.file, since: None, passphrase: &self.passphrase };
        let written = small_runtime()?.block_on(export::write(&self.target, wanted))?;
        context.output.print(&written)?;
        Ok(ExitCode::SUCCESS)
    }
}
