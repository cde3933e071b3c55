//! Node pressure: reads how much memory, disk space and process ids are left, reports the node
//! conditions, and evicts pods while a resource is short.
//!
//! Upstream: pkg/kubelet/eviction

mod admission;
mod ranking;
mod signals;
mod thresholds;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use amounts::pod as requests;
use k8s_openapi::jiff::Timestamp;
use reconcile::plan::Notice;
use reconcile::{Name, Object};
use tokio::sync::Notify;

use crate::pod::restart::between;
use crate::pod::worker::{self, Shared};
use crate::pod::{images, prepare, spec};
use crate::register;
use crate::runtime::Refusal;
use crate::simulated::{NODE, POD};
use crate::volumes::usage;
use ranking::{Candidate, rank};
pub use signals::{Amount, HostSignals, SignalSource, Signals};
use thresholds::Shortage;
pub use thresholds::{Threshold, Thresholds};

/// Reason of an evicted pod and of its event.
pub const EVICTED: &str = "Evicted";
/// Period between two readings.
const INTERVAL: Duration = Duration::from_secs(10);
/// Time for which a condition stays true after its resource was last short, so that pods do not
/// come back to a node that they have just filled.
const TRANSITION: Duration = Duration::from_secs(5 * 60);
/// Time in which an evicted pod ends before another is chosen.
const CLEANUP_MAX: Duration = Duration::from_secs(30);

/// Resources that a node runs out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    Memory,
    Disk,
    Pids,
}

impl Resource {
    pub const ALL: [Resource; 3] = [Resource::Memory, Resource::Disk, Resource::Pids];

    pub fn condition(self) -> &'static str {
        match self {
            Resource::Memory => "MemoryPressure",
            Resource::Disk => "DiskPressure",
            Resource::Pids => "PIDPressure",
        }
    }

    /// Name of the resource in messages of evicted pods.
    fn name(self) -> &'static str {
        match self {
            Resource::Memory => "memory",
            Resource::Disk => "ephemeral-storage",
            Resource::Pids => "pids",
        }
    }
}

/// Settings of the monitor.
#[derive(Clone)]
pub struct Settings {
    pub thresholds: Thresholds,
    pub interval: Duration,
    pub transition: Duration,
    /// Readings; those of the host by default.
    pub source: Option<Arc<dyn SignalSource>>,
}

impl Default for Settings {
    fn default() -> Settings {
        let thresholds = Thresholds::default();
        Settings { thresholds, interval: INTERVAL, transition: TRANSITION, source: None }
    }
}

/// Shortages of this node and the pods that it evicts for them.
#[derive(Default)]
pub struct Pressure {
    settings: Settings,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// Time at which each resource was last short.
    last_short: BTreeMap<Resource, Timestamp>,
    /// Conditions that were true at the last reading.
    under: Vec<Resource>,
    /// Evicted pods that have not ended, by UID.
    evicted: BTreeMap<String, Refusal>,
}

impl fmt::Debug for Pressure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pressure").finish_non_exhaustive()
    }
}

impl Pressure {
    pub fn new(settings: Settings) -> Pressure {
        Pressure { settings, ..Pressure::default() }
    }

    /// Returns whether the condition of a resource is true.
    pub fn is_under(&self, resource: Resource, now: Timestamp) -> bool {
        let last = self.lock().last_short.get(&resource).copied();
        last.is_some_and(|last| between(last, now) < self.settings.transition)
    }

    /// Returns why the node does not admit a new pod, if its conditions forbid that.
    pub fn refuse(&self, pod: &Object, now: Timestamp) -> Option<Refusal> {
        admission::refuse(pod, &self.under(now))
    }

    /// Returns why a pod is evicted, if it is.
    pub fn eviction(&self, uid: &str) -> Option<Refusal> {
        self.lock().evicted.get(uid).cloned()
    }

    /// Forgets a pod that has ended.
    pub fn forget(&self, uid: &str) {
        self.lock().evicted.remove(uid);
    }

    /// Waits until a condition may have changed.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    fn under(&self, now: Timestamp) -> Vec<Resource> {
        Resource::ALL.into_iter().filter(|resource| self.is_under(*resource, now)).collect()
    }

    /// Records a reading. Conditions that change are reported at once.
    fn record(&self, shortages: &[Shortage], now: Timestamp) {
        for shortage in shortages {
            self.lock().last_short.insert(shortage.resource, now);
        }
        let under = self.under(now);
        let before = std::mem::replace(&mut self.lock().under, under.clone());
        if before != under {
            tracing::info!(from = ?before, to = ?under, "node pressure changed");
            self.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the signals until dropped, and evicts one pod after the other while a resource is short.
/// `wake` runs the worker of a pod.
pub async fn monitor(shared: &Arc<Shared>, wake: impl Fn(&str)) {
    let pressure = shared.options.pressure.clone();
    let host: Arc<dyn SignalSource> = Arc::new(HostSignals::new(&shared.options.directory));
    let source = pressure.settings.source.clone().unwrap_or(host);
    loop {
        tokio::time::sleep(pressure.settings.interval).await;
        let now = shared.context.environment.now();
        let shortages = pressure.settings.thresholds.shortages(&source.read());
        pressure.record(&shortages, now);
        let Some(shortage) = shortages.first() else { continue };
        if shortage.resource == Resource::Disk && images::reclaim_space(shared).await {
            continue;
        }
        let Some((pod, refusal)) = choose(shared, shortage).await else { continue };
        tracing::warn!(pod = %pod.name, reason = refusal.message, "evicting a pod");
        report_on_node(shared, shortage).await;
        worker::say(shared, &pod, Notice::warning(EVICTED, refusal.message.clone())).await;
        pressure.lock().evicted.insert(pod.uid.clone(), refusal);
        wake(&pod.uid);
        until_ended(shared, &pod).await;
    }
}

/// Returns the pod to evict and the message for its status.
async fn choose(shared: &Arc<Shared>, shortage: &Shortage) -> Option<(Arc<Object>, Refusal)> {
    let pods = shared.context.cache(POD).all();
    let node = &shared.options.node;
    let here = pods.into_iter().filter(|pod| pod.value["spec"]["nodeName"] == *node);
    let live = here.filter(|pod| !spec::is_over(pod) && !pod.is_terminating());
    let evictable = live.filter(|pod| !admission::is_critical(pod));
    let evictable: Vec<Arc<Object>> =
        evictable.filter(|pod| pod.value["status"]["startTime"].is_string()).collect();
    let mut candidates = Vec::new();
    for pod in evictable {
        candidates.push(candidate(shared, pod, shortage.resource).await);
    }
    let chosen = rank(candidates, shortage.resource).into_iter().next()?;
    let message = shortage.message(&chosen);
    Some((chosen.pod, Refusal { reason: EVICTED, message }))
}

async fn candidate(shared: &Arc<Shared>, pod: Arc<Object>, resource: Resource) -> Candidate {
    let used = shared.runtime.usage(&pod.uid).unwrap_or_default();
    let usage = match resource {
        Resource::Memory => used.memory_bytes,
        Resource::Pids => used.processes,
        Resource::Disk => disk_usage(shared, &pod.uid).await,
    };
    let request = match requests::of(&pod.value, "requests").get(resource.name()) {
        Some(quantity) => u64::try_from(quantity.value()).unwrap_or(0),
        None => 0,
    };
    let priority = pod.value["spec"]["priority"].as_i64().unwrap_or(0);
    Candidate { pod, priority, usage, request }
}

/// Bytes of the volumes and logs of a pod.
async fn disk_usage(shared: &Arc<Shared>, uid: &str) -> u64 {
    let runs = shared.runtime.of_pod(uid);
    let logs: Vec<_> = runs.iter().map(|run| shared.runtime.log(&run.id)).collect();
    let directory = prepare::directory(shared, uid);
    let measured = tokio::task::spawn_blocking(move || {
        let size = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
        let logs: u64 = logs.iter().map(|log| size(log)).sum();
        usage::bytes(&directory).unwrap_or(0).saturating_add(logs)
    });
    measured.await.unwrap_or(0)
}

/// Records an event of the node, as the conditions alone do not say that pods are evicted.
async fn report_on_node(shared: &Arc<Shared>, shortage: &Shortage) {
    let name = Name::new("", shared.options.node.as_str());
    let Some(node) = shared.context.cache(NODE).get(&name) else { return };
    let message = format!("Attempting to reclaim {}", shortage.resource.name());
    let notice = Notice::warning("EvictionThresholdMet", message);
    let context = &shared.context;
    let requests = context.requests(register::MANAGER, Default::default());
    let now = context.environment.now();
    context.recorder.record(&requests, (NODE, &node), &notice, now).await;
}

async fn until_ended(shared: &Arc<Shared>, pod: &Object) {
    let ended = async {
        let mut runs = shared.runtime.of_pod(&pod.uid);
        while let Some(run) = runs.iter().find(|run| run.is_running()) {
            shared.runtime.ended(&run.id).await;
            runs = shared.runtime.of_pod(&pod.uid);
        }
    };
    let _ = tokio::time::timeout(CLEANUP_MAX, ended).await;
}

#[cfg(test)]
mod tests;
