//! `setpoint history`: every change of an object: when, who, and what.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use super::connect::Target;
use super::past::{self, Cluster, GROUP, Named, Printed, difference, items, text};
use super::{Context, small_runtime};

const AFTER_HELP: &str = "\
Examples:
  setpoint history deployment/web              what changed, newest first
  setpoint history trainjob/bert --limit 5     the last five changes
  setpoint history pod/web --status            also what only the status says

The revisions are what `get --at`, `diff --at` and `undo --to` take.";

/// What happened to an object: when, who, by which program, and what changed.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct History {
    #[command(flatten)]
    object: Named,

    /// At most this many changes.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    /// Also changes of the status alone.
    #[arg(long)]
    status: bool,

    /// Read an export in place of asking a cluster.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    #[command(flatten)]
    target: Target,
}

impl History {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        small_runtime()?.block_on(async {
            let list = match &self.file {
                Some(file) => {
                    let namespace = self.target.namespace.as_deref().unwrap_or("default");
                    super::export::revisions(file, &self.object, namespace)?
                }
                None => self.ask().await?,
            };
            let shown = Printed::new(list.clone(), table(&list));
            context.output.print(&shown)?;
            Ok(ExitCode::SUCCESS)
        })
    }

    /// Asks page by page until there are enough.
    async fn ask(&self) -> Result<Value> {
        let cluster = Cluster::connect(&self.target).await?;
        let (_, _, path) = cluster.find(&self.object).await?;
        let wanted = self.limit.unwrap_or(u64::MAX);
        let mut found: Vec<Value> = Vec::new();
        let mut go_on = String::new();
        let mut list;
        loop {
            let page = format!("{GROUP}/revisions/{path}?continue={go_on}");
            list = cluster.get(&page).await.map_err(past::without_past)?;
            let page = items(&list["items"]).iter().filter(|item| self.status || is_wanted(item));
            found.extend(page.cloned());
            go_on = text(&list["metadata"]["continue"]).to_owned();
            if go_on.is_empty() || found.len() as u64 >= wanted {
                break;
            }
        }
        found.truncate(usize::try_from(wanted).unwrap_or(usize::MAX));
        list["items"] = json!(found);
        Ok(list)
    }
}

/// Whether somebody wanted the change: more than the status changed.
pub fn is_wanted(item: &Value) -> bool {
    let is_status = |change: &Value| {
        let path = text(&change["path"]);
        path == "status" || path.starts_with("status.") || path.starts_with("status[")
    };
    item["type"] != "Changed" || !items(&item["changes"]).iter().all(is_status)
}

fn table(list: &Value) -> String {
    let mut lines = Vec::new();
    for item in items(&list["items"]) {
        let user = text(&item["user"]);
        let manager = text(&item["manager"]);
        let by = if manager.is_empty() { String::new() } else { format!(" with {manager}") };
        let cause = match item["cause"]["revision"].as_u64() {
            Some(cause) => format!("   because of {cause}{}", named(&item["cause"]["object"])),
            None => String::new(),
        };
        // A revision of the cluster that it was brought from means nothing here.
        let revision = match item["source"]["revision"].as_u64() {
            Some(elsewhere) => format!("imported:{elsewhere}"),
            None => item["revision"].to_string(),
        };
        lines.push(format!(
            "{revision}   {}   {}   by {user}{by}{cause}",
            text(&item["time"]),
            text(&item["type"])
        ));
        let changes = items(&item["changes"]).iter();
        lines.extend(changes.map(|change| format!("    {}", difference(change))));
    }
    if lines.is_empty() {
        lines.push("nothing happened to it in the history that is kept".to_owned());
    }
    lines.join("\n")
}

fn named(object: &Value) -> String {
    match text(&object["kind"]) {
        "" => String::new(),
        kind => format!(" ({kind} {})", text(&object["name"])),
    }
}
