//! Asks containers how they are, as their probes say, for as long as they run.
//!
//! Upstream: pkg/kubelet/prober/worker.go

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::Object;
use reconcile::plan::Notice;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::handlers::{self, Answer};
use super::lifecycle::Health;
use super::restart::between;
use super::worker::{Shared, say};
use crate::runtime::ContainerId;

/// How often a probe that found nothing out is repeated at once.
const TRIES_MAX: u32 = 3;

/// The probes of one run of a container. Dropped, they end.
pub struct Probes {
    health: Arc<Mutex<Health>>,
    is_ending: Arc<AtomicBool>,
    _tasks: JoinSet<()>,
}

/// A run that is probed.
pub struct Probed<'a> {
    pub id: &'a ContainerId,
    pub since: Timestamp,
    /// As the pod specifies it.
    pub container: &'a Value,
}

/// Whom the probes of a run ask and tell.
#[derive(Clone)]
struct Asker {
    shared: Arc<Shared>,
    pod: Arc<Object>,
    id: ContainerId,
    since: Timestamp,
    container: Value,
    health: Arc<Mutex<Health>>,
    is_ending: Arc<AtomicBool>,
    wake: Arc<Notify>,
}

/// What a probe says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Settings {
    initial_delay: Duration,
    period: Duration,
    timeout: Duration,
    successes: u64,
    failures: u64,
}

impl Settings {
    fn of(probe: &Value) -> Settings {
        let number = |field: &str, usual: u64| probe[field].as_u64().unwrap_or(usual);
        let seconds = |field: &str, usual: u64| Duration::from_secs(number(field, usual));
        Settings {
            initial_delay: seconds("initialDelaySeconds", 0),
            period: seconds("periodSeconds", 10).max(Duration::from_secs(1)),
            timeout: seconds("timeoutSeconds", 1).max(Duration::from_secs(1)),
            successes: number("successThreshold", 1),
            failures: number("failureThreshold", 3),
        }
    }
}

/// Answers of one kind in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Row {
    good: u64,
    bad: u64,
}

impl Row {
    /// Counts an answer; what is then certain, if anything is.
    fn count(&mut self, is_good: bool, settings: &Settings) -> Option<bool> {
        match is_good {
            true => *self = Row { good: self.good + 1, bad: 0 },
            false => *self = Row { good: 0, bad: self.bad + 1 },
        }
        let is_certain =
            self.good >= settings.successes && is_good || self.bad >= settings.failures && !is_good;
        is_certain.then_some(is_good)
    }
}

impl Probes {
    /// Begins to ask; `None` if the container has no probes.
    pub fn start(
        (shared, wake): (&Arc<Shared>, &Arc<Notify>),
        pod: &Arc<Object>,
        run: &Probed<'_>,
    ) -> Option<Probes> {
        let has = |probe: &str| run.container[probe].is_object();
        if !has("startupProbe") && !has("livenessProbe") && !has("readinessProbe") {
            return None;
        }
        // What was found before we were restarted holds until something else is.
        let told = told(pod, run);
        let is_started = !has("startupProbe") || told.0;
        let is_ready = is_started && (!has("readinessProbe") || told.1);
        let health = Arc::new(Mutex::new(Health { is_started, is_ready, is_alive: true }));
        let is_ending = Arc::new(AtomicBool::new(pod.is_terminating()));
        let asker = Asker {
            shared: shared.clone(),
            pod: pod.clone(),
            id: run.id.clone(),
            since: run.since,
            container: run.container.clone(),
            health: health.clone(),
            is_ending: is_ending.clone(),
            wake: wake.clone(),
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(asker.run(is_started));
        Some(Probes { health, is_ending, _tasks: tasks })
    }

    pub fn health(&self) -> Health {
        *self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pod ends: from here on only its readiness is of interest.
    pub fn pod_ends(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }
}

/// Whether the status says of this very run that it started, and that it is ready.
fn told(pod: &Object, run: &Probed<'_>) -> (bool, bool) {
    let lists = ["containerStatuses", "initContainerStatuses"];
    let mut all = lists.iter().filter_map(|list| pod.value["status"][list].as_array()).flatten();
    let since = reconcile::conditions::time(run.since);
    let found = all
        .find(|one| one["name"] == *run.id.name && one["state"]["running"]["startedAt"] == *since);
    found.map_or((false, false), |one| (one["started"] == true, one["ready"] == true))
}

impl Asker {
    /// Until the container has started, nothing else is asked.
    async fn run(self, is_started: bool) {
        if !is_started {
            self.ask("startupProbe").await;
        }
        if self.health().is_alive {
            tokio::join!(self.ask("livenessProbe"), self.ask("readinessProbe"));
        }
    }

    fn health(&self) -> Health {
        *self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks again and again; returns when there is no more to ask.
    async fn ask(&self, kind: &'static str) {
        let probe = &self.container[kind];
        if !probe.is_object() {
            return;
        }
        let settings = Settings::of(probe);
        let passed = between(self.since, self.shared.context.environment.now());
        tokio::time::sleep(settings.initial_delay.saturating_sub(passed)).await;
        let mut row = Row::default();
        loop {
            if kind != "readinessProbe" && self.is_ending.load(Ordering::Relaxed) {
                return;
            }
            let found = self.ask_once(kind, probe, settings.timeout).await;
            let certain = found.and_then(|is_good| row.count(is_good, &settings));
            if certain.is_some_and(|is_good| self.tell(kind, is_good)) {
                return;
            }
            tokio::time::sleep(settings.period).await;
        }
    }

    /// Whether the answer was good; `None` if nothing was found out.
    async fn ask_once(&self, kind: &str, probe: &Value, timeout: Duration) -> Option<bool> {
        let asked = handlers::Asked { id: &self.id, container: &self.container };
        let mut answer = Answer::Good;
        for _ in 0..TRIES_MAX {
            answer = handlers::probe(&self.shared, asked, probe, timeout).await;
            if !matches!(answer, Answer::Unknown(_)) {
                break;
            }
        }
        let name = name(kind);
        let (found, notice) = match answer {
            Answer::Good => return Some(true),
            Answer::Warning(what) => {
                let message = format!("{name} probe warning: {what}");
                (Some(true), Notice::warning("ProbeWarning", message))
            }
            Answer::Bad(why) => {
                let message = format!("{name} probe failed: {}", why.trim_end());
                (Some(false), Notice::warning("Unhealthy", message))
            }
            Answer::Unknown(why) => {
                let what = "probe errored and resulted in unknown state";
                let message = format!("{name} {what}: {}", why.trim_end());
                (None, Notice::warning("Unhealthy", message))
            }
        };
        say(&self.shared, &self.pod, notice).await;
        found
    }

    /// Notes what a probe found; true if that was the last word.
    fn tell(&self, kind: &str, is_good: bool) -> bool {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *health;
        match (kind, is_good) {
            ("startupProbe", true) => {
                health.is_started = true;
                health.is_ready = !self.container["readinessProbe"].is_object();
            }
            ("readinessProbe", is_good) => health.is_ready = is_good,
            (_, is_good) => health.is_alive &= is_good,
        }
        if *health != before {
            self.wake.notify_one();
        }
        // A container that failed is asked again when it runs anew.
        kind == "startupProbe" || (kind == "livenessProbe" && !is_good)
    }
}

fn name(kind: &str) -> &'static str {
    match kind {
        "startupProbe" => "Startup",
        "livenessProbe" => "Liveness",
        _ => "Readiness",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_probe_is_certain_after_as_many_answers_as_it_says() {
        let usual = Settings::of(&json!({}));
        let second = Duration::from_secs(1);
        assert_eq!((usual.period, usual.timeout), (10 * second, second));
        assert_eq!((usual.initial_delay, usual.successes, usual.failures), (Duration::ZERO, 1, 3));
        for (settings, answers, certain) in [
            (json!({}), "+", "+"),
            (json!({}), "--+---", "..+..-"),
            (json!({"failureThreshold": 1}), "-+", "-+"),
            (json!({"successThreshold": 2}), "+-++", "...+"),
            (json!({"failureThreshold": 2}), "-+-+--", ".+.+.-"),
        ] {
            let settings = Settings::of(&settings);
            let mut row = Row::default();
            let told: String = answers
                .chars()
                .map(|answer| match row.count(answer == '+', &settings) {
                    Some(true) => '+',
                    Some(false) => '-',
                    None => '.',
                })
                .collect();
            assert_eq!(told, certain, "{answers} {settings:?}");
        }
    }
}
