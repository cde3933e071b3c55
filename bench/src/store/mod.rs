//! The store's figures, one table.

mod bounds;
mod commits;
mod subject;
mod watches;

use std::sync::Arc;

use clap::{Args, ValueEnum};
use store::{KeyRange, PageRequest, Store};

use crate::statistics::{Samples, now, time};
use subject::Place;

/// Keys for the figures of a filled store.
const KEYS: usize = 100_000;
pub const VALUE_BYTES: usize = 1_024;

#[derive(Args)]
pub struct Options {
    /// Which backend; mysql and etcd are started privately.
    #[arg(long, default_value = "embedded")]
    store: Kind,
    /// Where the embedded store writes; the disk of this directory is what is measured.
    #[arg(long, default_value = ".")]
    directory: std::path::PathBuf,
    /// How long each rate of commits is measured, in seconds.
    #[arg(long, default_value_t = 2)]
    seconds: u64,
}

#[derive(Clone, Copy, ValueEnum, PartialEq)]
pub enum Kind {
    Memory,
    Embedded,
    Mysql,
    Etcd,
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    let place = Place::prepare(options.store, &options.directory)?;
    row("what", "figure", "bound in the same run");
    commits::measure(&place, options.seconds).await?;
    filled(&place).await?;
    watches::measure(&place).await?;
    Ok(())
}

/// Reopening, listing and the size on disk of a store with many keys.
async fn filled(place: &Place) -> anyhow::Result<()> {
    let fresh = place.fresh()?;
    let store = fresh.open().await?;
    commits::fill(&store, KEYS).await?;
    list(&store).await?;
    store.close().await;
    drop(store);
    if place.kind == Kind::Memory {
        return Ok(());
    }
    let mut samples = Samples::default();
    for _ in 0..5 {
        let start = now();
        let store = fresh.open().await?;
        samples.push(start.elapsed());
        store.close().await;
    }
    let bound = fresh.time_to_read()?.map(|read| format!("reading the files {}", time(read)));
    let figure = time(samples.percentile(0.5));
    row(&format!("reopen with {KEYS} keys"), &figure, &bound.unwrap_or_default());
    if let Some(bytes) = fresh.bytes_on_disk()? {
        let live = (KEYS * VALUE_BYTES) as f64;
        row("bytes on disk per live byte", &format!("{:.2}", bytes as f64 / live), "1");
    }
    fresh.remove()
}

async fn list(store: &Arc<dyn Store>) -> anyhow::Result<()> {
    let range = KeyRange::prefix("key/0000");
    let mut samples = Samples::default();
    for _ in 0..50 {
        let start = now();
        let page = store.list(&range, PageRequest::first(10_000), None).await?;
        samples.push(start.elapsed());
        anyhow::ensure!(page.entries.len() == 10_000, "{} entries", page.entries.len());
    }
    let figure =
        format!("{}, p99 {}", time(samples.percentile(0.5)), time(samples.percentile(0.99)));
    row("list of 10,000", &figure, "aim 3 ms");
    let at = Some(store.revision());
    let start = now();
    store.list(&range, PageRequest::first(10_000), at).await?;
    row("list of 10,000 at a revision", &time(start.elapsed()), "");
    Ok(())
}

pub fn row(what: &str, figure: &str, bound: &str) {
    println!("{what:34} {figure:38} {bound}");
}
