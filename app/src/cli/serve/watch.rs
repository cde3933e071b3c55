//! Follows a graph until it serves or cannot.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use inference::value::text;
use serde_json::json;
use tokio::time::Instant;

use super::cluster::Cluster;
use super::list::{parts, progress, state, why};
use crate::cli::Context;
use crate::cli::exit;
use crate::cli::verdict::{Observation, Seen, Verdict, decide, is_current};
use crate::cli::wait::Waited;

/// Interval between observations.
const POLL: Duration = Duration::from_millis(500);

/// A graph that is waited for.
pub struct Watched<'a> {
    pub cluster: &'a Cluster,
    pub name: &'a str,
    pub timeout: Duration,
    /// Command that shows more of it.
    pub hint: &'a str,
    /// UIDs of the pods that an update replaces: their failures do not count.
    pub replaced: BTreeSet<String>,
}

impl Watched<'_> {
    /// Reads the graph and the pods of its newest version.
    pub async fn observe(&self) -> Result<Observation> {
        let graph = self.cluster.graph(self.name).await?;
        let mut pods = self.cluster.pods(self.name).await.unwrap_or_default();
        pods.retain(|pod| !self.replaced.contains(text(&pod["metadata"]["uid"])));
        Ok(self.cluster.reader().observe_pods(graph.value.clone(), pods).await)
    }

    pub fn waited<'a>(&'a self, what: &'a str) -> Waited<'a> {
        let hint = self.hint.to_owned();
        Waited { what, timeout: self.timeout, hint, reader: self.cluster.reader() }
    }

    /// Prints the state and the address of a graph until it serves.
    pub async fn watch(&self, context: &Context) -> Result<ExitCode> {
        let Watched { cluster, name, timeout, .. } = *self;
        let (deadline, what) = (Instant::now() + timeout, format!("graph {name}"));
        let (mut said, mut told, mut seen) = (String::new(), BTreeSet::new(), Seen::default());
        loop {
            let observation = self.observe().await?;
            let graph = &observation.object;
            let (word, parts) = (state(graph), parts(graph));
            let now = format!("{word}  {}", progress(&parts));
            if now != said {
                let object = json!({"graph": name, "state": word, "components": parts});
                context.output.tell(&format!("[{name}] {now}"), &object)?;
                said = now;
            }
            let why_waiting = match decide(&observation, &mut seen, Instant::now()) {
                Verdict::Done => {
                    let graph = cluster.graph(name).await?;
                    if let Some((_, address)) = cluster.frontend(&graph).await? {
                        let object = json!({"graph": name, "address": address});
                        context.output.tell(&format!("[{name}] serves at {address}"), &object)?;
                    }
                    return Ok(ExitCode::SUCCESS);
                }
                Verdict::Failed(_) if word == "failed" && is_current(graph, "Ready") => {
                    let why = why(graph);
                    let object = json!({"graph": name, "failed": why});
                    context.output.tell(&format!("[{name}] {why}"), &object)?;
                    return Ok(ExitCode::from(exit::WORKLOAD_FAILED));
                }
                Verdict::Failed(cause) => {
                    let evidence = cluster.reader().collect(&observation, cause.container).await;
                    return Err(self.waited(&what).failed(&cause.why, &evidence));
                }
                Verdict::Waiting(why) => why,
            };
            if why_waiting.starts_with("pod/") && told.insert(why_waiting.clone()) {
                let object = json!({"graph": name, "waits": why_waiting});
                context.output.tell(&format!("[{name}] {why_waiting}"), &object)?;
            }
            if Instant::now() > deadline {
                let evidence = cluster.reader().collect(&observation, None).await;
                return Err(self.waited(&what).timed_out(&why_waiting, &evidence));
            }
            tokio::time::sleep(POLL).await;
        }
    }
}
