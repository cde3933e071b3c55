//! Makes a TrainJob of a script or a file.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use reconcile::Environment;
use reconcile::environment::System;
use serde_json::{Value, json};
use training::kinds::TRAIN_JOB;

use super::cluster::Cluster;
use super::follow;
use crate::cli::Context;

/// Characters of a script's name that become part of its job's.
const NAME_LENGTH_MAX: usize = 30;

#[derive(Args, Clone)]
pub struct Submit {
    /// The script to run on every node, and what it is given.
    #[arg(value_name = "FILE.py")]
    script: Option<PathBuf>,

    /// What the script is given.
    #[arg(value_name = "ARGS", trailing_var_arg = true, requires = "script")]
    arguments: Vec<String>,

    /// A file with a TrainJob, in YAML or JSON.
    #[arg(short, long, value_name = "FILE", conflicts_with = "script")]
    file: Option<PathBuf>,

    /// How many nodes train.
    #[arg(long, value_name = "N")]
    nodes: Option<u32>,

    /// How many processes each node runs; torchrun starts them.
    #[arg(long, value_name = "P")]
    procs: Option<u32>,

    /// The ClusterTrainingRuntime that runs the script.
    #[arg(long, value_name = "NAME", default_value = "torch-local")]
    runtime: String,

    /// The name of the job; else one is made of the script's.
    #[arg(long)]
    name: Option<String>,

    /// Show progress and output until the job has ended.
    #[arg(short, long)]
    watch: bool,
}

impl Submit {
    pub fn is_empty(&self) -> bool {
        self.script.is_none() && self.file.is_none()
    }
}

pub async fn submit(cluster: &Cluster, asked: &Submit, context: &Context) -> Result<ExitCode> {
    let mut job = match (&asked.script, &asked.file) {
        (Some(script), _) => of_script(asked, script)?,
        (None, Some(file)) => of_file(file)?,
        (None, None) => bail!("name a script or a file with a TrainJob"),
    };
    if let Some(name) = &asked.name {
        job["metadata"]["name"] = json!(name);
    }
    if job["metadata"]["namespace"].is_null() {
        job["metadata"]["namespace"] = json!(cluster.namespace);
    }
    for (field, number) in [("numNodes", asked.nodes), ("numProcPerNode", asked.procs)] {
        if let Some(number) = number {
            job["spec"]["trainer"][field] = json!(number);
        }
    }
    let made = cluster.requests.create(TRAIN_JOB, &job).await;
    let made = made.map_err(|error| anyhow::anyhow!(error.said()))?;
    let name = made.name.name.to_string();
    context.output.print(&Made { name: name.clone() })?;
    if !asked.watch {
        return Ok(ExitCode::SUCCESS);
    }
    follow::follow(cluster, &name).await
}

#[derive(serde::Serialize)]
struct Made {
    name: String,
}

impl std::fmt::Display for Made {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} trains; see `setpoint train show {}`", self.name, self.name)
    }
}

fn of_script(asked: &Submit, script: &Path) -> Result<Value> {
    let path = script.canonicalize();
    let path = path.with_context(|| format!("could not find {}", script.display()))?;
    let path = path.to_string_lossy().into_owned();
    // One process needs no launcher.
    let mut command = match asked.procs {
        Some(procs) if procs > 1 => vec!["torchrun".to_owned()],
        _ => vec!["python3".to_owned(), "-u".to_owned()],
    };
    command.push(path);
    command.extend(asked.arguments.iter().cloned());
    Ok(json!({
        "apiVersion": TRAIN_JOB.api_version(),
        "kind": TRAIN_JOB.kind,
        "metadata": {"name": name_of(script)},
        "spec": {"runtimeRef": {"name": asked.runtime}, "trainer": {"command": command}},
    }))
}

/// A name of its own for each run of a script.
fn name_of(script: &Path) -> String {
    let stem = script.file_stem().map(|stem| stem.to_string_lossy().to_lowercase());
    let letters = stem.unwrap_or_default();
    let letters = letters.chars().map(|one| if one.is_ascii_alphanumeric() { one } else { '-' });
    let name: String = letters.take(NAME_LENGTH_MAX).collect();
    let name = name.trim_matches(|one: char| !one.is_ascii_alphabetic());
    let name = if name.is_empty() { "train" } else { name };
    let chance = System.random() & 0xff_ffff;
    format!("{name}-{chance:06x}")
}

fn of_file(file: &Path) -> Result<Value> {
    let reading = || format!("could not read {}", file.display());
    let text = std::fs::read_to_string(file).with_context(reading)?;
    let job: Value = serde_saphyr::from_str(&text).with_context(reading)?;
    if job["kind"] != TRAIN_JOB.kind {
        bail!("{} holds no TrainJob", file.display());
    }
    Ok(job)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_named_after_its_script() {
        let name = name_of(Path::new("dir/My Model_2.py"));
        assert!(name.starts_with("my-model-"), "{name}");
        assert!(name_of(Path::new("1.py")).starts_with("train-"));
    }
}
