//! A graph until it serves or cannot.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, anyhow};
use serde_json::json;
use tokio::time::Instant;

use super::cluster::Cluster;
use super::list::{parts, progress, state, why};
use super::obstacles::Obstacles;
use crate::cli::Context;
use crate::cli::exit::{self, Failure};
use crate::cli::wait::is_said_of_now;

/// How often the graph is looked at.
const POLL: Duration = Duration::from_millis(500);

/// What is watched, and for how long.
pub struct Watched<'a> {
    pub name: &'a str,
    pub timeout: Duration,
    /// What shows more of it.
    pub hint: &'a str,
}

pub async fn watch(
    cluster: &Cluster,
    watched: &Watched<'_>,
    mut obstacles: Obstacles,
    context: &Context,
) -> Result<ExitCode> {
    let Watched { name, timeout, hint } = *watched;
    let deadline = Instant::now() + timeout;
    let mut said = String::new();
    loop {
        let graph = cluster.graph(name).await?;
        let word = state(&graph.value);
        let is_seen =
            graph.value["status"]["observedGeneration"].as_i64() >= Some(graph.generation());
        let has_failed = word == "failed" && is_said_of_now(&graph.value, "Ready");
        let (parts, why) = (parts(&graph.value), why(&graph.value));
        let now = format!("{word}  {}", progress(&parts));
        if now != said {
            let object = json!({"graph": name, "state": word, "components": parts});
            context.output.tell(&format!("[{name}] {now}"), &object)?;
            said = now;
        }
        match word {
            "successful" if is_seen => {
                if let Some((_, address)) = cluster.frontend(&graph).await? {
                    let object = json!({"graph": name, "address": address});
                    context.output.tell(&format!("[{name}] serves at {address}"), &object)?;
                }
                return Ok(ExitCode::SUCCESS);
            }
            _ if has_failed => {
                let object = json!({"graph": name, "failed": why});
                context.output.tell(&format!("[{name}] {why}"), &object)?;
                return Ok(ExitCode::from(exit::WORKLOAD_FAILED));
            }
            _ if Instant::now() > deadline => {
                let what = format!("{name} does not serve after {timeout:?}: {why}");
                return Err(anyhow!(Failure::new(exit::TIMED_OUT, what).hint(hint)));
            }
            _ => {}
        }
        for line in obstacles.look(cluster, name).await? {
            let object = json!({"graph": name, "waits": line});
            context.output.tell(&format!("[{name}] {line}"), &object)?;
        }
        tokio::time::sleep(POLL).await;
    }
}
