//! The output of all ranks, with what the job says of itself, until it has ended.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use reconcile::conditions;
use serde_json::Value;
use tokio::task::JoinSet;

use super::cluster::Cluster;
use super::show::{progress, state};

/// How often the job is looked at.
const POLL: Duration = Duration::from_millis(500);
/// How much of a rank that failed is shown.
const LAST_LINES: u32 = 20;
/// How long output may still come after the end.
const REST_MAX: Duration = Duration::from_secs(5);

/// Shows everything until the job has ended.
pub async fn follow(cluster: &Cluster, name: &str) -> Result<ExitCode> {
    let mut following = BTreeSet::new();
    let mut readers = JoinSet::new();
    let mut said = String::new();
    loop {
        let job = cluster.job(name).await?;
        let now = format!("{}{}", state(&job.value), progress(&job.value));
        if now != said {
            println!("[{name}] {now}");
            said = now;
        }
        for pod in cluster.pods(name).await? {
            let rank = rank(&pod);
            let key = text(&pod["metadata"]["name"]);
            if has_started(&pod) && following.insert(key.clone()) {
                let cluster = cluster.clone();
                readers.spawn(async move { read(&cluster, (&key, &rank), "&follow=true").await });
            }
        }
        let ended = |kind: &str| conditions::is_true(&job.value["status"], kind);
        if ended("Complete") || ended("Failed") {
            let rest = async { while readers.join_next().await.is_some() {} };
            // A rank that was cut off may never end its output.
            let _ = tokio::time::timeout(REST_MAX, rest).await;
            if ended("Complete") {
                return Ok(ExitCode::SUCCESS);
            }
            explain(cluster, name, &job.value).await?;
            return Ok(ExitCode::FAILURE);
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Prints what there is, rank after rank.
pub async fn print_logs(cluster: &Cluster, name: &str) -> Result<ExitCode> {
    cluster.job(name).await?;
    for pod in cluster.pods(name).await?.iter().filter(|pod| has_started(pod)) {
        read(cluster, (&text(&pod["metadata"]["name"]), &rank(pod)), "").await;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the output of a pod, each line with its rank.
async fn read(cluster: &Cluster, (pod, rank): (&str, &str), query: &str) {
    let container = container_of(rank);
    let print = |line: &str| println!("[{rank}] {line}");
    if let Err(error) = cluster.log_lines(pod, container, query, print).await {
        println!("[{rank}] (no output: {})", crate::output::one_line(&error));
    }
}

/// Says which rank failed, how, and what it said last.
async fn explain(cluster: &Cluster, name: &str, job: &Value) -> Result<()> {
    let failed = conditions::find(&job["status"], "Failed").unwrap_or(&Value::Null);
    println!("[{name}] failed: {}: {}", text(&failed["reason"]), text(&failed["message"]));
    let pods = cluster.pods(name).await?;
    let Some(pod) = pods.iter().find(|pod| pod["status"]["phase"] == "Failed") else {
        return Ok(());
    };
    let rank = rank(pod);
    let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
    println!("[{rank}] failed first, with exit code {}; its last lines:", ended["exitCode"]);
    let query = format!("&tailLines={LAST_LINES}");
    read(cluster, (&text(&pod["metadata"]["name"]), &rank), &query).await;
    Ok(())
}

/// `node-0`: which job of the set, and which of its pods.
fn rank(pod: &Value) -> String {
    let labels = &pod["metadata"]["labels"];
    let job = text(&labels["jobset.sigs.k8s.io/replicatedjob-name"]);
    let index = text(&labels["batch.kubernetes.io/job-completion-index"]);
    format!("{job}-{index}")
}

/// The container that does the work of a step.
fn container_of(rank: &str) -> &str {
    match rank.rsplit_once('-') {
        Some((step @ ("dataset-initializer" | "model-initializer"), _)) => step,
        _ => "node",
    }
}

fn has_started(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Running" | "Succeeded" | "Failed"))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
