//! `setpoint diff`: shows how an object has changed.

use std::process::ExitCode;

use anyhow::{Result, bail};
use apiserver::history::diff::{Change, between};
use clap::Args;
use serde_json::{Value, json};

use super::connect::Target;
use super::past::{self, Cluster, GROUP, Named, Printed, difference};
use super::{Context, small_runtime};
use crate::output;

const AFTER_HELP: &str = "\
Examples:
  setpoint diff deployment/web --at -1h           between an hour ago and now
  setpoint diff deployment/web --at 120 --to 140  between two revisions

Exit codes:
  0  nothing differs
  1  something does
  2  it could not be found out";

/// The exit code when something differs, and when it is not known.
const EXIT_DIFFERS: u8 = 1;
const EXIT_FAILED: u8 = 2;

/// Show how an object has changed.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Diff {
    #[command(flatten)]
    object: Named,

    /// Since then: a revision, a time, or how long ago (-1h).
    #[arg(long, value_name = "REVISION|TIME|-1h", allow_hyphen_values = true)]
    at: String,

    /// Until then; until now when nothing is said.
    #[arg(long, value_name = "REVISION|TIME|-1h", allow_hyphen_values = true)]
    to: Option<String>,

    /// Also what the status says.
    #[arg(long)]
    status: bool,

    #[command(flatten)]
    target: Target,
}

impl Diff {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        match small_runtime()?.block_on(self.compare(context)) {
            Ok(code) => Ok(code),
            Err(error) => {
                eprintln!("error: {}", output::one_line(&error));
                Ok(ExitCode::from(EXIT_FAILED))
            }
        }
    }

    async fn compare(&self, context: &Context) -> Result<ExitCode> {
        let cluster = Cluster::connect(&self.target).await?;
        let (kind, name, path) = cluster.find(&self.object).await?;
        let before = self.read(&cluster, Some(&self.at), &path).await?;
        // Read in the same way, so that what is hidden is hidden in both.
        let newest = cluster.get(&format!("{GROUP}/timeline")).await?["newest"]["revision"].clone();
        let now = newest.to_string();
        let after = self.read(&cluster, self.to.as_deref().or(Some(&now)), &path).await?;
        if before.is_null() && after.is_null() {
            bail!("{} was there at neither moment", kind.name_of(&name));
        }
        let mut changes = between(&before, &after);
        if !self.status {
            changes.retain(Change::is_wanted);
        }
        let told: Vec<Value> = changes.iter().map(Change::to_json).collect();
        let mut lines: Vec<String> = told.iter().map(difference).collect();
        if before.is_null() {
            lines.insert(0, format!("{} was not there then", kind.name_of(&name)));
        }
        let text = match lines.is_empty() {
            true => "nothing differs".to_owned(),
            false => lines.join("\n"),
        };
        let code = if told.is_empty() { 0 } else { EXIT_DIFFERS };
        let mut value = past::about(&kind, &name);
        value["changes"] = json!(told);
        context.output.print(&Printed::new(value, text))?;
        Ok(ExitCode::from(code))
    }

    /// The object then; nothing where it was not there.
    async fn read(&self, cluster: &Cluster, at: Option<&str>, path: &str) -> Result<Value> {
        let at = past::moment(at.unwrap_or_default())?;
        match cluster.get(&format!("{GROUP}/at/{at}/{path}")).await {
            Ok(object) => Ok(object),
            Err(error) if past::code_of(&error) == Some(404) => match past::without_past(error) {
                error if past::code_of(&error).is_some() => Ok(Value::Null),
                error => Err(error),
            },
            Err(error) => Err(error),
        }
    }
}
