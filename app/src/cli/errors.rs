//! `setpoint errors`: what the codes behind messages mean, and what to do.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Args;
use serde::Serialize;

use super::Context;
use super::exit::{self, Failure};
use super::known::{self, Known};

const AFTER_HELP: &str = "\
Examples:
  setpoint errors            every code, a line each
  setpoint errors SP1001     what it means, and what to do; `setpoint help SP1001` says the same";

/// How it is called.
pub const NAME: &str = "errors";

/// Explain the code behind an error message.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Errors {
    /// The code, such as SP1001.
    code: Option<String>,

    /// Print docs/errors.md.
    #[arg(long, hide = true)]
    document: bool,
}

impl Errors {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        match &self.code {
            _ if self.document => io::stdout().lock().write_all(document().as_bytes())?,
            None => context.output.print(&List(&known::ALL))?,
            Some(code) => {
                let known = known::find(code).ok_or_else(|| {
                    let what = format!("there is no error {code}");
                    anyhow!(Failure::new(exit::NOT_FOUND, what).hint("`setpoint errors` lists all"))
                })?;
                context.output.print(&Page(known))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct List(&'static [&'static Known]);

impl fmt::Display for List {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.0.iter().map(|known| format!("{}  {}", known.code, known.what));
        formatter.write_str(&lines.collect::<Vec<_>>().join("\n"))
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct Page(&'static Known);

impl fmt::Display for Page {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Known { code, what, why, remedies } = self.0;
        write!(formatter, "{code}: {what}\n\n{why}\n\nWhat to do:")?;
        remedies.iter().try_for_each(|remedy| write!(formatter, "\n- {remedy}"))
    }
}

/// The page of all of them.
fn document() -> String {
    let mut text = "# Errors\n\nThe code in brackets behind a message leads here. `setpoint help \
                    SP1001` says the same without a browser. This page is printed by `setpoint \
                    errors --document`.\n"
        .to_owned();
    for known in known::ALL {
        let page = Page(known).to_string();
        text.push_str(&format!("\n## {page}\n"));
    }
    text
}
