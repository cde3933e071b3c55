//! A graph until it serves or cannot.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, anyhow};
use serde_json::json;
use tokio::time::Instant;

use super::cluster::Cluster;
use super::list::{parts, progress, state, why};
use crate::cli::Context;
use crate::cli::exit::{self, Failure};

/// How often the graph is looked at.
const POLL: Duration = Duration::from_millis(500);

pub async fn watch(
    cluster: &Cluster,
    name: &str,
    timeout: Duration,
    context: &Context,
) -> Result<ExitCode> {
    let deadline = Instant::now() + timeout;
    let mut said = String::new();
    loop {
        let graph = cluster.graph(name).await?;
        let word = state(&graph.value);
        let is_seen =
            graph.value["status"]["observedGeneration"].as_i64() >= Some(graph.generation());
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
            "failed" => {
                let object = json!({"graph": name, "failed": why});
                context.output.tell(&format!("[{name}] {why}"), &object)?;
                return Ok(ExitCode::from(exit::WORKLOAD_FAILED));
            }
            _ if Instant::now() > deadline => {
                let what = format!("{name} does not serve after {timeout:?}: {why}");
                let hint = format!("setpoint serve show {name}");
                return Err(anyhow!(Failure::new(exit::TIMED_OUT, what).hint(hint)));
            }
            _ => tokio::time::sleep(POLL).await,
        }
    }
}
