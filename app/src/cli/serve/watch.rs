//! A graph until it serves or cannot.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;

use super::cluster::Cluster;
use super::list::{progress, state, why};

/// How often the graph is looked at.
const POLL: Duration = Duration::from_millis(500);

pub async fn watch(cluster: &Cluster, name: &str) -> Result<ExitCode> {
    let mut said = String::new();
    loop {
        let graph = cluster.graph(name).await?;
        let word = state(&graph.value);
        let is_seen =
            graph.value["status"]["observedGeneration"].as_i64() >= Some(graph.generation());
        let now = format!("{word}  {}", progress(&graph.value));
        if now != said {
            println!("[{name}] {now}");
            said = now;
        }
        match word {
            "successful" if is_seen => {
                if let Some((_, address)) = cluster.frontend(&graph).await? {
                    println!("[{name}] serves at {address}");
                }
                return Ok(ExitCode::SUCCESS);
            }
            "failed" => {
                println!("[{name}] {}", why(&graph.value));
                return Ok(ExitCode::FAILURE);
            }
            _ => tokio::time::sleep(POLL).await,
        }
    }
}
