//! What trains, and what has.

use std::fmt;

use anyhow::Result;
use serde::Serialize;
use training::kinds::TRAIN_JOB;

use super::cluster::Cluster;
use super::show::{progress, state};

#[derive(Serialize)]
#[serde(transparent)]
pub struct Listed {
    jobs: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    kind: &'static str,
    name: String,
    state: &'static str,
    progress: String,
    runtime: String,
    nodes: Option<i64>,
    created: String,
}

pub async fn list(cluster: &Cluster) -> Result<Listed> {
    let jobs = cluster.jobs().await?;
    let row = |job: &serde_json::Value| Row {
        kind: TRAIN_JOB.kind,
        nodes: job["spec"]["trainer"]["numNodes"].as_i64(),
        created: job["metadata"]["creationTimestamp"].as_str().unwrap_or_default().to_owned(),
        name: job["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
        state: state(job),
        progress: progress(job).trim().to_owned(),
        runtime: job["spec"]["runtimeRef"]["name"].as_str().unwrap_or_default().to_owned(),
    };
    Ok(Listed { jobs: jobs.iter().map(row).collect() })
}

impl fmt::Display for Listed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.jobs.is_empty() {
            return write!(formatter, "nothing trains");
        }
        let widest = self.jobs.iter().map(|row| row.name.len()).max().unwrap_or(0).max(4);
        let is_wide = formatter.alternate();
        let more = if is_wide { "NODES  CREATED               " } else { "" };
        write!(formatter, "{:widest$}  STATE     {more}RUNTIME", "NAME")?;
        for Row { name, state, progress, runtime, nodes, created, .. } in &self.jobs {
            write!(formatter, "\n{name:widest$}  {state:<8}  ")?;
            if is_wide {
                let nodes = nodes.map_or_else(|| "-".to_owned(), |nodes| nodes.to_string());
                write!(formatter, "{nodes:<5}  {created:<20}  ")?;
            }
            write!(formatter, "{runtime}  {progress}")?;
        }
        Ok(())
    }
}
