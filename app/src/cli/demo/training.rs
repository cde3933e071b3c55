//! Three ranks that really train: each has points of its own, and in every step they add up their
//! gradients over sockets. The script is the example of the documents.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use training::kinds::TRAIN_JOB;

use super::board::Board;
use super::{Outcome, Part, reason, seconds};
use crate::cli::connect::Target;
use crate::cli::log_stream::Source;
use crate::cli::train::cluster::Cluster;
use crate::cli::train::failure::Failures;
use crate::cli::train::show::{reported, state};
use crate::cli::verdict::Seen;

const SCRIPT: &str = include_str!("../../../../examples/training/linear.py");
pub const NAME: &str = "demo";
const RANKS: usize = 3;
const STEPS: &str = "200";
/// Slow enough to be watched, and over soon.
const PAUSE_SECONDS: &str = "0.01";
const RUNTIME: &str = "torch-local";
const LOOK: Duration = Duration::from_millis(100);
const LAST_LINES: u64 = 5;
/// What every rank finds, whatever its points are.
const FOUND: &str = "y = 2.000 x + 1.000";

/// Trains until all ranks have found the same line.
pub async fn run(target: &Target, directory: &Path, board: &Board) -> Result<Outcome> {
    let Some(python) = super::on_path("python3") else {
        return Ok(Outcome::skipped(
            "there is no python3 to train with; install it, such as with `apt install python3`",
        ));
    };
    let began = Instant::now();
    let script = directory.join("linear.py");
    std::fs::write(&script, SCRIPT).context("could not write the script")?;
    board.say(Part::Training.name(), "creates a TrainJob with 3 nodes");
    let cluster = Cluster::connect(target).await?;
    cluster.until_runtime(RUNTIME).await?;
    let command = json!([python, "-u", script, "--steps", STEPS, "--pause", PAUSE_SECONDS]);
    let job = json!({"apiVersion": TRAIN_JOB.api_version(), "kind": TRAIN_JOB.kind,
        "metadata": {"name": NAME, "namespace": cluster.namespace},
        "spec": {"runtimeRef": {"name": RUNTIME},
            "trainer": {"numNodes": RANKS, "command": command}}});
    let made = cluster.requests.create(TRAIN_JOB, &job).await;
    made.map_err(|error| cluster.explained(&error))?;
    let (mut running_after, mut seen) = (None, Seen::default());
    loop {
        let job = cluster.job(NAME).await?;
        let told = &job.value["status"]["trainerStatus"];
        let word = state(&job.value);
        board.say(Part::Training.name(), format!("3 ranks, {word}{}", reported(told, word)));
        if word == "running" || told.is_object() {
            running_after.get_or_insert_with(|| began.elapsed());
        }
        match word {
            "complete" => return complete(&cluster, told, (began, running_after)).await,
            "failed" => return Err(explained(&cluster).await),
            _ => {
                let pods = cluster.pods(NAME).await?;
                let observed = cluster.reader().observe_pods(job.value.clone(), pods).await;
                reason::check(cluster.reader(), &observed, &mut seen).await?;
                sleep(LOOK).await;
            }
        }
    }
}

async fn complete(
    cluster: &Cluster,
    told: &Value,
    (began, running_after): (Instant, Option<Duration>),
) -> Result<Outcome> {
    let took = began.elapsed();
    let pods = cluster.pods(NAME).await?;
    let mut found = 0;
    for pod in &pods {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let mut is_found = false;
        let sink = |_: &str, line: &str| is_found |= line.ends_with(FOUND);
        cluster.source(name, "node").read(&cluster.requests.client, sink).await?;
        found += usize::from(is_found);
    }
    if found != RANKS {
        bail!("only {found} of {RANKS} ranks found {FOUND}");
    }
    let metrics = told["metrics"].as_array().and_then(|all| all.first());
    let loss = metrics.and_then(|one| one["value"].as_str()).unwrap_or("unknown");
    let running = running_after.unwrap_or(took);
    Ok(Outcome::well(
        format!("{RANKS} ranks agreed on {FOUND}, loss {loss}"),
        json!({"ranks": RANKS, "steps": 200, "loss": loss,
            "runningAfterSeconds": seconds(running), "completeAfterSeconds": seconds(took)}),
    ))
}

/// The error for a failed job: its first failed rank, with the last lines of its output.
async fn explained(cluster: &Cluster) -> anyhow::Error {
    let pods = cluster.pods(NAME).await.unwrap_or_default();
    let mut failures = Failures::default();
    pods.iter().for_each(|pod| failures.look_at(pod));
    let Some(first) = failures.first() else { return anyhow::anyhow!("the job failed") };
    let mut lines = Vec::new();
    let take = |_: &str, line: &str| lines.push(line.to_owned());
    let source = cluster.source(&first.pod, &first.container);
    let source = Source { tail: Some(LAST_LINES), previous: first.is_previous, ..source };
    // A rank without output has only its exit code.
    let _ = source.read(&cluster.requests.client, take).await;
    anyhow::anyhow!("{first}: {}", lines.join(" | "))
}
