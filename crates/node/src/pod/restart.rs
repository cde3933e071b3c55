//! Whether and when a container runs again.
//!
//! Upstream: pkg/kubelet/kuberuntime/kuberuntime_manager.go (doBackOff)

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::lifecycle::{Seen, Starts};
use super::spec::{Role, Spec};
use crate::runtime::{Container, Exit, State};

const FIRST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(300);
/// Whoever ran for longer has recovered.
const FORGIVEN: Duration = Duration::from_secs(600);

/// What becomes of a container next, if nothing stands in its way.
#[derive(Clone, Debug, PartialEq)]
pub enum Fate {
    Runs,
    /// It ended and stays so.
    Ended {
        succeeded: bool,
    },
    /// It is to be started: run number `attempt`, after as many failures in a row.
    Start {
        attempt: u32,
        failures: u32,
    },
    /// The same, later.
    Wait {
        delay: Duration,
        left: Duration,
    },
}

pub fn fate(seen: &Seen, spec: &Spec<'_>, now: Timestamp) -> Fate {
    let (attempt, failures, ended) = match seen.runs.last() {
        None => (0, 0, None),
        Some(run) => match &run.state {
            State::Running { .. } => return Fate::Runs,
            // What it was started from is not wanted any more: how that went says nothing.
            State::Exited(exit) if is_changed(run, spec) && !is_done(spec, exit) => {
                (run.id.attempt + 1, 0, None)
            }
            State::Exited(exit) => {
                if !spec.runs_again(exit.code) {
                    return Fate::Ended { succeeded: exit.code == 0 };
                }
                let failures = if ran(exit) > FORGIVEN { 1 } else { run.failures + 1 };
                (run.id.attempt + 1, failures, Some(exit.ended))
            }
        },
    };
    // A start that was refused counts like a failure, from when it was.
    let (delay, since) = match seen.refused.as_ref().filter(|it| it.image == spec.image()) {
        Some(refused) => (delay(refused.times + 1), Some(refused.at)),
        None => (delay(failures), ended),
    };
    let waits = [(delay, since), start_limit(seen, spec)].map(|(delay, since)| {
        let passed = since.map_or(Duration::MAX, |since| between(since, now));
        (delay.saturating_sub(passed), delay)
    });
    match waits.into_iter().max() {
        Some((left, delay)) if !left.is_zero() => Fate::Wait { delay, left },
        _ => Fate::Start { attempt, failures },
    }
}

/// Minimum delay after the last start request, whatever became of that run. A run ends after it
/// starts, so the limit holds a container back only if the reported runs are wrong.
fn start_limit(seen: &Seen, spec: &Spec<'_>) -> (Duration, Option<Timestamp>) {
    match seen.starts.as_ref().filter(|starts| starts.image == spec.image()) {
        Some(starts) => (delay(starts.times), Some(starts.last)),
        None => (Duration::ZERO, None),
    }
}

/// Counts a start request.
pub fn count_start(before: Option<&Starts>, image: &str, now: Timestamp) -> Starts {
    let recent = |it: &&Starts| it.image == image && between(it.last, now) <= FORGIVEN;
    let times = before.filter(recent).map_or(0, |it| it.times);
    Starts { image: image.to_owned(), times: times.saturating_add(1), last: now }
}

/// Whether a run is of another image than is wanted, the one thing of a container that may change.
pub fn is_changed(run: &Container, spec: &Spec<'_>) -> bool {
    run.image != spec.image()
}

/// Initialisation that succeeded is not repeated.
fn is_done(spec: &Spec<'_>, exit: &Exit) -> bool {
    spec.role == Role::Init && exit.code == 0
}

/// How long to wait after as many failures in a row; the first is forgiven.
pub fn delay(failures: u32) -> Duration {
    match failures {
        0 | 1 => Duration::ZERO,
        more => FIRST.saturating_mul(1 << (more - 2).min(6)).min(LONGEST),
    }
}

fn ran(exit: &Exit) -> Duration {
    between(exit.began, exit.ended)
}

pub fn between(from: Timestamp, to: Timestamp) -> Duration {
    let milliseconds = to.as_millisecond() - from.as_millisecond();
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0))
}
