//! `setpoint help --all`: every command, with those below it, a line each.

use std::fmt;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Command};
use serde::Serialize;

use super::{Context, definition};

/// The command that `help --all` is short for.
pub const NAME: &str = "help-all";

/// List every command with those below it.
#[derive(Args)]
#[command(hide = true)]
pub struct HelpAll {}

impl HelpAll {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let mut rows = Vec::new();
        collect(&definition(), "setpoint", &mut rows);
        context.output.print(&All { rows })?;
        Ok(ExitCode::SUCCESS)
    }
}

#[derive(Serialize)]
struct Row {
    command: String,
    about: String,
}

#[derive(Serialize)]
#[serde(transparent)]
struct All {
    rows: Vec<Row>,
}

impl fmt::Display for All {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widest = self.rows.iter().map(|row| row.command.len()).max().unwrap_or(0);
        for Row { command, about } in &self.rows {
            writeln!(formatter, "{command:widest$}  {about}")?;
        }
        write!(
            formatter,
            "\n`setpoint help COMMAND` says more of one. Any other word is a command of kubectl, \
             on the same cluster."
        )
    }
}

fn collect(command: &Command, name: &str, rows: &mut Vec<Row>) {
    for below in command.get_subcommands().filter(|one| !one.is_hide_set()) {
        let name = format!("{name} {}", below.get_name());
        let about = below.get_about().map(ToString::to_string).unwrap_or_default();
        rows.push(Row { command: name.clone(), about });
        collect(below, &name, rows);
    }
}
