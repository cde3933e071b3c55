//! Follows the output of one job until it has ended.

use std::pin::pin;
use std::time::Duration;

use futures::{AsyncBufRead, AsyncBufReadExt};
use k8s_openapi::jiff::Timestamp;
use reconcile::plan::{Notice, Severity};
use reconcile::requests::Requests;
use reconcile::{Context, Error, Name, Object, conditions};
use tokio::time::Instant;

use super::lines::Lines;
use super::log::{ContainerRun, Start, find_run, open};
use super::pattern::{Formats, totals_from_arguments};
use super::publish::{Earlier, MANAGER, Publisher};
use super::tracker::Tracker;
use crate::kinds::{JOB_SET, TRAIN_JOB};
use crate::train_job::TrainJob;

/// Interval between looks at a job that is waited for.
const LOOK: Duration = Duration::from_secs(1);
/// Longest interval, for a job whose output cannot be read.
const LOOK_MAX: Duration = Duration::from_secs(30);
/// Time that output may still arrive after the job has ended.
const DRAIN_MAX: Duration = Duration::from_secs(5);
/// Intervals between two writes of a status: a hundredth of the time that the job is followed, so
/// that a long job fills no history.
const WRITE_MIN: Duration = Duration::from_secs(2);
const WRITE_MAX: Duration = Duration::from_secs(30);
const WRITES_PER_RUN: u32 = 100;
/// Bytes of one job's output that are read in a second. The rest waits.
const BYTES_PER_SECOND_MAX: usize = 1 << 20;
/// Seconds at that limit before the reader skips to the last lines.
const BUSY_SECONDS_MAX: u32 = 5;
const LAST_LINES: u32 = 100;

/// Reason why a job is not followed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has ended, is held or deleted, or could not be read.
    Ended,
    /// It reports by itself, its pattern is wrong, or its log is forbidden.
    NotNeeded,
}

/// Follows a job until it has ended, is held or deleted, or reports everything itself.
pub async fn follow(context: Context, name: Name) -> Outcome {
    let requests = context.requests(MANAGER, Default::default());
    let job = match requests.get(TRAIN_JOB, &name).await {
        Ok(Some(job)) => job,
        Ok(None) => return Outcome::Ended,
        Err(error) => {
            warn(&name, &error);
            return Outcome::Ended;
        }
    };
    let formats = match Formats::from_annotation(&job) {
        Ok(formats) => formats,
        Err(message) => {
            let notice =
                Notice { severity: Severity::Warning, reason: "InvalidProgressPattern", message };
            let now = context.environment.now();
            context.recorder.record(&requests, (TRAIN_JOB, &job), &notice, now).await;
            return Outcome::NotNeeded;
        }
    };
    let (publisher, earlier) = Publisher::new(requests.clone(), &job);
    if publisher.is_superseded() {
        return Outcome::NotNeeded;
    }
    let mut follower = Follower {
        requests,
        job,
        formats,
        publisher,
        tracker: Tracker::default(),
        read_until: None,
        skip_until: None,
        began: Instant::now(),
        next_write: Instant::now(),
        context,
    };
    follower.run(earlier).await
}

struct Follower {
    context: Context,
    requests: Requests,
    job: Object,
    formats: Formats,
    publisher: Publisher,
    tracker: Tracker,
    /// Time of the last line that was read.
    read_until: Option<Timestamp>,
    /// The same when the stream was opened, which begins with lines that were read before.
    skip_until: Option<Timestamp>,
    began: Instant,
    next_write: Instant,
}

/// State of the job, as far as following it is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    Complete,
    Failed,
    /// Held, deleted, or another job of the same name.
    Gone,
}

/// Reason why the reader of a log stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopped {
    /// The stream ended or broke off.
    Ended,
    /// More is printed than is read.
    Behind,
    /// The job has ended a while ago, and its log has not.
    Late,
    /// The job is held or deleted, or reports by itself.
    NotWanted,
}

impl Follower {
    async fn run(&mut self, mut earlier: Option<Earlier>) -> Outcome {
        let mut last: Option<ContainerRun> = None;
        let mut wait = LOOK;
        loop {
            let phase = self.phase();
            if phase == Phase::Gone {
                return Outcome::Ended;
            }
            match self.read_newest(&mut last, &mut earlier).await {
                Ok(()) => wait = LOOK,
                Err(error) if error.code() == Some(403) => {
                    warn(&self.job.name, &error);
                    return Outcome::NotNeeded;
                }
                Err(error) => {
                    tracing::debug!(job = %self.job.name, error = %error.chain(), "log not read");
                    wait = (wait * 2).min(LOOK_MAX);
                }
            }
            if self.publisher.is_superseded() {
                return Outcome::NotNeeded;
            }
            // The job had ended before its log was read, so that nothing is left.
            if matches!(phase, Phase::Complete | Phase::Failed) {
                self.end(phase).await;
                return Outcome::Ended;
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Reads the newest run to its end, unless that was done before.
    async fn read_newest(
        &mut self,
        last: &mut Option<ContainerRun>,
        earlier: &mut Option<Earlier>,
    ) -> Result<(), Error> {
        let Some(run) = self.find().await? else { return Ok(()) };
        match last.as_ref().filter(|last| last.is_same(&run)) {
            Some(last) if last.has_ended => return Ok(()),
            Some(_) => {}
            None => self.begin(&run, earlier.take()),
        }
        // Until it was read, the run is known but not done with.
        *last = Some(ContainerRun { has_ended: false, ..run.clone() });
        self.read(&run).await?;
        *last = Some(run);
        Ok(())
    }

    fn phase(&self) -> Phase {
        let Some(job) = self.context.cache(TRAIN_JOB).get(&self.job.name) else {
            return Phase::Gone;
        };
        let is = |kind: &str| conditions::is_true(&job.value["status"], kind);
        match () {
            () if job.uid != self.job.uid || job.is_terminating() => Phase::Gone,
            () if is("Complete") => Phase::Complete,
            () if TrainJob::of(&job).is_finished() => Phase::Failed,
            () if TrainJob::of(&job).is_suspended() => Phase::Gone,
            () => Phase::Running,
        }
    }

    async fn find(&self) -> Result<Option<ContainerRun>, Error> {
        match self.context.cache(JOB_SET).get(&self.job.name) {
            Some(set) => find_run(&self.requests, &self.job.name, &set).await,
            None => Ok(None),
        }
    }

    /// Begins with a run: where an earlier process was, if it is the run that it followed.
    fn begin(&mut self, run: &ContainerRun, earlier: Option<Earlier>) {
        let totals = totals_from_arguments(&TrainJob::of(&self.job));
        let is_of_run = |earlier: &Earlier| run.started_at.is_none_or(|at| earlier.at >= at);
        let (tracker, read_until) = match earlier.filter(is_of_run) {
            Some(Earlier { report, at }) => (Tracker::continue_from(&report, at), Some(at)),
            None => (Tracker::default(), None),
        };
        self.tracker = tracker.with_totals(&totals);
        self.read_until = read_until;
    }

    /// Reads the log of a run to its end.
    async fn read(&mut self, run: &ContainerRun) -> Result<(), Error> {
        let mut start = self.read_until.map_or(Start::Beginning, Start::At);
        loop {
            self.skip_until = self.read_until;
            let stream = open(&self.requests, &self.job.name.namespace, run, start).await?;
            let stopped = self.read_stream(pin!(stream)).await;
            self.write_news().await;
            match stopped {
                Stopped::Behind => start = Start::Last(LAST_LINES),
                // The last values count, however much is left unread.
                Stopped::Late if !matches!(start, Start::Last(_)) => {
                    start = Start::Last(LAST_LINES);
                }
                Stopped::Ended | Stopped::Late | Stopped::NotWanted => return Ok(()),
            }
        }
    }

    async fn read_stream(&mut self, mut stream: impl AsyncBufRead + Unpin) -> Stopped {
        let mut lines = Lines::default();
        let mut pace = Pace::new();
        let mut over_since: Option<Instant> = None;
        loop {
            let read = tokio::time::timeout(LOOK, stream.fill_buf()).await;
            let count = match read {
                Ok(Ok(bytes)) => {
                    let bytes = &bytes[..bytes.len().min(BYTES_PER_SECOND_MAX)];
                    lines.push(bytes, |at, line| self.take(at, line));
                    bytes.len()
                }
                Ok(Err(_)) => 0,
                // Nothing was printed for a while.
                Err(_) => usize::MAX,
            };
            match count {
                0 => {
                    lines.finish(|at, line| self.take(at, line));
                    return Stopped::Ended;
                }
                usize::MAX => {}
                count => stream.consume_unpin(count),
            }
            if self.next_write <= Instant::now() {
                self.write_news().await;
            }
            if self.publisher.is_superseded() {
                return Stopped::NotWanted;
            }
            match self.phase() {
                Phase::Gone => return Stopped::NotWanted,
                Phase::Running => over_since = None,
                Phase::Complete | Phase::Failed => {
                    let since = *over_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= DRAIN_MAX {
                        return Stopped::Late;
                    }
                }
            }
            if count != usize::MAX && pace.spend(count).await >= BUSY_SECONDS_MAX {
                return Stopped::Behind;
            }
        }
    }

    /// Takes a line, unless it was taken before.
    fn take(&mut self, at: Option<Timestamp>, line: &str) {
        let at = at.unwrap_or_else(|| self.context.environment.now());
        if self.skip_until.is_some_and(|until| at <= until) {
            return;
        }
        self.read_until = Some(at);
        self.tracker.add(&self.formats.parse(line), at);
    }

    async fn write_news(&mut self) {
        let report = self.tracker.report();
        if !self.publisher.is_news(&report) {
            return;
        }
        let at = self.read_until.unwrap_or_else(|| self.context.environment.now());
        if let Err(error) = self.publisher.publish(&report, at).await {
            tracing::debug!(job = %self.job.name, error = %error.chain(), "progress not written");
        }
        let interval = self.began.elapsed() / WRITES_PER_RUN;
        self.next_write = Instant::now() + interval.clamp(WRITE_MIN, WRITE_MAX);
    }

    /// Writes the last values. A job that is complete is done, however it counted.
    async fn end(&mut self, phase: Phase) {
        let mut report = self.tracker.report();
        report.remaining_seconds = None;
        if phase == Phase::Complete {
            report.percent = report.percent.map(|_| 100);
        }
        if !self.publisher.is_news(&report) {
            return;
        }
        let at = self.read_until.unwrap_or_else(|| self.context.environment.now());
        if let Err(error) = self.publisher.publish(&report, at).await {
            warn(&self.job.name, &error);
        }
    }
}

fn warn(job: &Name, error: &Error) {
    tracing::warn!(%job, error = %error.chain(), "progress not derived from output");
}

/// Limit of the bytes that are read in a second.
struct Pace {
    since: Instant,
    bytes: usize,
    busy_seconds: u32,
}

impl Pace {
    fn new() -> Pace {
        Pace { since: Instant::now(), bytes: 0, busy_seconds: 0 }
    }

    /// Waits while the limit is exceeded. Returns for how many seconds in a row it was.
    async fn spend(&mut self, bytes: usize) -> u32 {
        let second = Duration::from_secs(1);
        if self.since.elapsed() >= second {
            *self = Pace::new();
        }
        self.bytes += bytes;
        if self.bytes >= BYTES_PER_SECOND_MAX {
            let busy_seconds = self.busy_seconds + 1;
            tokio::time::sleep_until(self.since + second).await;
            *self = Pace { busy_seconds, ..Pace::new() };
        }
        self.busy_seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reader_waits_when_a_program_floods_it_and_gives_up_after_a_while() {
        let (mut pace, began) = (Pace::new(), Instant::now());
        assert_eq!(pace.spend(1_000).await, 0);
        assert_eq!(began.elapsed(), Duration::ZERO);
        let mut busy = 0;
        while busy < BUSY_SECONDS_MAX {
            busy = pace.spend(BYTES_PER_SECOND_MAX / 2).await;
        }
        assert_eq!(began.elapsed(), Duration::from_secs(u64::from(BUSY_SECONDS_MAX)));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(pace.spend(1).await, 0);
    }
}
