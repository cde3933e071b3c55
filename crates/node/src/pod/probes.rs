//! Asks containers how they are, as their probes say, for as long as they run.
//!
//! Upstream: pkg/kubelet/prober/worker.go

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reconcile::Object;
use reconcile::plan::Notice;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::handlers;
use super::lifecycle::Health;
use super::worker::{Shared, say};
use crate::runtime::ContainerId;

/// The probes of one run of a container. Dropped, they end.
pub struct Probes {
    health: Arc<Mutex<Health>>,
    _tasks: JoinSet<()>,
}

/// Whom the probes of a run ask and tell.
#[derive(Clone)]
struct Asked {
    shared: Arc<Shared>,
    pod: Arc<Object>,
    id: ContainerId,
    container: Value,
    health: Arc<Mutex<Health>>,
    wake: Arc<Notify>,
}

impl Probes {
    /// Begins to ask; `None` if the container has no probes.
    pub fn start(
        (shared, wake): (&Arc<Shared>, &Arc<Notify>),
        pod: &Arc<Object>,
        (id, container): (&ContainerId, &Value),
    ) -> Option<Probes> {
        let has = |probe: &str| container[probe].is_object();
        if !has("startupProbe") && !has("livenessProbe") && !has("readinessProbe") {
            return None;
        }
        let is_started = !has("startupProbe");
        let is_ready = is_started && !has("readinessProbe");
        let health = Arc::new(Mutex::new(Health { is_started, is_ready, is_alive: true }));
        let asked = Asked {
            shared: shared.clone(),
            pod: pod.clone(),
            id: id.clone(),
            container: container.clone(),
            health: health.clone(),
            wake: wake.clone(),
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(asked.run());
        Some(Probes { health, _tasks: tasks })
    }

    pub fn health(&self) -> Health {
        *self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Asked {
    /// Until the container has started, nothing else is asked.
    async fn run(self) {
        if self.container["startupProbe"].is_object() {
            self.ask("startupProbe").await;
        }
        tokio::join!(self.ask("livenessProbe"), self.ask("readinessProbe"));
    }

    /// Asks again and again; returns when there is no more to ask.
    async fn ask(&self, kind: &'static str) {
        let probe = &self.container[kind];
        if !probe.is_object() {
            return;
        }
        let number = |field: &str, usual: u64| probe[field].as_u64().unwrap_or(usual);
        let seconds = |field: &str, usual: u64| Duration::from_secs(number(field, usual));
        let (period, timeout) = (seconds("periodSeconds", 10), seconds("timeoutSeconds", 1));
        let (successes, failures) = (number("successThreshold", 1), number("failureThreshold", 3));
        tokio::time::sleep(seconds("initialDelaySeconds", 0)).await;
        let (mut good, mut bad) = (0, 0);
        loop {
            let asked = handlers::run(&self.shared, (&self.id, &self.container), probe);
            let answer = tokio::time::timeout(timeout, asked).await;
            let answer = answer
                .unwrap_or_else(|_| Err(format!("command timed out after {}s", timeout.as_secs())));
            match answer {
                Ok(()) => (good, bad) = (good + 1, 0),
                Err(why) => {
                    (good, bad) = (0, bad + 1);
                    let name = name(kind);
                    let message = format!("{name} probe failed: {}", why.trim_end());
                    say(&self.shared, &self.pod, Notice::warning("Unhealthy", message)).await;
                }
            }
            if good >= successes && self.tell(kind, true) {
                return;
            }
            if bad >= failures && self.tell(kind, false) {
                return;
            }
            tokio::time::sleep(period.max(Duration::from_secs(1))).await;
        }
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
