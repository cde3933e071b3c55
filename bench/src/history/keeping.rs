//! What keeping history costs each write: time of the processor, and bytes that stay.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use store::backends::embedded::{self, Settings};
use store::{
    Commit, Environment, Key, Mutation, Operation, Precondition, Provenance, Retention, Revision,
    Store, System,
};

use crate::api::usage::processor_time;
use crate::statistics::time;

/// Keys that are written in turn, and the size of a value.
const KEYS: usize = 100;
const VALUE_BYTES: usize = 2_048;
/// Writes that are under way at once.
const IN_FLIGHT: usize = 64;

pub async fn run(directory: &Path, writes: usize) -> anyhow::Result<()> {
    let none = Retention {
        age_max: Duration::ZERO,
        bytes_max: 0,
        interval: Duration::from_millis(100),
        recent_bytes_max: 0,
        ..Retention::default()
    };
    println!("{writes} durable writes of {VALUE_BYTES} bytes to {KEYS} keys");
    for (what, retention) in [("with history", Retention::default()), ("without", none)] {
        let (processor, bytes) = measure(directory, retention, writes).await?;
        let each = processor / u32::try_from(writes).unwrap_or(u32::MAX);
        let kept = bytes / writes as u64;
        println!(
            "  {what:<24} {:>10} of a processor a write, {kept} bytes of the disk a write",
            time(each)
        );
    }
    Ok(())
}

async fn measure(
    directory: &Path,
    retention: Retention,
    writes: usize,
) -> anyhow::Result<(Duration, u64)> {
    let path = directory.join(format!("setpoint-bench-{:016x}", System.random()));
    let settings = Settings { directory: path.clone() };
    let store = embedded::open(&settings, retention, Arc::new(System)).await?;
    let before = processor_time(std::process::id());
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..IN_FLIGHT {
        let (store, count) = (store.clone(), writes / IN_FLIGHT);
        tasks.spawn(async move { write(&*store, task, count).await });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    let used = processor_time(std::process::id()).saturating_sub(before);
    // What is left when the window has moved once more.
    tokio::time::sleep(Duration::from_millis(300)).await;
    store.close().await;
    let bytes = bytes_of(&path)?;
    let _ = std::fs::remove_dir_all(&path);
    Ok((used, bytes))
}

/// What the files of a directory take up of the disk.
fn bytes_of(directory: &Path) -> std::io::Result<u64> {
    /// Blocks are counted in these, whatever the file system has.
    const BLOCK_BYTES: u64 = 512;
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory)? {
        bytes += entry?.metadata()?.blocks() * BLOCK_BYTES;
    }
    Ok(bytes)
}

/// Writes keys of its own in turn.
async fn write(store: &dyn Store, task: usize, count: usize) -> Result<(), store::Error> {
    let mut at: Vec<Option<Revision>> = vec![None; KEYS / IN_FLIGHT + 1];
    for number in 0..count {
        let slot = number % at.len();
        let key = Key::new(format!("pods/default/{task}-{slot}"))?;
        let when = at[slot].map_or(Precondition::Absent, Precondition::At);
        let value = vec![u8::try_from(number % 251).unwrap_or(0); VALUE_BYTES];
        let operation = Operation { key, mutation: Mutation::Put(value.into()), when };
        let provenance = Provenance::of(System.now(), "bench");
        let commit = Commit { operations: vec![operation], epoch: None, provenance };
        at[slot] = Some(store.commit(commit).await?.revision);
    }
    Ok(())
}
