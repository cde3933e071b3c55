//! What trains, and what has.

use std::fmt;
use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;

use super::cluster::Cluster;
use super::show::{progress, state};
use crate::cli::Context;

#[derive(Serialize)]
#[serde(transparent)]
struct Listed {
    jobs: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    name: String,
    state: &'static str,
    progress: String,
    runtime: String,
}

pub async fn list(cluster: &Cluster, context: &Context) -> Result<ExitCode> {
    let jobs = cluster.jobs().await?;
    let row = |job: &serde_json::Value| Row {
        name: job["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
        state: state(job),
        progress: progress(job).trim().to_owned(),
        runtime: job["spec"]["runtimeRef"]["name"].as_str().unwrap_or_default().to_owned(),
    };
    context.output.print(&Listed { jobs: jobs.iter().map(row).collect() })?;
    Ok(ExitCode::SUCCESS)
}

impl fmt::Display for Listed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.jobs.is_empty() {
            return write!(formatter, "nothing trains");
        }
        let widest = self.jobs.iter().map(|row| row.name.len()).max().unwrap_or(0).max(4);
        write!(formatter, "{:widest$}  STATE     RUNTIME", "NAME")?;
        for Row { name, state, progress, runtime } in &self.jobs {
            write!(formatter, "\n{name:widest$}  {state:<8}  {runtime}  {progress}")?;
        }
        Ok(())
    }
}
