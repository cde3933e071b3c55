//! Many requests at once, timed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use tokio::task::JoinSet;

use super::client::{Connection, Http};
use super::report::{Aim, Report, micros};
use super::target::Target;
use super::usage;
use crate::statistics::{Samples, now};

/// How many requests, over what.
#[derive(Clone, Copy)]
pub struct Load {
    pub http: Http,
    pub connections: usize,
    /// Requests at once on each connection.
    pub streams: usize,
    pub count: usize,
}

/// What the requests took.
pub struct Measured {
    pub samples: Samples,
    pub elapsed: Duration,
    /// For each request.
    pub server: Option<Duration>,
    pub driver: Duration,
}

/// Aims of a kind of request.
pub struct Aims {
    pub rate: Aim,
    pub median: Aim,
    pub worst: Aim,
    pub processor: Aim,
}

impl Aims {
    pub const NONE: Aims =
        Aims { rate: Aim::None, median: Aim::None, worst: Aim::None, processor: Aim::None };
}

/// A request by its number.
pub type Make = dyn Fn(usize) -> Request<Full<Bytes>> + Send + Sync;

/// Sends every request once; one that is refused ends it.
pub async fn run(target: &Arc<Target>, load: Load, make: Arc<Make>) -> Result<Measured> {
    let mut senders = Vec::new();
    for _ in 0..load.connections {
        let mut connection = Connection::open(target, load.http).await?;
        connection.send(target.request("GET", "/version", String::new())).await?;
        for _ in 1..load.streams {
            senders.push(connection.share()?);
        }
        senders.push(connection);
    }
    let next = Arc::new(AtomicUsize::new(0));
    let (server, driver) = (usage_of(target), usage::processor_time(std::process::id()));
    let start = now();
    let mut tasks = JoinSet::new();
    for sender in senders {
        tasks.spawn(work(sender, next.clone(), load.count, make.clone()));
    }
    let mut samples = Samples::default();
    while let Some(done) = tasks.join_next().await {
        samples.extend(done??);
    }
    let elapsed = start.elapsed();
    let each = |total: Duration| total / u32::try_from(load.count).unwrap_or(1).max(1);
    let server = match (server, usage_of(target)) {
        (Some(before), Some(after)) => Some(each(after.saturating_sub(before))),
        _ => None,
    };
    let driver = each(usage::processor_time(std::process::id()).saturating_sub(driver));
    Ok(Measured { samples, elapsed, server, driver })
}

fn usage_of(target: &Target) -> Option<Duration> {
    target.pid.map(usage::processor_time)
}

async fn work(
    mut sender: Connection,
    next: Arc<AtomicUsize>,
    count: usize,
    make: Arc<Make>,
) -> Result<Samples> {
    let mut samples = Samples::default();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= count {
            return Ok(samples);
        }
        let request = make(number);
        let start = now();
        let answer = sender.send(request).await?;
        samples.push(start.elapsed());
        let text = || String::from_utf8_lossy(&answer.body[..answer.body.len().min(300)]);
        ensure!(answer.status < 300, "{} {}", answer.status, text());
    }
}

/// Sends every request and prints what they took.
pub async fn measure(
    target: &Arc<Target>,
    (what, load): (&str, Load),
    (make, aims): (Arc<Make>, Aims),
    report: &mut Report,
) -> Result<()> {
    let ways = match load.http {
        Http::One => format!("{what}, c={}", load.connections),
        Http::Two => format!("{what}, h2 {}x{}", load.connections, load.streams),
    };
    let mut measured = match run(target, load, make).await {
        Ok(measured) => measured,
        Err(error) => {
            report.missing(&ways, &format!("{error:#}"));
            return Ok(());
        }
    };
    let rate = load.count as f64 / measured.elapsed.as_secs_f64();
    report.row(&ways, (rate, "/s"), aims.rate, "");
    let (median, worst) = (measured.samples.percentile(0.5), measured.samples.percentile(0.99));
    report.row("  p50", micros(median), aims.median, "");
    report.row("  p99", micros(worst), aims.worst, "");
    if let Some(server) = measured.server {
        let driver = format!("driver {:.0} us", measured.driver.as_secs_f64() * 1e6);
        report.row("  processor of the server, each", micros(server), aims.processor, &driver);
    }
    Ok(())
}
