//! A graph in the terminal: who asks whom, what is ready of each, and of which form.

use std::fmt;
use std::process::ExitCode;

use anyhow::Result;
use inference::names;
use inference::value::{list, text};
use serde::Serialize;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::list::{Part, parts, state};
use crate::cli::Context;

/// A component, and the forms that there are of it.
#[derive(Serialize)]
struct Drawn {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    ready: i64,
    desired: i64,
    revisions: Vec<Form>,
}

/// Workers of one form.
#[derive(Serialize)]
struct Form {
    revision: String,
    ready: i64,
    desired: i64,
}

pub async fn draw(cluster: &Cluster, name: &str, context: &Context) -> Result<ExitCode> {
    let graph = cluster.graph(name).await?;
    let objects = cluster.components(name).await?;
    let parts = components(&graph.value, &objects);
    let drawn = lines(&graph.value, &parts).join("\n");
    let object = json!({"name": name, "state": state(&graph.value), "components": parts});
    context.output.tell(&drawn, &object)?;
    Ok(ExitCode::SUCCESS)
}

fn components(graph: &Value, objects: &[Value]) -> Vec<Drawn> {
    let form = |one: &Value| {
        let revision = one["metadata"]["labels"][names::WORKER_HASH].as_str()?.to_owned();
        let ready = one["status"]["component"]["readyReplicas"].as_i64().unwrap_or(0);
        Some(Form { revision, ready, desired: one["spec"]["replicas"].as_i64().unwrap_or(1) })
    };
    let parts = list(&graph["spec"]["components"]).iter().zip(parts(graph));
    let drawn = parts.map(|(said, Part { name, ready, desired })| {
        let is_its = |one: &&Value| one["metadata"]["labels"][names::COMPONENT] == *name;
        let revisions = objects.iter().filter(is_its).filter_map(form).collect();
        Drawn { kind: text(&said["type"]).to_owned(), name, ready, desired, revisions }
    });
    drawn.collect()
}

/// Frontends first; what they ask hangs below them.
fn lines(graph: &Value, parts: &[Drawn]) -> Vec<String> {
    let name = text(&graph["metadata"]["name"]);
    let mut lines = vec![format!("{name} ({})", state(graph))];
    let is_front = |part: &&Drawn| matches!(part.kind.as_str(), "frontend" | "epp");
    let (front, behind): (Vec<&Drawn>, Vec<&Drawn>) = parts.iter().partition(is_front);
    for part in &front {
        lines.push(format!("└─ {part}"));
    }
    let depth = if front.is_empty() { "" } else { "   " };
    for (number, part) in behind.iter().enumerate() {
        let corner = if number + 1 == behind.len() { "└─" } else { "├─" };
        lines.push(format!("{depth}{corner} {part}"));
    }
    lines
}

/// `decode [decode] 2/3 ready (1a2b3c4d 1/1, 5e6f7a8b 1/2)`.
impl fmt::Display for Drawn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Drawn { name, kind, ready, desired, revisions } = self;
        let kind = if kind.is_empty() { String::new() } else { format!(" [{kind}]") };
        write!(formatter, "{name}{kind} {ready}/{desired} ready")?;
        let form = |one: &Form| format!("{} {}/{}", one.revision, one.ready, one.desired);
        match revisions.is_empty() {
            true => Ok(()),
            false => {
                let forms: Vec<String> = revisions.iter().map(form).collect();
                write!(formatter, " ({})", forms.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_is_drawn_with_what_is_ready_of_each_form() {
        let graph = json!({"metadata": {"name": "g"}, "spec": {"components": [
            {"name": "decode", "type": "decode", "replicas": 2},
            {"name": "Front", "type": "frontend", "replicas": 1},
            {"name": "plan"}]},
            "status": {"state": "pending", "components": {"decode": {"readyReplicas": 2}}}});
        let form = |hash: &str, desired: i64| {
            json!({"metadata": {"labels": {names::COMPONENT: "decode",
                names::WORKER_HASH: hash}}, "spec": {"replicas": desired},
                "status": {"component": {"readyReplicas": 1}}})
        };
        let expected = [
            "g (pending)",
            "└─ Front [frontend] 0/1 ready",
            "   ├─ decode [decode] 2/2 ready (aa 1/1, bb 1/2)",
            "   └─ plan 0/1 ready",
        ];
        let parts = components(&graph, &[form("aa", 1), form("bb", 2)]);
        assert_eq!(lines(&graph, &parts), expected);
    }
}
