//! `setpoint get`: objects as they are, or as they were.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::{Value, json};

use super::connect::Target;
use super::past::{self, Cluster, GROUP, Kind, Printed, TABLE, columns, encoded, items, text};
use super::{Context, small_runtime};
use crate::output::{self, Format};

const AFTER_HELP: &str = "\
Examples:
  setpoint get pods                            what there is
  setpoint get deployment/web -o yaml          one object
  setpoint get pods --at -5m                   what there was five minutes ago
  setpoint get pods -A --at 2026-01-02T15:04:05Z
  setpoint get trainjob/bert --at 1234         at a revision of `setpoint history`

The values of Secrets are not told of the past.";

/// Show objects, as they are or as they were.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Get {
    /// A kind and names, or KIND/NAME: `pods`, `pod web`, `deployment.apps/web`.
    #[arg(value_name = "OBJECTS", required = true)]
    words: Vec<String>,

    /// As of then: a revision, a time, or how long ago (-5m).
    #[arg(long, value_name = "REVISION|TIME|-5m", allow_hyphen_values = true)]
    at: Option<String>,

    /// Only those whose labels match.
    #[arg(short = 'l', long, value_name = "LABELS", default_value = "")]
    selector: String,

    /// Only those whose fields match.
    #[arg(long, value_name = "FIELDS", default_value = "")]
    field_selector: String,

    /// Of all namespaces.
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    #[command(flatten)]
    target: Target,
}

impl Get {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        small_runtime()?.block_on(async {
            let cluster = Cluster::connect(&self.target).await?;
            let prefix = match &self.at {
                Some(at) => format!("{GROUP}/at/{}/", past::moment(at)?),
                None => String::new(),
            };
            for (kind, name) in self.asked(&cluster).await? {
                self.show(context, &cluster, (&prefix, &kind, &name)).await?;
            }
            Ok(ExitCode::SUCCESS)
        })
    }

    /// Kinds with names; an empty name is a list.
    async fn asked(&self, cluster: &Cluster) -> Result<Vec<(Kind, String)>> {
        let mut asked = Vec::new();
        if self.words.iter().any(|word| word.contains('/')) {
            for word in &self.words {
                let Some((kind, name)) = word.split_once('/') else {
                    bail!("either KIND NAME... or KIND/NAME..., not both");
                };
                asked.push((cluster.kind(kind).await?, name.to_owned()));
            }
            return Ok(asked);
        }
        let (kinds, names) = (&self.words[0], &self.words[1..]);
        for kind in kinds.split(',') {
            let kind = cluster.kind(kind).await?;
            match names {
                [] => asked.push((kind, String::new())),
                names => asked.extend(names.iter().map(|name| (kind.clone(), name.clone()))),
            }
        }
        Ok(asked)
    }

    async fn show(
        &self,
        context: &Context,
        cluster: &Cluster,
        (prefix, kind, name): (&str, &Kind, &str),
    ) -> Result<()> {
        let namespace = if self.all_namespaces { "" } else { &cluster.namespace };
        let path = format!(
            "{prefix}{}?labelSelector={}&fieldSelector={}",
            kind.path(namespace, name),
            encoded(&self.selector),
            encoded(&self.field_selector),
        );
        let is_text = context.output.is_for_people();
        let accept = if is_text { TABLE } else { "application/json" };
        let found = cluster.get_as(&path, accept).await;
        let found = match (found, prefix.is_empty()) {
            (Ok(found), _) => found,
            (Err(error), true) => return Err(cluster.with_nearest(error, kind, name).await),
            (Err(error), false) => return Err(past::without_past(error)),
        };
        // No revision is before the first: it was before the cluster was.
        let is_unborn = !prefix.is_empty() && found["metadata"]["resourceVersion"] == "0";
        let manner = Manner {
            has_namespaces: self.all_namespaces && kind.is_namespaced,
            is_wide: context.output.format == Format::Wide,
        };
        let shown = match is_text {
            true if is_unborn => Some(born_later(cluster).await?),
            true => table(&found, &manner),
            false => Some(String::new()),
        };
        match shown {
            Some(shown) => context.output.print(&Printed::new(found, shown))?,
            // As kubectl has it: who reads stdout finds nothing there.
            None => output::remark(none_found(kind, namespace)),
        }
        Ok(())
    }
}

/// What is said of a moment before the cluster was.
async fn born_later(cluster: &Cluster) -> Result<String> {
    let oldest = &cluster.get(&format!("{GROUP}/timeline")).await?["oldest"];
    let (time, revision) = (text(&oldest["time"]), &oldest["revision"]);
    let told = "No resources found: this cluster began later";
    Ok(format!("{told}, at {time} with revision {revision}"))
}

fn none_found(kind: &Kind, namespace: &str) -> String {
    match kind.is_namespaced && !namespace.is_empty() {
        true => format!("No resources found in {namespace} namespace."),
        false => "No resources found".to_owned(),
    }
}

/// What is shown of a table.
struct Manner {
    has_namespaces: bool,
    is_wide: bool,
}

/// The columns that are for everybody, with `wide` the others too, or the names where there are no
/// columns. Nothing where there are no objects.
fn table(found: &Value, manner: &Manner) -> Option<String> {
    if found["kind"] != "Table" {
        let one = [found.clone()];
        let objects = if found["items"].is_array() { items(&found["items"]) } else { &one };
        let names = objects.iter().map(|object| text(&object["metadata"]["name"]).to_owned());
        let names = names.collect::<Vec<_>>().join("\n");
        return Some(names).filter(|names| !names.is_empty());
    }
    let definitions = items(&found["columnDefinitions"]);
    let priority = |at: &usize| definitions[*at]["priority"].as_i64().unwrap_or(0);
    let is_shown = |at: &usize| manner.is_wide || priority(at) == 0;
    let shown: Vec<usize> = (0..definitions.len()).filter(is_shown).collect();
    let head = shown.iter().map(|at| text(&definitions[*at]["name"]).to_uppercase());
    let mut rows = vec![head.collect::<Vec<_>>()];
    for row in items(&found["rows"]) {
        let cells = items(&row["cells"]);
        let cell = |at: &usize| match cells.get(*at).unwrap_or(&json!(null)) {
            Value::Null => "<none>".to_owned(),
            value => past::short(value),
        };
        rows.push(shown.iter().map(cell).collect());
    }
    if rows.len() == 1 {
        return None;
    }
    if manner.has_namespaces {
        let namespaces = items(&found["rows"]).iter();
        let namespaces = namespaces.map(|row| text(&row["object"]["metadata"]["namespace"]));
        let namespaces = std::iter::once("NAMESPACE").chain(namespaces);
        for (row, namespace) in rows.iter_mut().zip(namespaces) {
            row.insert(0, namespace.to_owned());
        }
    }
    Some(columns(&rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_shows_every_column_and_an_empty_table_shows_nothing() {
        let columns = json!([{"name": "Name"}, {"name": "Node", "priority": 1}]);
        let row = json!({"cells": ["a", "n1"], "object": {"metadata": {"namespace": "team"}}});
        let table = |rows: Value, has_namespaces, is_wide| {
            let found = json!({"kind": "Table", "columnDefinitions": columns, "rows": rows});
            table(&found, &Manner { has_namespaces, is_wide })
        };
        let rows = json!([row]);
        let shown = table(rows.clone(), false, false).expect("a table");
        assert!(shown.contains("NAME") && !shown.contains("NODE"), "{shown}");
        let shown = table(rows, true, true).expect("a table");
        assert!(
            shown.contains("NODE") && shown.contains("n1") && shown.contains("team"),
            "{shown}"
        );
        assert_eq!(table(json!([]), false, true), None);
    }
}
