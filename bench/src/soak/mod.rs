//! An hour of mixed load and faults on one control plane: memory, file descriptors and disk space
//! must stay level, and every acknowledged write must survive a crash at the end.

mod faults;
mod readings;
mod workloads;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use store::{Environment, System};
use tokio::task::JoinSet;

use crate::api::client::{Connection, Http};
use crate::api::report::{Aim, Report};
use crate::api::target::Target;
use crate::cluster::objects;
use crate::statistics::now;
use readings::{Reading, Readings};
use workloads::Acknowledged;

/// Growth of memory that counts as none.
const MEMORY_SLOPE_MAX: f64 = 1.0;
/// Growth of file descriptors that counts as none, per hour.
const DESCRIPTOR_SLOPE_MAX: f64 = 4.0;
/// Growth of disk space that counts as none, in MiB per hour.
const DISK_SLOPE_MAX: f64 = 16.0;
const READING_INTERVAL: Duration = Duration::from_secs(10);
/// Share of the time after which the history and all caches have reached their limits.
const WARM_UP_SHARE: f64 = 0.4;
const FAKE_NODES: &str = "20";
/// Small limits, so that the history is full before the warm-up ends.
const CONFIGURATION: &str = "\
storage:
  history: {max_age: 10m, max_bytes: 8MiB, thin_after: 2m, thin_to: 30s}
log: {level: warn}
";

#[derive(Args)]
pub struct Options {
    /// Program to start; the one built beside this one by default.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Directory below which the server keeps its data.
    #[arg(long, default_value = ".")]
    directory: PathBuf,
    /// Duration of the load in minutes.
    #[arg(long, default_value_t = 60)]
    minutes: u64,
}

pub async fn run(options: Options) -> Result<()> {
    let directory = options.directory.join(format!(".soak-{:016x}", System.random()));
    std::fs::create_dir_all(&directory)?;
    std::fs::write(directory.join(".config.yaml"), CONFIGURATION)?;
    let target = Arc::new(launch(&options, directory)?);
    let mut connection = Connection::open(&target, Http::One).await?;
    objects::namespace(&target, &mut connection, &target.namespace).await?;

    let mut load = JoinSet::new();
    let acknowledged = Arc::new(Acknowledged::default());
    load.spawn(workloads::update_config_maps(target.clone(), acknowledged.clone()));
    load.spawn(workloads::recreate_namespaces(target.clone()));
    load.spawn(workloads::list_and_watch(target.clone()));
    load.spawn(faults::send_bad_requests(target.clone()));
    load.spawn(faults::pause_server(target.clone()));
    let readings = record(&target, Duration::from_secs(60 * options.minutes), &mut load).await?;
    load.shutdown().await;

    print_report(&readings, &acknowledged);
    verify_after_crash(&options, &target, &acknowledged).await?;
    readings.ensure_level(MEMORY_SLOPE_MAX, DESCRIPTOR_SLOPE_MAX, DISK_SLOPE_MAX)
}

fn launch(options: &Options, directory: PathBuf) -> Result<Target> {
    let arguments = ["--components", "all", "--fake-nodes", FAKE_NODES];
    Target::launch(options.program.as_deref(), directory, &arguments)
}

/// Reads the use of resources until the time is over. A task of the load ends only by an error.
async fn record(
    target: &Target,
    duration: Duration,
    load: &mut JoinSet<Result<()>>,
) -> Result<Readings> {
    let pid = target.pid.context("the server must be a process of this machine")?;
    let directory = &target.started.as_ref().context("the server must be ours")?.directory;
    let begin = now();
    let mut readings = Readings::new(duration.mul_f64(WARM_UP_SHARE));
    let mut interval = tokio::time::interval(READING_INTERVAL);
    while begin.elapsed() < duration {
        tokio::select! {
            _ = interval.tick() => {
                let reading = Reading::take(begin.elapsed(), pid, directory)?;
                println!("{reading}");
                readings.push(reading);
            }
            ended = load.join_next() => {
                ended.context("no load runs")???;
                anyhow::bail!("a task of the load ended");
            }
        }
    }
    Ok(readings)
}

fn print_report(readings: &Readings, acknowledged: &Acknowledged) {
    let mut report = Report::begin();
    let slopes = readings.slopes();
    let remark = "after the warm-up";
    report.row("memory", (slopes.memory, "MiB/h"), Aim::AtMost(MEMORY_SLOPE_MAX), remark);
    let most = Aim::AtMost(DESCRIPTOR_SLOPE_MAX);
    report.row("file descriptors", (slopes.descriptors, "/h"), most, remark);
    report.row("disk", (slopes.disk, "MiB/h"), Aim::AtMost(DISK_SLOPE_MAX), remark);
    report.row("acknowledged updates", (acknowledged.count() as f64, ""), Aim::None, "");
}

/// Starts a second server on a copy of the files, which is what a crash would leave, and compares.
async fn verify_after_crash(
    options: &Options,
    target: &Target,
    acknowledged: &Acknowledged,
) -> Result<()> {
    let started = target.started.as_ref().context("the server must be ours")?;
    let copy = started.directory.with_extension("copy");
    started.copy_to(&copy)?;
    let restarted = launch(options, copy)?;
    let mut connection = Connection::open(&restarted, Http::One).await?;
    for (name, value) in acknowledged.values() {
        let path = workloads::config_map_path(&target.namespace, &name);
        let none = serde_json::Value::Null;
        let found = objects::send(&restarted, &mut connection, ("GET", &path), &none).await?;
        let stored = found["data"]["value"].as_str().unwrap_or_default();
        ensure!(stored == value, "{name} has {stored} after the crash, {value} was acknowledged");
    }
    Ok(())
}
