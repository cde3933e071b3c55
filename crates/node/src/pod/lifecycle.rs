//! Decides what is done next for a pod: containers to start and to stop, when to look again.
//!
//! Pure: no clock, no runtime, no server. The worker does what is said here.
//!
//! Upstream: pkg/kubelet/kuberuntime/kuberuntime_manager.go (computePodActions)

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::{Object, Wake};

use super::ephemeral;
use super::restart::{Fate, between, fate, is_changed};
use super::spec::{Role, Spec, grace, is_over};
use crate::runtime::{Container, Refusal, Sandbox, State};

/// What the signal to end is given at the least, whatever is left of the grace period.
const GRACE_MIN: Duration = Duration::from_secs(2);
/// Runs of a container that are kept: the newest and the one before.
const RUNS_KEPT: usize = 2;

/// What is known of a pod besides its object.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub containers: BTreeMap<String, Seen>,
    /// Why its volumes or its sandbox are not there, if they are not.
    pub volumes: Option<Refusal>,
    /// Why this node does not take it, if it does not.
    pub rejected: Option<Refusal>,
    /// Why it has to go, if it has: it took more than it may.
    pub evicted: Option<Refusal>,
    /// Since when all of it is to end.
    pub ending_since: Option<Timestamp>,
    /// What its containers share.
    pub sandbox: Option<Sandbox>,
}

/// What is known of a container.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Its runs, oldest first.
    pub runs: Vec<Container>,
    /// Why it could not be started the last time.
    pub refused: Option<Refused>,
    pub health: Health,
    /// Whether it was asked to stop.
    pub is_stopping: bool,
    /// What the runs that ended had to say, by attempt.
    pub messages: BTreeMap<u32, String>,
    /// Starts that the runtime was asked for.
    pub starts: Option<Starts>,
}

/// Consecutive start requests for one image of a container. Bounds the restart rate independently
/// of the runs that the runtime and the pod's status report.
#[derive(Clone, Debug, PartialEq)]
pub struct Starts {
    pub image: String,
    /// Number of requests since the container last went without one for long enough to be reset.
    pub times: u32,
    pub last: Timestamp,
}

/// A start that failed, how often in a row, and when last.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    pub refusal: Refusal,
    pub at: Timestamp,
    pub times: u32,
    /// Of which image.
    pub image: String,
    /// Attempt that the runtime refused; `None` if the image could not be pulled.
    pub attempt: Option<u32>,
}

/// What probes say of the newest run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    pub is_started: bool,
    pub is_ready: bool,
    pub is_alive: bool,
}

impl Default for Health {
    /// As without probes.
    fn default() -> Health {
        Health { is_started: true, is_ready: true, is_alive: true }
    }
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Deed {
    Start { name: String, attempt: u32, failures: u32 },
    Stop { name: String, attempt: u32, grace: Duration, why: Why },
    Forget { name: String, attempt: u32 },
}

/// Why a container is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The pod goes, or is over.
    PodEnds,
    /// Its liveness probe said so.
    Unhealthy,
    /// Its startup probe said so.
    Unstarted,
    /// It is to be another.
    Changed,
}

/// Where the pod stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It lives.
    Lives,
    /// Everything is to end; the phase stays what it was.
    Terminating,
    /// It was too long at it.
    Overdue,
    /// It ended by itself, and nothing runs any more.
    Over,
    /// This node does not take it.
    Rejected,
    /// It took more than it may.
    Evicted,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub struct Next {
    pub deeds: Vec<Deed>,
    pub stage: Stage,
    pub wake: Wake,
    /// Nothing of it runs and nothing will.
    pub is_still: bool,
}

pub fn next(pod: &Object, observed: &Observed, now: Timestamp) -> Next {
    let specs = ephemeral::and_others(pod);
    let mut next =
        Next { deeds: Vec::new(), stage: Stage::Lives, wake: Wake::OnChange, is_still: false };
    forget(&specs, observed, &mut next);
    let left = deadline(pod, now);
    if pod.is_terminating() {
        next.stage = Stage::Terminating;
    } else if is_over(pod) {
        next.stage = Stage::Over;
    } else if observed.rejected.is_some() {
        next.stage = Stage::Rejected;
    } else if observed.evicted.is_some() {
        next.stage = Stage::Evicted;
    } else if left.is_some_and(|left| left.is_zero()) {
        next.stage = Stage::Overdue;
    }
    if next.stage != Stage::Lives {
        let grace = match next.stage {
            // The node cannot wait for a pod that uses up what the others need.
            Stage::Evicted => Grace { whole: GRACE_MIN, left: GRACE_MIN },
            _ => Grace::of(pod, observed, now),
        };
        next.is_still = stop_all(&specs, observed, grace, &mut next);
        return next;
    }
    if let Some(left) = left {
        next.wake = Wake::After(left);
    }
    if observed.volumes.is_some() && observed.containers.values().all(|seen| seen.runs.is_empty()) {
        return next;
    }
    live(pod, &specs, observed, now, &mut next);
    next
}

/// How long the pod may still be active, if that is bounded.
fn deadline(pod: &Object, now: Timestamp) -> Option<Duration> {
    let seconds = pod.value["spec"]["activeDeadlineSeconds"].as_u64()?;
    let began: Timestamp = pod.value["status"]["startTime"].as_str()?.parse().ok()?;
    Some(Duration::from_secs(seconds).saturating_sub(between(began, now)))
}

fn live(pod: &Object, specs: &[Spec<'_>], observed: &Observed, now: Timestamp, next: &mut Next) {
    let empty = Seen::default();
    let seen = |spec: &Spec<'_>| observed.containers.get(spec.name).unwrap_or(&empty);
    let mains = || specs.iter().filter(|spec| spec.role == Role::Main);
    // Plain init containers run once for a pod; a main container that ran proves it.
    let was_initialised = mains().any(|spec| !seen(spec).runs.is_empty());
    let fates = mains().map(|spec| fate(seen(spec), spec, now));
    let are_mains_over = fates.clone().all(|fate| matches!(fate, Fate::Ended { .. }));
    let is_lost = |spec: &Spec<'_>| {
        let fate = fate(seen(spec), spec, now);
        spec.role == Role::Init && matches!(fate, Fate::Ended { succeeded: false })
    };
    // Initialisation that failed for good is the end of all, sidecars included.
    if are_mains_over || (!was_initialised && specs.iter().any(is_lost)) {
        next.is_still = stop_all(specs, observed, Grace::of(pod, observed, now), next);
        return;
    }
    for spec in specs.iter().filter(|spec| spec.role == Role::Ephemeral) {
        advance(pod, spec, seen(spec), fate(seen(spec), spec, now), next);
    }
    for spec in specs.iter().filter(|spec| matches!(spec.role, Role::Init | Role::Sidecar)) {
        if spec.role == Role::Init && was_initialised {
            continue;
        }
        let seen = seen(spec);
        let fate = fate(seen, spec, now);
        let is_done = match (&fate, spec.role) {
            (Fate::Ended { .. }, _) => true,
            (Fate::Runs, Role::Sidecar) => seen.health.is_started,
            _ => was_initialised,
        };
        advance(pod, spec, seen, fate, next);
        if !is_done {
            return;
        }
    }
    for spec in mains() {
        let fate = fate(seen(spec), spec, now);
        advance(pod, spec, seen(spec), fate, next);
    }
}

/// Starts a container whose time has come; stops one that is ill, or another than is wanted.
fn advance(pod: &Object, spec: &Spec<'_>, seen: &Seen, fate: Fate, next: &mut Next) {
    let name = || spec.name.to_owned();
    match fate {
        Fate::Start { attempt, failures } => {
            next.deeds.push(Deed::Start { name: name(), attempt, failures });
        }
        Fate::Wait { left, .. } => next.wake = next.wake.or_earlier(Wake::After(left)),
        Fate::Runs if seen.is_stopping => {}
        Fate::Runs => {
            let Some(run) = seen.runs.last() else { return };
            let own = |probe: &str| spec.value[probe]["terminationGracePeriodSeconds"].as_u64();
            let (why, own) = match (seen.health.is_alive, seen.health.is_started) {
                _ if is_changed(run, spec) => (Why::Changed, None),
                (false, true) => (Why::Unhealthy, own("livenessProbe")),
                (false, false) => (Why::Unstarted, own("startupProbe")),
                (true, _) => return,
            };
            let grace = own.map_or_else(|| grace(pod), Duration::from_secs);
            next.deeds.push(Deed::Stop { name: name(), attempt: run.id.attempt, grace, why });
        }
        Fate::Ended { .. } => {}
    }
}

/// What containers get to end.
struct Grace {
    /// Those that go first.
    whole: Duration,
    /// Those that had to wait for their turn: one grace period is for all.
    left: Duration,
}

impl Grace {
    fn of(pod: &Object, observed: &Observed, now: Timestamp) -> Grace {
        let whole = grace(pod);
        let waited = observed.ending_since.map_or(Duration::ZERO, |since| between(since, now));
        let left = whole.saturating_sub(waited).max(GRACE_MIN);
        Grace { whole: whole.max(GRACE_MIN), left }
    }
}

/// Mains end together, then sidecars in reverse order. True when nothing runs.
fn stop_all(specs: &[Spec<'_>], observed: &Observed, grace: Grace, next: &mut Next) -> bool {
    let running = |spec: &Spec<'_>| {
        let seen = observed.containers.get(spec.name)?;
        let run = seen.runs.last().filter(|run| run.is_running())?;
        Some((run.id.attempt, seen.is_stopping))
    };
    let is_sidecar = |spec: &&Spec<'_>| spec.role == Role::Sidecar;
    let mut stop = |spec: &Spec<'_>, (attempt, is_stopping): (u32, bool), grace| {
        if !is_stopping {
            let name = spec.name.to_owned();
            next.deeds.push(Deed::Stop { name, attempt, grace, why: Why::PodEnds });
        }
    };
    let mut is_still = true;
    for spec in specs.iter().filter(|spec| !is_sidecar(spec)) {
        if let Some(run) = running(spec) {
            is_still = false;
            stop(spec, run, grace.whole);
        }
    }
    if is_still
        && let Some((spec, run)) =
            specs.iter().rev().filter(is_sidecar).find_map(|spec| Some((spec, running(spec)?)))
    {
        is_still = false;
        stop(spec, run, grace.left);
    }
    is_still
}

/// Older runs than the last two are nobody's business.
fn forget(specs: &[Spec<'_>], observed: &Observed, next: &mut Next) {
    for spec in specs {
        let runs = observed.containers.get(spec.name).map_or(&[][..], |seen| &seen.runs);
        for run in &runs[..runs.len().saturating_sub(RUNS_KEPT)] {
            if matches!(run.state, State::Exited(_)) {
                let name = spec.name.to_owned();
                next.deeds.push(Deed::Forget { name, attempt: run.id.attempt });
            }
        }
    }
}

impl fmt::Display for Next {
    /// Stable: goldens are made of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for deed in &self.deeds {
            match deed {
                Deed::Start { name, attempt, failures } => {
                    write!(f, "start {name} #{attempt} failures {failures}; ")?;
                }
                Deed::Stop { name, attempt, grace, why } => {
                    write!(f, "stop {name} #{attempt} in {grace:?} {why:?}; ")?;
                }
                Deed::Forget { name, attempt } => write!(f, "forget {name} #{attempt}; ")?,
            }
        }
        let still = if self.is_still { " still" } else { "" };
        match self.wake {
            Wake::OnChange => write!(f, "{:?}{still}", self.stage),
            Wake::After(after) => write!(f, "{:?}{still}, wake after {after:?}", self.stage),
        }
    }
}
