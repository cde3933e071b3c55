//! Loads that go on: watches of many nodes, leases of many nodes, and a burst among writes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::json;
use tokio::task::JoinSet;

use super::{Options, anchors, arrivals, objects, schedule};
use crate::api::client::{Connection, Http};
use crate::api::load::{self, Load};
use crate::api::report::{Aim, Report, millis};
use crate::api::target::Target;
use crate::api::usage;
use crate::statistics::{Samples, now};

const WATCHERS: usize = 1_000;
const UPDATES: usize = 400;
const UPDATES_EACH_SECOND: f64 = 200.0;
const LEASES: usize = 5_000;
/// Every ten seconds, each of them.
const RENEWALS_EACH_SECOND: f64 = 500.0;
const RENEWED_FOR: Duration = Duration::from_secs(6);
const CONNECTIONS: usize = 32;
/// Before and after the burst, and the burst.
const CALM: Duration = Duration::from_secs(8);
const BURST: Duration = Duration::from_secs(2);
/// How long a stretch is whose worst latency counts.
const WINDOW: Duration = Duration::from_millis(250);

/// What a patch is, and what is to be answered.
const MERGE: (&str, &str) = ("application/merge-patch+json", "application/json");

/// A request by its number.
type Make = dyn Fn(usize) -> Request<Full<Bytes>> + Send + Sync;

/// Each of many watchers sees the pods of one node, as the agents of nodes do.
pub async fn filtered(options: &Options, report: &mut Report) -> Result<()> {
    let target = options.cluster(WATCHERS as u32, "all").await?;
    let running = format!("{}?fieldSelector=status.phase%3DRunning", objects::pods(&target));
    let expected = arrivals::expect(&target, &running, "ADDED", WATCHERS).await?;
    let owner = target.clone();
    let make = move |number: usize| {
        let mut pod = objects::pod(&format!("pod-{number}"));
        pod["spec"]["nodeName"] = json!(format!("fake-{number}"));
        owner.request("POST", &objects::pods(&owner), pod.to_string())
    };
    let load = Load { http: Http::One, connections: 16, streams: 1, count: WATCHERS };
    load::run(&target, load, Arc::new(make)).await?;
    expected.await?.context("the pods do not run")?;
    let mut watchers = Vec::new();
    for number in 0..WATCHERS {
        let path =
            format!("{}?fieldSelector=spec.nodeName%3Dfake-{number}", objects::pods(&target));
        watchers.push(arrivals::expect(&target, &path, "MODIFIED", 1).await?);
    }
    let used = target.pid.map(usage::processor_time);
    let owner = target.clone();
    let make = move |number: usize| {
        let path = format!("{}/pod-{number}", objects::pods(&owner));
        let patch = json!({"metadata": {"labels": {"changed": "yes"}}}).to_string();
        owner.request_as("PATCH", &path, MERGE, patch)
    };
    let mut sent = paced(&target, UPDATES_EACH_SECOND, UPDATES, Arc::new(make)).await?;
    sent.sort_by_key(|(due, _)| *due);
    let mut latency = Samples::default();
    for (watcher, (due, _)) in watchers.into_iter().zip(sent) {
        let arrived = watcher.await?.context("an update was not seen")?;
        latency.push(arrived.last.saturating_duration_since(due));
    }
    let worst = format!("p99 {:.2} ms", millis(latency.percentile(0.99)).0);
    let what = format!("{WATCHERS} watchers of a node each, 200 updates/s, p50");
    report.row(&what, millis(latency.percentile(0.5)), Aim::None, &worst);
    schedule::processor(&target, used, UPDATES, report);
    Ok(())
}

/// The nodes of a large cluster say that they live, while somebody watches something else.
pub async fn leases(options: &Options, report: &mut Report) -> Result<()> {
    let target = options.cluster(0, "all").await?;
    let lease = |number: usize, renewed: usize| {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": format!("lease-{number}")},
            "spec": {"holderIdentity": format!("node-{number}"), "leaseTransitions": renewed}})
        .to_string()
    };
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", target.namespace);
    let (owner, to) = (target.clone(), path.clone());
    let make = move |number: usize| owner.request("POST", &to, lease(number, 0));
    let load = Load { http: Http::One, connections: 16, streams: 1, count: LEASES };
    load::run(&target, load, Arc::new(make)).await?;
    let count = (RENEWALS_EACH_SECOND * RENEWED_FOR.as_secs_f64()) as usize;
    let (owner, to) = (target.clone(), path);
    let make = move |number: usize| {
        let path = format!("{to}/lease-{}", number % LEASES);
        owner.request_as("PATCH", &path, MERGE, lease(number % LEASES, 1 + number))
    };
    let used = target.pid.map(usage::processor_time);
    let renewing = paced(&target, RENEWALS_EACH_SECOND, count, Arc::new(make));
    let (renewed, seen) = tokio::join!(renewing, watch_one(&target));
    let mut latency = Samples::default();
    renewed?.into_iter().for_each(|(_, took)| latency.push(took));
    let worst = millis(latency.percentile(0.99));
    let median = format!("p50 {:.2} ms", millis(latency.percentile(0.5)).0);
    report.row("5,000 leases, 500 renewals/s, p99", worst, Aim::None, &median);
    schedule::processor(&target, used, count, report);
    let worst = millis(seen?.percentile(0.99));
    let anchor = anchors::time(worst.0, Some(anchors::WATCH_WORST));
    report.row("  one watcher of others meanwhile, p99", worst, Aim::AtMost(2.0), &anchor);
    Ok(())
}

/// How late one watcher knows of a change.
async fn watch_one(target: &Arc<Target>) -> Result<Samples> {
    let mut connection = Connection::open(target, Http::One).await?;
    let all = format!("/api/v1/namespaces/{}/configmaps", target.namespace);
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}});
    objects::send(target, &mut connection, ("POST", &all), &object).await?;
    let (path, mut latency) = (format!("{all}/one"), Samples::default());
    for number in 0..100 {
        let expected = arrivals::expect(target, &all, "MODIFIED", 1).await?;
        let patch = json!({"data": {"number": number.to_string()}});
        let begin = now();
        objects::send(target, &mut connection, ("PATCH", &path), &patch).await?;
        let arrived = expected.await?.context("a change was not seen")?;
        latency.push(arrived.last.saturating_duration_since(begin));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(latency)
}

/// A burst of three times what was asked for: how long until the server answers as before.
pub async fn churn(options: &Options, report: &mut Report) -> Result<()> {
    let target = options.cluster(0, "all").await?;
    let path = format!("/api/v1/namespaces/{}/configmaps", target.namespace);
    let make = |prefix: &'static str| -> Arc<Make> {
        let (owner, path) = (target.clone(), path.clone());
        Arc::new(move |number| {
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("{prefix}-{number}")}, "data": {"a": "b"}});
            owner.request("POST", &path, object.to_string())
        })
    };
    let load = Load { http: Http::One, connections: CONNECTIONS, streams: 1, count: 4_000 };
    let measured = load::run(&target, load, make("first")).await?;
    let rate = 4_000.0 / measured.elapsed.as_secs_f64() * 0.6;
    let times = |rate: f64, span: Duration| (rate * span.as_secs_f64()) as usize;
    let before = paced(&target, rate, times(rate, CALM), make("before")).await?;
    paced(&target, rate * 3.0, times(rate * 3.0, BURST), make("burst")).await?;
    let begin = now();
    let after = paced(&target, rate, times(rate, CALM), make("after")).await?;
    let usual = windows(&before).into_iter().map(|(_, worst)| worst).max().unwrap_or_default();
    let slow = windows(&after).into_iter().filter(|(_, worst)| *worst > usual).map(|(at, _)| at);
    let recovered =
        slow.max().map_or(Duration::ZERO, |at| at.saturating_duration_since(begin) + WINDOW);
    let what = format!("a burst among {rate:.0} writes/s: as before after");
    let remark = format!("worst before {:.1} ms", millis(usual).0);
    report.row(&what, millis(recovered), Aim::None, &remark);
    Ok(())
}

/// The worst latency of each stretch.
fn windows(sent: &[(Instant, Duration)]) -> Vec<(Instant, Duration)> {
    let mut all: Vec<(Instant, Duration)> = Vec::new();
    let mut sorted = sent.to_vec();
    sorted.sort();
    for (at, took) in sorted {
        match all.last_mut() {
            Some((begin, worst)) if at.duration_since(*begin) < WINDOW => *worst = took.max(*worst),
            _ => all.push((at, took)),
        }
    }
    all
}

/// Sends at a rate, whatever becomes of what was sent before; a request is late from when it was
/// due, not from when a connection was free.
async fn paced(
    target: &Arc<Target>,
    rate: f64,
    count: usize,
    make: Arc<Make>,
) -> Result<Vec<(Instant, Duration)>> {
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(Connection::open(target, Http::One).await?);
    }
    let begin = now();
    let mut tasks = JoinSet::new();
    for (first, mut connection) in connections.into_iter().enumerate() {
        let make = make.clone();
        tasks.spawn(async move {
            let mut sent = Vec::new();
            for number in (first..count).step_by(CONNECTIONS) {
                let due = begin + Duration::from_secs_f64(number as f64 / rate);
                tokio::time::sleep_until(due.into()).await;
                let answer = connection.send(make(number)).await?;
                anyhow::ensure!(answer.status < 300, "a request was answered {}", answer.status);
                sent.push((due, now().saturating_duration_since(due)));
            }
            Ok::<_, anyhow::Error>(sent)
        });
    }
    let mut all = Vec::new();
    while let Some(sent) = tasks.join_next().await {
        all.extend(sent??);
    }
    Ok(all)
}
