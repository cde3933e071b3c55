//! Pods that find a node: while they are created, and when they have waited.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use store::{Environment, System};

use super::{Options, anchors, arrivals, objects};
use crate::api::client::Http;
use crate::api::load::{self, Load};
use crate::api::report::{Aim, Report, micros};
use crate::api::target::Target;
use crate::api::usage;

/// Connections that create pods.
const CREATORS: usize = 16;
/// Only pods that have a node.
const BOUND: &str = "?fieldSelector=spec.nodeName!%3D";

/// Creates pods over several connections.
pub async fn create_pods(target: &Arc<Target>, count: usize) -> Result<()> {
    let owner = target.clone();
    let make = move |number: usize| {
        let pod = objects::pod(&format!("pod-{number}")).to_string();
        owner.request("POST", &objects::pods(&owner), pod)
    };
    let load = Load { http: Http::One, connections: CREATORS, streams: 1, count };
    load::run(target, load, Arc::new(make)).await.map(|_| ())
}

/// Pods are scheduled while they are created.
pub async fn created(options: &Options, nodes: u32, report: &mut Report) -> Result<()> {
    let target = options.cluster(nodes, "all").await?;
    let path = format!("{}{BOUND}", objects::pods(&target));
    let bound = arrivals::expect(&target, &path, "ADDED", options.pods).await?;
    let before = target.pid.map(usage::processor_time);
    let begin = crate::statistics::now();
    create_pods(&target, options.pods).await?;
    let arrived = bound.await?.context("pods were not scheduled")?;
    let elapsed = arrived.last.duration_since(begin);
    let what = format!("{nodes} nodes: created and bound");
    let aim = if nodes >= 1_000 { Aim::AtLeast(5_000.0) } else { Aim::None };
    let rate = options.pods as f64 / elapsed.as_secs_f64();
    let anchor = anchors::rate(rate, anchors::of(&anchors::CREATED, nodes));
    report.row(&what, (rate, "/s"), aim, &anchor);
    processor(&target, before, options.pods, report);
    Ok(())
}

/// Pods that were there before the scheduler.
pub async fn waiting(options: &Options, nodes: u32, report: &mut Report) -> Result<()> {
    let first = options.cluster(nodes, "api").await?;
    create_pods(&first, options.pods).await?;
    let started = first.started.as_ref().context("the server must be ours")?;
    let directory = options.directory.join(format!(".bench-{:016x}", System.random()));
    started.copy_to(&directory)?;
    let namespace = first.namespace.clone();
    drop(first);
    let count = nodes.to_string();
    let arguments = ["--components", "all", "--fake-nodes", &count];
    let target = Target::launch(options.program.as_deref(), directory, &arguments)?;
    let target = Arc::new(Target { namespace, ..target });
    let before = target.pid.map(usage::processor_time);
    let path = format!("{}{BOUND}", objects::pods(&target));
    let bound = arrivals::expect(&target, &path, "ADDED", options.pods).await?;
    let arrived = bound.await?.context("pods were not scheduled")?;
    let elapsed = arrived.last.duration_since(arrived.first).max(Duration::from_micros(1));
    let what = format!("{nodes} nodes: bound, from the first to the last");
    let aim = if nodes >= 1_000 { Aim::AtLeast(8_000.0) } else { Aim::None };
    let rate = options.pods as f64 / elapsed.as_secs_f64();
    let anchor = anchors::rate(rate, anchors::of(&anchors::WAITING, nodes));
    report.row(&what, (rate, "/s"), aim, &anchor);
    processor(&target, before, options.pods, report);
    Ok(())
}

pub fn processor(target: &Target, before: Option<Duration>, count: usize, report: &mut Report) {
    let Some((pid, before)) = target.pid.zip(before) else { return };
    let used = usage::processor_time(pid).saturating_sub(before);
    let each = used / u32::try_from(count).unwrap_or(1).max(1);
    report.row("  processor of the server, each", micros(each), Aim::None, "");
}
