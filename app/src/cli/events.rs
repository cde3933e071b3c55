//! `setpoint events`: shows an object's events, including expired ones.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::Value;

use super::connect::Target;
use super::past::{self, Cluster, GROUP, Named, Printed, columns, encoded, items, text};
use super::{Context, small_runtime};

const AFTER_HELP: &str = "\
Examples:
  setpoint events pod/web           oldest first
  setpoint events trainjob/bert     of any kind of object

The API shows events for an hour; here they are as long as the history is kept. A cluster that keeps
no history has those of the last hour.";

/// Show an object's events, including expired ones.
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
            let found = match past::has_past(&cluster).await? {
                true => cluster.get(&format!("{GROUP}/events/{path}")).await?,
                false => of_the_last_hour(&cluster, &path).await?,
            };
            let shown = table(&found);
            context.output.print(&Printed::new(found, shown))?;
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// What a cluster that keeps no past still shows.
async fn of_the_last_hour(cluster: &Cluster, path: &str) -> Result<Value> {
    let object = cluster.get(path).await?;
    let metadata = &object["metadata"];
    let place = match text(&metadata["namespace"]) {
        "" => String::new(),
        namespace => format!("namespaces/{namespace}/"),
    };
    let uid = encoded(&format!("involvedObject.uid={}", text(&metadata["uid"])));
    let mut found = cluster.get(&format!("api/v1/{place}events?fieldSelector={uid}")).await?;
    if let Some(events) = found["items"].as_array_mut() {
        events.sort_by_key(time);
    }
    Ok(found)
}

fn time(event: &Value) -> String {
    first([&event["lastTimestamp"], &event["eventTime"], &event["metadata"]["creationTimestamp"]])
}

/// The first that says something.
fn first(values: [&Value; 3]) -> String {
    let mut texts = values.into_iter().map(text);
    texts.find(|text| !text.is_empty()).unwrap_or_default().to_owned()
}

fn table(found: &Value) -> String {
    let head = ["TIME", "TYPE", "REASON", "FROM", "COUNT", "MESSAGE"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for event in items(&found["items"]) {
        rows.push(vec![
            time(event),
            text(&event["type"]).to_owned(),
            text(&event["reason"]).to_owned(),
            first([&event["reportingComponent"], &event["source"]["component"], &Value::Null]),
            event["count"].as_u64().unwrap_or(1).to_string(),
            text(&event["message"]).trim().replace('\n', " "),
        ]);
    }
    match rows.len() {
        1 => "no events in the history that is kept".to_owned(),
        _ => columns(&rows),
    }
}
