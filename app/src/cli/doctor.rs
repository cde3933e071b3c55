//! `setpoint doctor`: checks this machine and prints a remedy for what is missing.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::{Context, small_runtime};
use crate::directories;
use crate::doctor::{self, Finding, Verdict};
use crate::output::Marks;

const AFTER_HELP: &str = "\
Examples:
  setpoint doctor                                       everything, each with its remedy
  setpoint doctor -o json | jq '.findings[] | select(.verdict != \"well\")'

Exit codes:
  0  nothing keeps it from working
  1  something does";

/// Check this machine: what works, what does not, and how to fix it.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Doctor {
    /// Data directory of the cluster [env: SETPOINT_DATA_DIR].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl Doctor {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let data_dir = directories::data(self.data_dir.as_deref())?;
        let findings = small_runtime()?.block_on(doctor::examine(&data_dir));
        let is_ill = findings.iter().any(|finding| finding.verdict == Verdict::Unwell);
        context.output.print(&Report { data_dir, findings })?;
        Ok(if is_ill { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

#[derive(Serialize)]
struct Report {
    data_dir: PathBuf,
    findings: Vec<Finding>,
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let marks = Marks::of_stdout();
        for Finding { what, verdict, found, remedy } in &self.findings {
            let mark = match verdict {
                Verdict::Well => marks.well(),
                Verdict::Limited => marks.so_so(),
                Verdict::Unwell => marks.unwell(),
            };
            writeln!(formatter, "{mark} {what:<12} {found}")?;
            if let Some(remedy) = remedy {
                writeln!(formatter, "  {:<12} to do: {remedy}", "")?;
            }
        }
        let count = |verdict| self.findings.iter().filter(|one| one.verdict == verdict).count();
        write!(
            formatter,
            "{} passed, {} warnings, {} failed",
            count(Verdict::Well),
            count(Verdict::Limited),
            count(Verdict::Unwell)
        )
    }
}
