//! From the start of the program to its first answers, and what it uses when nobody asks.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use store::{Environment, System};

use super::client::{Connection, Http};
use super::report::{Aim, Report, millis};
use super::target::Target;
use super::{Options, items, usage};
use crate::statistics::{Samples, now};

const REPETITIONS: usize = 5;
/// After the start, before a server counts as idle.
const SETTLE: Duration = Duration::from_secs(2);

/// Empty directories: until it is ready, and until a namespace is created.
pub async fn start(options: &Options, report: &mut Report) -> Result<()> {
    let (mut ready, mut first) = (Samples::default(), Samples::default());
    for _ in 0..REPETITIONS {
        let directory = options.directory.join(format!(".bench-{:016x}", System.random()));
        let start = now();
        let target = Target::start(options, directory)?;
        answers_ready(&target).await?;
        ready.push(start.elapsed());
        items::namespaces(&target).await?;
        first.push(start.elapsed());
    }
    report.row("start, empty, until /readyz", millis(ready.percentile(0.5)), Aim::AtMost(50.0), "");
    report.row("start, until a namespace is made", millis(first.percentile(0.5)), Aim::None, "");
    Ok(())
}

async fn answers_ready(target: &Target) -> Result<()> {
    let request = target.request("GET", "/readyz", String::new());
    let answer = Connection::open(target, Http::One).await?.send(request).await?;
    ensure!(answer.status == 200, "/readyz answered with {}", answer.status);
    Ok(())
}

pub async fn idle(target: &Target, seconds: u64, report: &mut Report) -> Result<()> {
    let pid = target.pid.context("an idle server must be a process of this machine")?;
    tokio::time::sleep(SETTLE).await;
    let before = usage::processor_time(pid);
    let span = Duration::from_secs(seconds);
    tokio::time::sleep(span).await;
    let used = usage::processor_time(pid).saturating_sub(before);
    let percent = used.as_secs_f64() / span.as_secs_f64() * 100.0;
    report.row("idle, memory", (usage::resident(pid), "MiB"), Aim::AtMost(32.0), "");
    report.row("idle, processor", (percent, "%"), Aim::AtMost(0.3), "");
    Ok(())
}

/// The server is killed with all the objects in it, and started again.
pub async fn restart(target: &Target, options: &Options, report: &mut Report) -> Result<()> {
    let Some(started) = &target.started else { return Ok(()) };
    let copy = options.directory.join(format!(".bench-{:016x}", System.random()));
    started.copy_to(&copy)?;
    let start = now();
    let restarted = Target::start(options, copy)?;
    answers_ready(&restarted).await?;
    let what = "start after a crash, with the objects";
    report.row(what, millis(start.elapsed()), Aim::AtMost(350.0), "aim for 100,000 objects");
    if let Some(pid) = restarted.pid {
        report.row("  memory", (usage::resident(pid), "MiB"), Aim::AtMost(60.0), "");
    }
    Ok(())
}
