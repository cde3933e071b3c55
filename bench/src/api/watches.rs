//! Many watchers of one collection: how late events come, and whether all of them do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use memchr::memmem;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::client::{Connection, Http};
use super::report::{Aim, Report, millis};
use super::target::Target;
use super::{Options, items, usage};
use crate::statistics::{Samples, now};

const STREAMS: usize = 100;
/// What has not come by then is lost.
const PATIENCE: Duration = Duration::from_secs(20);
const WRITERS: usize = 16;

/// Watchers and the writes that they see.
#[derive(Clone, Copy)]
struct Scene {
    http: Http,
    watchers: usize,
    writes: usize,
    /// Between two writes.
    pause: Duration,
}

/// What arrived.
struct Outcome {
    latency: Samples,
    last: Samples,
    delivered: usize,
    /// From the first write to the last event.
    elapsed: Duration,
    processor: Option<Duration>,
}

pub async fn latency(target: &Arc<Target>, options: &Options, report: &mut Report) -> Result<()> {
    let every = |millis| Duration::from_millis(millis);
    let (one, two) = (Http::One, Http::Two);
    let mut scenes = vec![
        (Scene { http: one, watchers: 1, writes: 100, pause: every(20) }, Some(0.7), None),
        (Scene { http: one, watchers: 100, writes: 100, pause: every(20) }, None, None),
        (Scene { http: one, watchers: 1_000, writes: 30, pause: every(100) }, None, Some(10.0)),
        (Scene { http: two, watchers: 1_000, writes: 30, pause: every(100) }, None, Some(10.0)),
    ];
    if options.full {
        let scene = Scene { http: two, watchers: 10_000, writes: 10, pause: every(500) };
        scenes.push((scene, None, Some(100.0)));
    }
    for (scene, median, last) in scenes {
        let what = format!("watch, {} watchers, {:?}", scene.watchers, scene.http);
        let mut outcome = match run(target, scene).await {
            Ok(outcome) => outcome,
            Err(error) => {
                report.missing(&what, &format!("{error:#}"));
                continue;
            }
        };
        let aim = median.map_or(Aim::None, Aim::AtMost);
        let worst = millis(outcome.latency.percentile(0.99));
        let remark = format!("p99 {:.2} ms", worst.0);
        report.row(&what, millis(outcome.latency.percentile(0.5)), aim, &remark);
        let aim = last.map_or(Aim::None, Aim::AtMost);
        let remark = processor(&outcome);
        report.row("  the last of them", millis(outcome.last.percentile(0.5)), aim, &remark);
        delivered(&outcome, scene, report);
    }
    Ok(())
}

/// More than the watchers can follow at once.
pub async fn burst(target: &Arc<Target>, report: &mut Report) -> Result<()> {
    let steady =
        Scene { http: Http::One, watchers: 1_000, writes: 400, pause: Duration::from_millis(5) };
    let burst = Scene { watchers: 500, writes: 300, pause: Duration::from_millis(1), ..steady };
    for (what, scene) in [("200 writes/s to 1,000 watchers", steady), ("300 at once to 500", burst)]
    {
        let outcome = match run(target, scene).await {
            Ok(outcome) => outcome,
            Err(error) => {
                report.missing(what, &format!("{error:#}"));
                continue;
            }
        };
        let rate = outcome.delivered as f64 / outcome.elapsed.as_secs_f64();
        report.row(what, (rate, "events/s"), Aim::AtLeast(180_000.0), &processor(&outcome));
        delivered(&outcome, scene, report);
    }
    Ok(())
}

fn delivered(outcome: &Outcome, scene: Scene, report: &mut Report) {
    let share = outcome.delivered as f64 / (scene.watchers * scene.writes) as f64 * 100.0;
    report.row("  delivered", (share, "%"), Aim::AtLeast(100.0), "");
}

fn processor(outcome: &Outcome) -> String {
    match outcome.processor {
        Some(used) if outcome.delivered > 0 => {
            let micros = used.as_secs_f64() * 1e6 / outcome.delivered as f64;
            format!("processor {micros:.1} us an event, writes included")
        }
        _ => String::new(),
    }
}

/// When each write was first sent and last seen, in nanoseconds.
struct Times {
    begin: Instant,
    last: Vec<AtomicU64>,
}

async fn run(target: &Arc<Target>, scene: Scene) -> Result<Outcome> {
    let revision = revision(target).await?;
    let watching = format!("{}?watch=true&resourceVersion={revision}", items::collection(target));
    let mut streams = Vec::with_capacity(scene.watchers);
    let mut shared: Option<Connection> = None;
    for number in 0..scene.watchers {
        let mut connection = match (&shared, scene.http) {
            (Some(open), Http::Two) if number % STREAMS != 0 => open.share()?,
            _ => Connection::open(target, scene.http).await?,
        };
        let request = target.request("GET", &watching, String::new());
        let body = connection.begin(request).await?.into_body();
        if scene.http == Http::Two && number % STREAMS == 0 {
            shared = Some(connection.share()?);
        }
        streams.push((connection, body));
    }
    let last = (0..scene.writes).map(|_| AtomicU64::new(0)).collect();
    let times = Arc::new(Times { begin: now(), last });
    let before = target.pid.map(usage::processor_time);
    let mut watchers = JoinSet::new();
    for (connection, body) in streams {
        let times = times.clone();
        watchers.spawn(async move {
            let samples = follow(body, scene.writes, &times).await;
            drop(connection);
            samples
        });
    }
    let sent = write(target, scene, &times).await?;
    let mut latency = Samples::default();
    while let Some(samples) = watchers.join_next().await {
        latency.extend(samples?);
    }
    let used = target
        .pid
        .zip(before)
        .map(|(pid, before)| usage::processor_time(pid).saturating_sub(before));
    let arrivals: Vec<u64> = times.last.iter().map(|at| at.load(Ordering::Relaxed)).collect();
    let mut last = Samples::default();
    for (arrival, sent) in arrivals.iter().zip(&sent) {
        last.push(Duration::from_nanos(arrival.saturating_sub(*sent)));
    }
    let end = arrivals.iter().max().copied().unwrap_or_default();
    let elapsed = Duration::from_nanos(end.saturating_sub(sent.first().copied().unwrap_or(0)));
    let delivered = latency.len();
    Ok(Outcome { latency, last, delivered, elapsed, processor: used })
}

async fn revision(target: &Target) -> Result<String> {
    let path = format!("{}?limit=1", items::collection(target));
    let mut connection = Connection::open(target, Http::One).await?;
    let answer = connection.send(target.request("GET", &path, String::new())).await?;
    let list: Value = serde_json::from_slice(&answer.body)?;
    let revision = list["metadata"]["resourceVersion"].as_str();
    Ok(revision.context("the list has no resourceVersion")?.to_owned())
}

/// Reads events until all have come or none come any more.
async fn follow(mut body: Incoming, writes: usize, times: &Times) -> Samples {
    let mut samples = Samples::default();
    let mut rest: Vec<u8> = Vec::new();
    while samples.len() < writes {
        let Ok(Some(Ok(frame))) = tokio::time::timeout(PATIENCE, body.frame()).await else { break };
        let Ok(data) = frame.into_data() else { continue };
        let arrived = nanos_since(times.begin);
        rest.extend_from_slice(&data);
        let mut from = 0;
        while let Some(length) = memchr::memchr(b'\n', &rest[from..]) {
            let line = &rest[from..from + length];
            from += length + 1;
            let (Some(sent), Some(number)) =
                (number(line, "\"sent\":\""), number(line, "\"number\":\""))
            else {
                continue;
            };
            samples.push(Duration::from_nanos(arrived.saturating_sub(sent)));
            if let Some(last) = times.last.get(number as usize) {
                last.fetch_max(arrived, Ordering::Relaxed);
            }
        }
        rest.drain(..from);
    }
    samples
}

/// The digits that follow a text.
fn number(line: &[u8], before: &str) -> Option<u64> {
    let start = memmem::find(line, before.as_bytes())? + before.len();
    let digits = line[start..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

fn nanos_since(begin: Instant) -> u64 {
    u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Changes one object after the other, in time; answers when each was sent.
async fn write(target: &Arc<Target>, scene: Scene, times: &Times) -> Result<Vec<u64>> {
    let mut connections = Vec::new();
    for _ in 0..WRITERS {
        connections.push(Connection::open(target, Http::One).await?);
    }
    let mut sent = Vec::with_capacity(scene.writes);
    let mut writing = JoinSet::new();
    let mut due = tokio::time::interval(scene.pause);
    for number in 0..scene.writes {
        due.tick().await;
        let mut connection = match connections.pop() {
            Some(connection) => connection,
            None => writing.join_next().await.context("a writer must be at work")???,
        };
        let at = nanos_since(times.begin);
        sent.push(at);
        let data = json!({"data": {"sent": at.to_string(), "number": number.to_string()}});
        let path = items::path(target, items::ITEM, number);
        let types = ("application/merge-patch+json", "application/json");
        let request = target.request_as("PATCH", &path, types, data.to_string());
        writing.spawn(async move {
            let answer = connection.send(request).await?;
            anyhow::ensure!(answer.status == 200, "a write was answered with {}", answer.status);
            Ok(connection)
        });
        while let Some(done) = writing.try_join_next() {
            connections.push(done??);
        }
    }
    while let Some(done) = writing.join_next().await {
        done??;
    }
    Ok(sent)
}
