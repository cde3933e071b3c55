//! `setpoint completions`: scripts that let a shell complete the command line.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use clap_complete::Shell;

use super::{Context, definition};

const AFTER_HELP: &str = "\
Examples:
  source <(setpoint completions bash)
  setpoint completions zsh > ~/.zfunc/_setpoint
  setpoint completions fish > ~/.config/fish/completions/setpoint.fish";

/// Print a script that completes commands and options in a shell.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Completions {
    /// The shell the script is for.
    shell: Shell,
}

impl Completions {
    pub fn run(&self, _: &Context) -> Result<ExitCode> {
        // Into memory first: the generator panics when its output is closed.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut definition(), "setpoint", &mut script);
        std::io::stdout().lock().write_all(&script)?;
        Ok(ExitCode::SUCCESS)
    }
}
