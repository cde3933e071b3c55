//! What a cluster costs that has nothing to do, and how it gets rid of much.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{Options, arrivals, objects, schedule};
use crate::api::client::{Connection, Http};
use crate::api::report::{Aim, Report, millis};
use crate::api::usage;
use crate::statistics::now;

const PODS: usize = 10_000;
const OBJECTS: usize = 1_000;
/// After the last write, before a cluster counts as idle.
const SETTLE: Duration = Duration::from_secs(5);
const SPAN: Duration = Duration::from_secs(20);

/// Many pods go with their namespace.
pub async fn delete_namespace(options: &Options, nodes: u32, report: &mut Report) -> Result<()> {
    let target = options.cluster(nodes, "all").await?;
    let running = format!("{}?fieldSelector=status.phase%3DRunning", objects::pods(&target));
    let expected = arrivals::expect(&target, &running, "ADDED", PODS).await?;
    let begin = now();
    schedule::create_pods(&target, PODS).await?;
    let arrived = expected.await?.context("the pods do not run")?;
    let took = arrived.last.duration_since(begin).as_secs_f64();
    report.row("10,000 pods created until all run", (PODS as f64 / took, "/s"), Aim::None, "");
    if let Some(pid) = target.pid {
        let what = "  memory with them and their history";
        report.row(what, (usage::resident(pid), "MiB"), Aim::None, "");
    }
    let mut connection = Connection::open(&target, Http::One).await?;
    let gone = "/api/v1/namespaces";
    let expected = arrivals::expect(&target, gone, "DELETED", 1).await?;
    let begin = now();
    let path = format!("/api/v1/namespaces/{}", target.namespace);
    objects::send(&target, &mut connection, ("DELETE", &path), &Value::Null).await?;
    let arrived = expected.await?.context("the namespace does not go")?;
    let took = millis(arrived.last.duration_since(begin));
    report.row("  deleted with their namespace", took, Aim::None, "");
    Ok(())
}

/// A control plane with objects, and nobody who asks.
pub async fn idle(options: &Options, report: &mut Report) -> Result<()> {
    for (nodes, pods) in [(0, 0), (1, OBJECTS)] {
        let target = options.cluster(nodes, "all").await?;
        if pods > 0 {
            schedule::create_pods(&target, pods).await?;
        }
        tokio::time::sleep(SETTLE).await;
        let pid = target.pid.context("the server must be a process of this machine")?;
        let before = usage::processor_time(pid);
        tokio::time::sleep(SPAN).await;
        let used = usage::processor_time(pid).saturating_sub(before);
        let percent = used.as_secs_f64() / SPAN.as_secs_f64() * 100.0;
        let what = format!("idle with {pods} pods: memory");
        report.row(&what, (usage::resident(pid), "MiB"), Aim::AtMost(40.0), "");
        report.row("  processor", (percent, "%"), Aim::AtMost(1.0), "");
    }
    Ok(())
}
