//! A graph in the terminal: who asks whom, what is ready of each, and of which form.

use std::process::ExitCode;

use anyhow::Result;
use inference::names;
use inference::value::{list, text};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::list::state;
use crate::cli::Context;

pub async fn draw(cluster: &Cluster, name: &str, context: &Context) -> Result<ExitCode> {
    let graph = cluster.graph(name).await?;
    let objects = cluster.components(name).await?;
    let drawn = lines(&graph.value, &objects).join("\n");
    let components = &graph.value["status"]["components"];
    let object = json!({"name": name, "state": state(&graph.value), "components": components});
    context.output.tell(&drawn, &object)?;
    Ok(ExitCode::SUCCESS)
}

/// Frontends first; what they ask hangs below them.
fn lines(graph: &Value, objects: &[Value]) -> Vec<String> {
    let name = text(&graph["metadata"]["name"]);
    let mut lines = vec![format!("{name} ({})", state(graph))];
    let parts = list(&graph["spec"]["components"]);
    let is_front = |part: &&Value| matches!(text(&part["type"]), "frontend" | "epp");
    let (front, behind): (Vec<&Value>, Vec<&Value>) = parts.iter().partition(is_front);
    for part in &front {
        lines.push(format!("└─ {}", describe(part, graph, objects)));
    }
    let depth = if front.is_empty() { "" } else { "   " };
    for (number, part) in behind.iter().enumerate() {
        let corner = if number + 1 == behind.len() { "└─" } else { "├─" };
        lines.push(format!("{depth}{corner} {}", describe(part, graph, objects)));
    }
    lines
}

/// `decode [decode] 2/3 ready (1a2b3c4d 1, 5e6f7a8b 1)`.
fn describe(part: &Value, graph: &Value, objects: &[Value]) -> String {
    let name = text(&part["name"]);
    let status = &graph["status"]["components"][name];
    let ready = status["readyReplicas"].as_i64().unwrap_or(0);
    let desired = part["replicas"].as_i64().unwrap_or(1);
    let own = objects.iter().filter(|one| one["metadata"]["labels"][names::COMPONENT] == name);
    let form = |one: &Value| {
        let hash = one["metadata"]["labels"][names::WORKER_HASH].as_str()?;
        let ready = one["status"]["component"]["readyReplicas"].as_i64().unwrap_or(0);
        Some(format!("{hash} {ready}"))
    };
    let forms: Vec<String> = own.filter_map(form).collect();
    let mix = if forms.is_empty() { String::new() } else { format!(" ({})", forms.join(", ")) };
    let kind = match text(&part["type"]) {
        "" => String::new(),
        kind => format!(" [{kind}]"),
    };
    format!("{name}{kind} {ready}/{desired} ready{mix}")
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
        let form = |hash: &str| {
            json!({"metadata": {"labels": {names::COMPONENT: "decode",
            names::WORKER_HASH: hash}}, "status": {"component": {"readyReplicas": 1}}})
        };
        let expected = [
            "g (pending)",
            "└─ Front [frontend] 0/1 ready",
            "   ├─ decode [decode] 2/2 ready (aa 1, bb 1)",
            "   └─ plan 0/1 ready",
        ];
        assert_eq!(lines(&graph, &[form("aa"), form("bb")]), expected);
    }
}
