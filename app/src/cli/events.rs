//! `setpoint events`: what components said of an object, also more than an hour ago.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::Value;

use super::connect::Target;
use super::past::{self, Cluster, GROUP, Named, Printed, columns, items, text};
use super::{Context, small_runtime};

const AFTER_HELP: &str = "\
Examples:
  setpoint events pod/web           oldest first
  setpoint events trainjob/bert     of any kind of object

The API shows events for an hour; here they are as long as the history is kept.";

/// What was said of an object, as long as its history is kept.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Events {
    #[command(flatten)]
    object: Named,

    #[command(flatten)]
    target: Target,
}

impl Events {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        small_runtime()?.block_on(async {
            let cluster = Cluster::connect(&self.target).await?;
            let (_, _, path) = cluster.find(&self.object).await?;
            let found = cluster.get(&format!("{GROUP}/events/{path}")).await;
            let found = found.map_err(past::without_past)?;
            let shown = table(&found);
            context.output.print(&Printed::new(found, shown))?;
            Ok(ExitCode::SUCCESS)
        })
    }
}

fn table(found: &Value) -> String {
    let head = ["TIME", "TYPE", "REASON", "FROM", "COUNT", "MESSAGE"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for event in items(&found["items"]) {
        let first = |values: [&Value; 3]| {
            let texts = values.into_iter().map(text);
            texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default().to_owned()
        };
        rows.push(vec![
            first([
                &event["lastTimestamp"],
                &event["eventTime"],
                &event["metadata"]["creationTimestamp"],
            ]),
            text(&event["type"]).to_owned(),
            text(&event["reason"]).to_owned(),
            first([&event["reportingComponent"], &event["source"]["component"], &Value::Null]),
            event["count"].as_u64().unwrap_or(1).to_string(),
            text(&event["message"]).trim().replace('\n', " "),
        ]);
    }
    match rows.len() {
        1 => "nobody said anything of it in the history that is kept".to_owned(),
        _ => columns(&rows),
    }
}
