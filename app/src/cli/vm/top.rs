//! What machines that run use.

use std::fmt;

use anyhow::Result;
use machines::kinds::INSTANCE;
use machines::value::text;
use serde::Serialize;

use super::cluster::Cluster;
use crate::cli::Context;

#[derive(Serialize)]
#[serde(transparent)]
struct Used {
    machines: Vec<Row>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    name: String,
    /// Since it began.
    processor_milliseconds: u64,
    memory_bytes: u64,
    read_bytes: u64,
    written_bytes: u64,
    /// As the guest says, if an agent in it does.
    received_bytes: Option<u64>,
    sent_bytes: Option<u64>,
}

pub async fn top(cluster: &Cluster, context: &Context) -> Result<()> {
    let mut machines = Vec::new();
    for instance in cluster.items(INSTANCE).await? {
        let name = text(&instance["metadata"]["name"]).to_owned();
        // One that does not run uses nothing.
        let Some(used) = cluster.read(&name, "usage").await else { continue };
        let number = |field: &str| used[field].as_u64().unwrap_or(0);
        machines.push(Row {
            name,
            processor_milliseconds: number("processorMilliseconds"),
            memory_bytes: number("memoryBytes"),
            read_bytes: number("readBytes"),
            written_bytes: number("writtenBytes"),
            received_bytes: used["receivedBytes"].as_u64(),
            sent_bytes: used["sentBytes"].as_u64(),
        });
    }
    context.output.print(&Used { machines })?;
    Ok(())
}

impl fmt::Display for Used {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.machines.is_empty() {
            return write!(formatter, "no machine runs");
        }
        let widest = self.machines.iter().map(|row| row.name.len()).max().unwrap_or(0).max(4);
        write!(formatter, "{:widest$}  CPU SECONDS  MEMORY MIB  READ MIB  WRITTEN MIB", "NAME")?;
        write!(formatter, "  RECEIVED MIB  SENT MIB")?;
        for row in &self.machines {
            let mib = |bytes: u64| bytes >> 20;
            let (seconds, memory) = (row.processor_milliseconds / 1_000, mib(row.memory_bytes));
            write!(formatter, "\n{:widest$}  {seconds:>11}  {memory:>10}", row.name)?;
            write!(formatter, "  {:>8}  {:>11}", mib(row.read_bytes), mib(row.written_bytes))?;
            let said = |bytes: Option<u64>| {
                bytes.map_or_else(|| "-".to_owned(), |bytes| mib(bytes).to_string())
            };
            write!(formatter, "  {:>12}  {:>8}", said(row.received_bytes), said(row.sent_bytes))?;
        }
        Ok(())
    }
}
