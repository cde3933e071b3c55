//! Waiting for an object to become ready, and printing a result again whenever it changes.

use std::fmt::Display;
use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, anyhow};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::Context;
use super::evidence::{Evidence, Reader};
use super::exit::{self, Failure};
use super::verdict::{Observation, Seen, Verdict, decide};
use crate::config::duration;
use crate::output;

/// Interval between observations.
const POLL: Duration = Duration::from_millis(250);
/// Interval between reads of something that is printed again when it changes.
const WATCH_POLL: Duration = Duration::from_secs(1);

/// An object that is waited for.
pub struct Waited<'a> {
    /// Name for messages: `trainjob/a`.
    pub what: &'a str,
    pub timeout: Duration,
    /// Command that shows more after a failure or a timeout.
    pub hint: String,
    /// Reads what explains a failure.
    pub reader: Reader<'a>,
}

impl Waited<'_> {
    /// Waits until an object is ready. Each new reason for waiting is printed once on stderr.
    pub async fn until_ready<F>(&self, observe: impl Fn() -> F) -> Result<()>
    where
        F: Future<Output = Result<Observation>>,
    {
        let deadline = Instant::now() + self.timeout;
        let (mut said, mut seen) = (String::new(), Seen::default());
        loop {
            let observation = observe().await?;
            let why = match decide(&observation, &mut seen, Instant::now()) {
                Verdict::Done => return Ok(()),
                Verdict::Failed(cause) => {
                    let evidence = self.reader.collect(&observation, cause.container).await;
                    return Err(self.failed(&cause.why, &evidence));
                }
                Verdict::Waiting(why) => why,
            };
            if why != said {
                output::remark(format!("Waiting for {}: {why}", self.what));
                said.clone_from(&why);
            }
            if Instant::now() > deadline {
                let evidence = self.reader.collect(&observation, None).await;
                return Err(self.timed_out(&why, &evidence));
            }
            sleep(POLL).await;
        }
    }

    /// The error for an object that cannot become ready.
    pub fn failed(&self, why: &str, evidence: &Evidence) -> anyhow::Error {
        let what = format!("{} failed: {why}", self.what);
        let failure = Failure::new(exit::WORKLOAD_FAILED, what).hint(self.hint.clone());
        anyhow!(Failure { shown: evidence.text(), ..failure })
    }

    /// The error for an object that is not ready in time.
    pub fn timed_out(&self, why: &str, evidence: &Evidence) -> anyhow::Error {
        let what = format!("{} {}", self.what, timed_out(self.timeout, why, evidence));
        let failure = Failure::new(exit::TIMED_OUT, what).hint(self.hint.clone());
        anyhow!(Failure { shown: evidence.text(), ..failure })
    }
}

/// `timed out after 5m: no database`: the newest line of output or event, otherwise the reason.
pub fn timed_out(limit: Duration, why: &str, evidence: &Evidence) -> String {
    let limit = duration::short(limit);
    format!("timed out after {limit}: {}", evidence.last().unwrap_or(why))
}

/// Prints something again whenever it changes, until Ctrl-C.
pub async fn watch<T, F>(context: &Context, look: impl Fn() -> F) -> Result<ExitCode>
where
    T: Display + Serialize,
    F: Future<Output = Result<T>>,
{
    let mut said = String::new();
    let mut enough = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        let now = look().await?;
        let text = serde_json::to_string(&now)?;
        if text != said {
            context.output.print(&now)?;
            said = text;
        }
        tokio::select! {
            () = sleep(WATCH_POLL) => {}
            _ = &mut enough => return Ok(ExitCode::from(exit::INTERRUPTED)),
        }
    }
}

/// Parses the value of an option.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    duration::parse(text).ok_or_else(|| format!("expected {}", duration::EXPECTED))
}
