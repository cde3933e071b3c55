//! `setpoint undo`: an earlier specification of an object, written again.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::Value;

use super::connect::Target;
use super::past::{self, Cluster, GROUP, Named, Printed, difference, items, text};
use super::{Context, small_runtime};

const AFTER_HELP: &str = "\
Examples:
  setpoint undo deployment/web               take back the last change that somebody wanted
  setpoint undo deployment/web --to 120      as it was at a revision of `setpoint history`
  setpoint undo deployment/web --dry-run     what that would change

Specification, labels and annotations come back, as a new revision that passes admission like any
other write. What happened outside of the cluster meanwhile is not undone.";

/// Revert a change to an object.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Undo {
    #[command(flatten)]
    object: Named,

    /// As it was at this revision; else before its last change.
    #[arg(long, value_name = "REVISION")]
    to: Option<u64>,

    /// Ask the server what would happen, and change nothing.
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    target: Target,
}

impl Undo {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        small_runtime()?.block_on(async {
            let cluster = Cluster::connect(&self.target).await?;
            let (kind, name, path) = cluster.find(&self.object).await?;
            let mut query = Vec::new();
            query.extend(self.to.map(|to| format!("to={to}")));
            query.extend(self.dry_run.then(|| "dryRun=All".to_owned()));
            let path = format!("{GROUP}/undo/{path}?{}", query.join("&"));
            let found = cluster.post(&path, String::new()).await.map_err(past::without_past)?;
            let shown = told(&found, &kind.name_of(&name), self.dry_run);
            context.output.print(&Printed::new(found, shown))?;
            Ok(ExitCode::SUCCESS)
        })
    }
}

fn told(found: &Value, name: &str, is_dry: bool) -> String {
    let revision = text(&found["metadata"]["resourceVersion"]);
    let is_shown = |change: &&Value| !text(&change["path"]).starts_with("status");
    let changes: Vec<String> = items(&found["changes"])
        .iter()
        .filter(is_shown)
        .map(|change| format!("    {}", difference(change)))
        .collect();
    match (is_dry, found["changes"].is_array()) {
        (true, _) if changes.is_empty() => format!("{name} would stay as it is"),
        (true, _) => format!("{name} would change (dry run):\n{}", changes.join("\n")),
        (false, true) => format!("{name} is already as it was; nothing was written"),
        (false, false) => format!("{name} undone; it is at revision {revision}"),
    }
}
