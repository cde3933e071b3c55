//! What serves, and how.

use std::fmt;
use std::process::ExitCode;

use anyhow::Result;
use inference::kinds::GRAPH;
use inference::value::{list as items, text};
use reconcile::conditions;
use serde::Serialize;
use serde_json::Value;

use super::cluster::Cluster;
use crate::cli::Context;

#[derive(Serialize)]
#[serde(transparent)]
pub struct Listed {
    graphs: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    kind: &'static str,
    name: String,
    state: String,
    components: Vec<Part>,
}

/// How many there are of a component, and are to be.
#[derive(Serialize)]
pub struct Part {
    pub name: String,
    pub ready: i64,
    pub desired: i64,
}

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    row: Row,
    /// Why it is not ready, if it is not.
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
}

pub async fn list(cluster: &Cluster) -> Result<Listed> {
    let graphs = cluster.graphs().await?;
    Ok(Listed { graphs: graphs.iter().map(row).collect() })
}

pub async fn show(cluster: &Cluster, name: &str, context: &Context) -> Result<ExitCode> {
    let graph = cluster.graph(name).await?;
    let address = cluster.frontend(&graph).await?.map(|(_, address)| address);
    let message = match state(&graph.value) {
        "successful" => String::new(),
        _ => why(&graph.value).to_owned(),
    };
    context.output.print(&Shown { row: row(&graph.value), message, address })?;
    Ok(ExitCode::SUCCESS)
}

pub fn state(graph: &Value) -> &str {
    match text(&graph["status"]["state"]) {
        "" => "initializing",
        state => state,
    }
}

/// What a graph says of why it is not ready.
pub fn why(graph: &Value) -> &str {
    conditions::find(&graph["status"], "Ready").map_or("", |ready| text(&ready["message"]))
}

/// `Frontend 1/1  decode 0/2`.
pub fn progress(parts: &[Part]) -> String {
    let texts: Vec<String> =
        parts.iter().map(|part| format!("{} {}/{}", part.name, part.ready, part.desired)).collect();
    texts.join("  ")
}

/// How far each component is.
pub fn parts(graph: &Value) -> Vec<Part> {
    let part = |part: &Value| {
        let name = text(&part["name"]).to_owned();
        let status = &graph["status"]["components"][&name];
        Part {
            ready: status["readyReplicas"].as_i64().unwrap_or(0),
            desired: part["replicas"].as_i64().unwrap_or(1),
            name,
        }
    };
    items(&graph["spec"]["components"]).iter().map(part).collect()
}

fn row(graph: &Value) -> Row {
    Row {
        kind: GRAPH.kind,
        name: text(&graph["metadata"]["name"]).to_owned(),
        state: state(graph).to_owned(),
        components: parts(graph),
    }
}

impl fmt::Display for Listed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.graphs.is_empty() {
            return write!(formatter, "nothing serves");
        }
        let widest = self.graphs.iter().map(|row| row.name.len()).max().unwrap_or(0).max(4);
        write!(formatter, "{:widest$}  STATE         COMPONENTS", "NAME")?;
        for Row { name, state, components, .. } in &self.graphs {
            write!(formatter, "\n{name:widest$}  {state:<12}")?;
            for Part { name, ready, desired } in components {
                write!(formatter, "  {name} {ready}/{desired}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} is {}", self.row.name, self.row.state)?;
        for Part { name, ready, desired } in &self.row.components {
            write!(formatter, "\n  {name}  {ready} of {desired} ready")?;
        }
        if !self.message.is_empty() {
            write!(formatter, "\n{}", self.message)?;
        }
        match &self.address {
            Some(address) => write!(formatter, "\n{address}"),
            None => Ok(()),
        }
    }
}
