//! Durable commits: rate and latency by number of writers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use store::{
    Commit, Environment, Key, Mutation, Operation, Precondition, Provenance, Store, System,
};

use super::subject::Place;
use super::{Kind, VALUE_BYTES, bounds, row};
use crate::statistics::{Samples, now, time};

const WRITERS: [usize; 4] = [1, 16, 64, 256];

pub async fn measure(place: &Place, seconds: u64) -> anyhow::Result<()> {
    let duration = Duration::from_secs(seconds);
    let mut alone = None;
    for writers in WRITERS {
        let fresh = place.fresh()?;
        let store = fresh.open().await?;
        let mut samples = write(&store, writers, duration).await?;
        store.close().await;
        fresh.remove()?;
        let rate = samples.len() as f64 / duration.as_secs_f64();
        let alone = *alone.get_or_insert(rate);
        let figure = format!(
            "{rate:.0}/s, p50 {}, p99 {}",
            time(samples.percentile(0.5)),
            time(samples.percentile(0.99))
        );
        let mut bound = format!("{:.1} x one writer", rate / alone);
        if place.kind == Kind::Embedded {
            let mut synced = bounds::write_and_sync(place, writers, duration)?;
            let redb = bounds::redb(place, writers, duration)?;
            let sync = synced.percentile(0.5);
            let bound_rate = (synced.len() * writers) as f64 / duration.as_secs_f64();
            bound += &format!(
                "; write + fdatasync {bound_rate:.0}/s, p50 {} (ours {:.2} x); redb {redb:.0}/s \
                 (ours {:.1} x)",
                time(sync),
                samples.percentile(0.5).as_secs_f64() / sync.as_secs_f64(),
                rate / redb
            );
        }
        row(&format!("commits, {writers} writers of 1 KiB"), &figure, &bound);
    }
    Ok(())
}

async fn write(
    store: &Arc<dyn Store>,
    writers: usize,
    duration: Duration,
) -> anyhow::Result<Samples> {
    let mut tasks = tokio::task::JoinSet::new();
    let end = now() + duration;
    for writer in 0..writers {
        let store = store.clone();
        tasks.spawn(async move {
            let mut samples = Samples::default();
            let mut number = 0;
            while now() < end {
                let start = now();
                store.commit(create(&format!("{writer}/{number}"))?).await?;
                samples.push(start.elapsed());
                number += 1;
            }
            anyhow::Ok(samples)
        });
    }
    let mut all = Samples::default();
    while let Some(samples) = tasks.join_next().await {
        all.extend(samples??);
    }
    Ok(all)
}

/// Creates keys `key/000000` and so on.
pub async fn fill(store: &Arc<dyn Store>, keys: usize) -> anyhow::Result<()> {
    const WORKERS: usize = 64;
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..WORKERS {
        let store = store.clone();
        tasks.spawn(async move {
            for number in (worker..keys).step_by(WORKERS) {
                // The first ten thousand share a prefix, for the list of that size.
                let group = number / 10_000;
                store.commit(create(&format!("key/{group:04}/{number:06}"))?).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

pub fn create(name: &str) -> anyhow::Result<Commit> {
    let mutation = Mutation::Put(Bytes::from(vec![b'x'; VALUE_BYTES]));
    let operation = Operation { key: Key::new(name)?, mutation, when: Precondition::Absent };
    let provenance = Provenance::of(System.now(), "bench");
    Ok(Commit { operations: vec![operation], epoch: None, provenance })
}
