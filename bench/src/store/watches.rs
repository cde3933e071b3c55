//! Watches: latency and fan-out by number of watchers, and a burst.

use std::sync::Arc;
use std::time::{Duration, Instant};

use store::{KeyRange, Store, Watch};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::commits::create;
use super::row;
use super::subject::Place;
use crate::statistics::{Samples, now, time};

const EVENTS: usize = 40;

pub async fn measure(place: &Place) -> anyhow::Result<()> {
    for watchers in [1, 100, 1_000, 10_000] {
        let fresh = place.fresh()?;
        let store = fresh.open().await?;
        let (mut each, mut last) = fan_out(&store, watchers).await?;
        store.close().await;
        fresh.remove()?;
        let figure =
            format!("p50 {}, p99 {}", time(each.percentile(0.5)), time(each.percentile(0.99)));
        let last = format!("last watcher p50 {}", time(last.percentile(0.5)));
        row(&format!("answer to event, {watchers} watchers"), &figure, &last);
    }
    burst(place).await
}

/// The time from a commit's answer to its event, for every watcher and for the last one.
async fn fan_out(store: &Arc<dyn Store>, watchers: usize) -> anyhow::Result<(Samples, Samples)> {
    let mut readers = JoinSet::new();
    for _ in 0..watchers {
        let watch = store.watch(KeyRange::all(), store.revision()).await?;
        readers.spawn(arrivals(watch, EVENTS));
    }
    let mut answered = Vec::new();
    for number in 0..EVENTS {
        store.commit(create(&format!("event/{number}"))?).await?;
        answered.push(now());
        // Isolated events: the next one comes when this one has long been delivered.
        tokio::time::sleep(Duration::from_millis(5 + watchers as u64 / 50)).await;
    }
    let mut each = Samples::default();
    let mut latest = answered.clone();
    while let Some(arrivals) = readers.join_next().await {
        for ((arrival, answer), latest) in arrivals??.iter().zip(&answered).zip(&mut latest) {
            each.push(arrival.saturating_duration_since(*answer));
            *latest = (*latest).max(*arrival);
        }
    }
    let mut last = Samples::default();
    for (latest, answer) in latest.iter().zip(&answered) {
        last.push(latest.saturating_duration_since(*answer));
    }
    Ok((each, last))
}

async fn arrivals(mut watch: Watch, events: usize) -> anyhow::Result<Vec<Instant>> {
    let mut arrivals = Vec::with_capacity(events);
    for _ in 0..events {
        watch.next().await?;
        arrivals.push(now());
    }
    Ok(arrivals)
}

/// Many writes at once to many watchers: all must be delivered.
async fn burst(place: &Place) -> anyhow::Result<()> {
    const WRITES: usize = 300;
    const WATCHERS: usize = 500;
    let fresh = place.fresh()?;
    let store = fresh.open().await?;
    let mut readers = JoinSet::new();
    for _ in 0..WATCHERS {
        let watch = store.watch(KeyRange::all(), store.revision()).await?;
        readers.spawn(arrivals(watch, WRITES));
    }
    let barrier = Arc::new(Barrier::new(WRITES));
    let mut writers = JoinSet::new();
    let start = now();
    for number in 0..WRITES {
        let (store, barrier) = (store.clone(), barrier.clone());
        writers.spawn(async move {
            barrier.wait().await;
            store.commit(create(&format!("burst/{number}"))?).await?;
            anyhow::Ok(())
        });
    }
    while let Some(written) = writers.join_next().await {
        written??;
    }
    let written = start.elapsed();
    let mut delivered = 0;
    while let Some(arrivals) = readers.join_next().await {
        delivered += arrivals??.len();
    }
    let figure = format!("{delivered} of {} events", WRITES * WATCHERS);
    let bound = format!("written in {}, delivered in {}", time(written), time(start.elapsed()));
    row("burst, 300 writes to 500 watchers", &figure, &bound);
    store.close().await;
    fresh.remove()
}
