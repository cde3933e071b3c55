//! `setpoint logs`: what an operator of the running program wrote to its log.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;

use super::exit::{self, Failure};
use super::{Context, small_runtime};
use crate::client;
use crate::directories;
use crate::instance::Instance;
use crate::kept_lines::{Line, PAGE_LINES_MAX};
use crate::operators;
use crate::output::{self, Format};

/// How often is asked whether there is more.
const LOOK: Duration = Duration::from_millis(300);

const AFTER_HELP: &str = "\
Examples:
  setpoint logs --operator dynamo -f                       what it writes from now on, too
  setpoint logs --operator dynamo --tail 20 -o json        the last lines, an object each
  setpoint logs --operator trainer | grep TrainJob         each line names the kind it is about

On a cluster of your own an operator is a Deployment: read its log with
`kubectl logs -n dynamo-system -l control-plane=controller-manager -c manager`.

Exit codes:
  0  done
  1  it could not be asked
  5  nothing runs";

/// Show what an operator wrote to the log.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Logs {
    /// Whose lines: an operator that runs in the program.
    #[arg(long, value_name = "NAME", value_parser = known)]
    #[arg(help = operator_help())]
    operator: String,

    /// Go on with what is written from now on.
    #[arg(short, long)]
    follow: bool,

    /// Begin with the last so many lines. Else with all that are kept.
    #[arg(long, value_name = "LINES")]
    tail: Option<usize>,

    /// The data directory of the program. Else SETPOINT_DATA_DIR, $XDG_DATA_HOME/setpoint or
    /// ~/.local/share/setpoint.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl Logs {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let data = directories::data(self.data_dir.as_deref())?;
        if Instance::running(&data)?.is_none() {
            eprintln!("nothing runs on {}; start it with `setpoint up`", data.display());
            return Ok(ExitCode::from(exit::NOT_FOUND));
        }
        small_runtime()?.block_on(self.show(&data, context.output.format))?;
        Ok(ExitCode::SUCCESS)
    }

    async fn show(&self, data: &Path, format: Format) -> Result<()> {
        let (mut after, mut tail) = (0, self.tail);
        loop {
            let page = self.ask(data, after, tail).await?;
            let mut out = io::stdout().lock();
            for line in &page {
                match format {
                    Format::Text | Format::Wide => writeln!(out, "{line}")?,
                    Format::Json => writeln!(out, "{}", serde_json::to_string(line)?)?,
                    // Documents of their own, so that they can follow each other.
                    Format::Yaml => write!(out, "---\n{}", output::yaml(line)?)?,
                    Format::Name => {
                        bail!(Failure::new(exit::USAGE, "lines of a log have no names"))
                    }
                }
            }
            out.flush()?;
            drop(out);
            if let Some(last) = page.last() {
                after = last.number;
            }
            // What was asked for of the end shrinks by what was shown of it.
            tail = tail.map(|tail| tail.saturating_sub(page.len())).filter(|left| *left > 0);
            if page.len() == PAGE_LINES_MAX {
                continue;
            }
            if !self.follow {
                return Ok(());
            }
            tail = None;
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn ask(&self, data: &Path, after: u64, tail: Option<usize>) -> Result<Vec<Line>> {
        let mut path = format!("/logz?operator={}&after={after}", self.operator);
        if let Some(tail) = tail {
            path.push_str(&format!("&tail={tail}"));
        }
        let (status, body) = client::get(data, &path).await?;
        if !status.is_success() {
            bail!("the program does not tell: {}", String::from_utf8_lossy(&body).trim());
        }
        Ok(serde_json::from_slice(&body)?)
    }
}

fn names() -> Vec<&'static str> {
    let all = operators::ALL.iter().flat_map(|family| family.operators());
    all.map(|operator| operator.name).collect()
}

fn operator_help() -> String {
    format!("Whose lines: {}", names().join(", "))
}

fn known(text: &str) -> Result<String, String> {
    match names().contains(&text) {
        true => Ok(text.to_owned()),
        false => Err(format!("there is no operator {text:?}; there are {}", names().join(", "))),
    }
}
