//! `setpoint man`: manual pages, made of the same words as the help.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Args, Command};

use super::{Context, definition};

const AFTER_HELP: &str = "\
Examples:
  setpoint man | man -l -                        read it
  setpoint man --dir ~/.local/share/man/man1     a page for every command";

/// Print the manual page, or write one for every command.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Man {
    /// Write `setpoint.1`, `setpoint-up.1` and so on into this directory.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Man {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let mut command = definition();
        command.build();
        let Some(directory) = &self.dir else {
            std::io::stdout().lock().write_all(&page(&command, "setpoint")?)?;
            return Ok(ExitCode::SUCCESS);
        };
        std::fs::create_dir_all(directory)
            .with_context(|| format!("could not make {}", directory.display()))?;
        let count = write_all(&command, "setpoint", directory)?;
        context.output.tell(
            &format!("wrote {count} pages to {}", directory.display()),
            &serde_json::json!({"directory": directory, "pages": count}),
        )?;
        Ok(ExitCode::SUCCESS)
    }
}

fn page(command: &Command, name: &str) -> Result<Vec<u8>> {
    // Into memory first: the reader may go away.
    let mut text = Vec::new();
    let name: &'static str = name.to_owned().leak();
    clap_mangen::Man::new(command.clone().name(name))
        .render(&mut text)
        .context("could not make a page")?;
    Ok(text)
}

/// A page for a command and for all below it.
fn write_all(command: &Command, name: &str, directory: &Path) -> Result<usize> {
    let path = directory.join(format!("{name}.1"));
    std::fs::write(&path, page(command, name)?)
        .with_context(|| format!("could not write {}", path.display()))?;
    let mut count = 1;
    let shown = |one: &&Command| !one.is_hide_set() && one.get_name() != "help";
    for below in command.get_subcommands().filter(shown) {
        count += write_all(below, &format!("{name}-{}", below.get_name()), directory)?;
    }
    Ok(count)
}
