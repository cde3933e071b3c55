//! What a worker looks at, and what it keeps up to date meanwhile: room, volumes, probes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use reconcile::plan::Notice;
use reconcile::{Name, Object, Wake};
use tokio::time::Instant;

use super::{GONE_GRACE, Stuck, Worker};
use crate::failpoints::reached;
use crate::pod::container_status::{failed_start, lost, told_message};
use crate::pod::lifecycle::{Health, Observed, Seen};
use crate::pod::probes::{Probed, Probes};
use crate::pod::spec::{self, Spec};
use crate::pod::{ephemeral, prepare, sandbox, termination};
use crate::runtime::{ContainerId, Exit, Refusal, State};
use crate::simulated::NODE;
use crate::volumes::usage;

/// How long until volumes that could not be made are tried again.
const VOLUMES_RETRY: Duration = Duration::from_millis(50);
const VOLUMES_RETRY_MAX: Duration = Duration::from_secs(10);
/// How many times in a row before it is worth an event.
const VOLUMES_PATIENCE: u32 = 3;
/// How often volumes that are bounded are measured.
const MEASURE: Duration = Duration::from_secs(10);

impl Worker<'_> {
    /// Asks once whether this node takes the pod.
    pub(super) async fn admit(&mut self, pod: &Object) {
        if self.admitted.is_some() {
            return;
        }
        let name = Name::new("", self.shared.options.node.as_str());
        let node = self.shared.context.cache(NODE).get(&name);
        let admitted = match self.refused_for_pressure(pod) {
            Some(refusal) => Err(refusal),
            None => self.shared.ledger.admit(pod, node.as_deref()),
        };
        if let Err(refusal) = &admitted {
            self.say(pod, Notice::warning(refusal.reason, refusal.message.clone())).await;
        }
        self.admitted = Some(admitted);
    }

    /// Returns why a pod that has not begun here is refused by a node under pressure.
    fn refused_for_pressure(&self, pod: &Object) -> Option<Refusal> {
        let is_known = pod.value["status"]["startTime"].is_string() || pod.is_terminating();
        let now = self.shared.context.environment.now();
        if is_known { None } else { self.shared.options.pressure.refuse(pod, now) }
    }

    pub(super) fn observe(&mut self, pod: &Object) -> Observed {
        let now = self.shared.context.environment.now();
        let mut containers: BTreeMap<String, Seen> = BTreeMap::new();
        let runs = self.shared.runtime.of_pod(self.uid);
        self.messages.retain(|id, _| runs.iter().any(|run| run.id == *id));
        for spec in ephemeral::and_others(pod) {
            let refused = self.refused.get(spec.name).cloned();
            let starts = self.starts.get(spec.name).cloned();
            let mut seen = Seen { refused, starts, ..Seen::default() };
            for run in runs.iter().filter(|run| run.id.name == spec.name) {
                seen.is_stopping = self.is_stopping(pod, &run.id);
                seen.health = self.health(&run.id);
                if let State::Exited(exit) = &run.state {
                    let message = self.message(pod, &spec, (&run.id, exit));
                    seen.messages.insert(run.id.attempt, message);
                }
                seen.runs.push(run.clone());
            }
            // An attempt number in the status is never used again, so that restartCount only grows.
            let newest = seen.runs.last().map(|run| run.id.attempt);
            if let Some((run, message)) = lost(pod, spec.name, now)
                && newest.is_none_or(|newest| newest < run.id.attempt)
            {
                seen.messages.extend(message.map(|message| (run.id.attempt, message)));
                seen.runs.push(run);
            }
            if let Some((run, message)) = failed_start(self.uid, &spec, &seen) {
                seen.messages.insert(run.id.attempt, message);
                seen.runs.push(run);
                seen.refused = None;
            }
            containers.insert(spec.name.to_owned(), seen);
        }
        let unprepared = self.unprepared.as_ref().filter(|_| self.prepared.is_none());
        Observed {
            containers,
            volumes: unprepared.map(|(why, _)| why.clone()),
            sandbox: self.shared.runtime.sandbox_of(self.uid),
            rejected: self.admitted.clone().and_then(Result::err),
            evicted: self
                .evicted
                .clone()
                .or_else(|| self.shared.options.pressure.eviction(self.uid)),
            ending_since: self.ending_since,
        }
    }

    fn health(&self, id: &ContainerId) -> Health {
        if self.hooked.contains(id) {
            return Health { is_started: false, is_ready: false, is_alive: true };
        }
        let probes = self.probes.get(id).and_then(Option::as_ref);
        probes.map(Probes::health).unwrap_or_default()
    }

    /// What a run that ended had to say; read once, and after a restart of ours as it was told.
    fn message(
        &mut self,
        pod: &Object,
        spec: &Spec<'_>,
        (id, exit): (&ContainerId, &Exit),
    ) -> String {
        let shared = self.shared;
        let read = || {
            let directory = prepare::directory(shared, &id.pod);
            let log = shared.runtime.log(id);
            let read = termination::read(&directory, (id, exit), spec.value, &log);
            if read.is_empty() { told_message(pod, id).unwrap_or_default() } else { read }
        };
        self.messages.entry(id.clone()).or_insert_with(read).clone()
    }

    /// Probes run for what runs, and for nothing else.
    pub(super) fn probe(&mut self, pod: &Arc<Object>) {
        let runs = self.shared.runtime.of_pod(self.uid);
        let running: Vec<_> = runs.iter().filter(|run| run.is_running()).collect();
        self.probes.retain(|id, _| running.iter().any(|run| run.id == *id));
        self.hooked.retain(|id| running.iter().any(|run| run.id == *id));
        for spec in spec::containers(pod) {
            for run in running.iter().filter(|run| run.id.name == spec.name) {
                let State::Running { since } = run.state else { continue };
                if self.hooked.contains(&run.id) {
                    continue;
                }
                let (shared, wake) = (self.shared, self.wake);
                let probed = Probed { id: &run.id, since, container: spec.value };
                let start = || Probes::start((shared, wake), pod, &probed);
                let probes = self.probes.entry(run.id.clone()).or_insert_with(start);
                if let Some(probes) = probes.as_ref().filter(|_| pod.is_terminating()) {
                    probes.pod_ends();
                }
            }
        }
    }

    /// Whether a run was asked to stop, with no more time than it has by now.
    fn is_stopping(&self, pod: &Object, id: &ContainerId) -> bool {
        let is_due = |stuck: &Stuck| stuck.again.is_some_and(|again| again <= Instant::now());
        if self.stuck.get(id).is_some_and(is_due) {
            return false;
        }
        let given = self.stopping.get(id);
        given.is_some_and(|given| {
            !pod.is_terminating() || *given <= spec::grace(pod).max(GONE_GRACE)
        })
    }

    /// When what could not be stopped is tried again.
    pub(super) fn until_stops_again(&self) -> Wake {
        let next = self.stuck.values().filter_map(|stuck| stuck.again).min();
        next.map_or(Wake::OnChange, |at| Wake::After(at.duration_since(Instant::now())))
    }

    /// Makes what containers need before they start, and keeps it up to date.
    pub(super) async fn prepare(&mut self, pod: &Object) -> Wake {
        let is_taken = matches!(self.admitted, Some(Ok(())));
        if pod.is_terminating() || spec::is_over(pod) || !is_taken {
            return Wake::OnChange;
        }
        let before = self.prepared.as_ref();
        let is_whole = self.shared.runtime.sandbox_of(self.uid).is_some();
        let lasts = before.and_then(|prepared| prepared.lasts(self.shared, pod));
        if let Some(wake) = lasts.filter(|_| is_whole) {
            return wake;
        }
        let mut made = prepare::prepare(self.shared, (pod, self.wake), before).await;
        if made.is_ok() {
            reached("volumes:made");
            if let Err(refusal) = sandbox::make(self.shared, pod).await {
                made = Err(refusal);
            }
            reached("sandbox:made");
        }
        match made {
            Ok(prepared) => {
                self.unprepared = None;
                // What was wrong may be right by now.
                self.refused.retain(|_, it| it.refusal.reason != "CreateContainerConfigError");
                let wake = prepared.lasts(self.shared, pod);
                self.prepared = Some(prepared);
                wake.unwrap_or(Wake::After(VOLUMES_RETRY))
            }
            Err(refusal) => {
                let times = match &self.unprepared {
                    Some((before, times)) if *before == refusal => times + 1,
                    _ => 0,
                };
                // What is about to be made is there at the second look.
                if times == VOLUMES_PATIENCE {
                    let reason = match refusal.reason {
                        sandbox::FAILED => sandbox::FAILED,
                        _ => "FailedMount",
                    };
                    let notice = Notice::warning(reason, refusal.message.clone());
                    self.say(pod, notice).await;
                }
                self.unprepared = Some((refusal, times));
                let delay = VOLUMES_RETRY.saturating_mul(1 << times.min(8));
                Wake::After(delay.min(VOLUMES_RETRY_MAX))
            }
        }
    }

    /// Looks from time to time whether the pod keeps to the bounds of its volumes.
    pub(super) async fn measure(&mut self, pod: &Arc<Object>) -> Wake {
        if self.prepared.is_none() || spec::is_over(pod) || !usage::is_bounded(pod) {
            return Wake::OnChange;
        }
        let passed = self.measured.map_or(MEASURE, |measured| measured.elapsed());
        if let Some(left) = MEASURE.checked_sub(passed).filter(|left| !left.is_zero()) {
            return Wake::After(left);
        }
        self.measured = Some(Instant::now());
        let (owned, directory) = (pod.clone(), prepare::directory(self.shared, self.uid));
        let found = tokio::task::spawn_blocking(move || usage::exceeded(&owned, &directory)).await;
        if let Ok(Some(message)) = found {
            self.say(pod, Notice::warning("Evicted", message.clone())).await;
            self.evicted = Some(Refusal { reason: "Evicted", message });
        }
        Wake::After(MEASURE)
    }
}
