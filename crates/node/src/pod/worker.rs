//! Carries one pod through its life: looks, decides (`lifecycle.rs`), does, reports, waits.
//!
//! A worker waits for nobody but its own pod. It ends when nothing of the pod is left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::plan::{Deletion, Notice, Target};
use reconcile::{Error, Name, Object, Wake, conditions};
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;

use super::admission::Ledger;
use super::container_status::{lost, told_message};
use super::follow::Followers;
use super::lifecycle::{Deed, Health, Next, Observed, Refused, Seen, Stage, Why, next};
use super::probes::{Probed, Probes};
use super::restart::{Fate, fate};
use super::spec::{self, Spec};
use super::{hooks, prepare, sandbox, status, termination};
use crate::agent::Options;
use crate::register::MANAGER;
use crate::runtime::{ContainerId, Exit, PodRuntime, Refusal, State};
use crate::simulated::{NODE, POD};

/// How long until a write that failed is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// What a pod that is gone without a word gets to end.
const GONE_GRACE: Duration = Duration::from_secs(2);
/// How long until volumes that could not be made are tried again.
const VOLUMES_RETRY: Duration = Duration::from_millis(50);
const VOLUMES_RETRY_MAX: Duration = Duration::from_secs(10);
/// How many times in a row before it is worth an event.
const VOLUMES_PATIENCE: u32 = 3;
/// What all workers share.
pub struct Shared {
    pub context: reconcile::Context,
    pub runtime: Arc<dyn PodRuntime>,
    pub options: Options,
    pub starts: Semaphore,
    pub ledger: Ledger,
    pub followers: Followers,
}

/// What a worker knows besides what the runtime tells.
struct Worker<'a> {
    shared: &'a Arc<Shared>,
    wake: &'a Arc<Notify>,
    uid: &'a str,
    /// The newest version of the pod: the cache's, or the answer to our last write.
    written: Option<Arc<Object>>,
    refused: BTreeMap<String, Refused>,
    /// Runs that were asked to stop, and the grace they were given.
    stopping: BTreeMap<ContainerId, Duration>,
    stops: JoinSet<(ContainerId, Result<(), Refusal>)>,
    /// Runs whose hook after the start has not ended.
    hooked: BTreeSet<ContainerId>,
    hooks: JoinSet<(ContainerId, Result<(), String>)>,
    /// Of the runs that are probed; `None` where there is nothing to ask.
    probes: BTreeMap<ContainerId, Option<Probes>>,
    /// Runs whose back-off was told of.
    backed_off: BTreeSet<ContainerId>,
    prepared: Option<prepare::Prepared>,
    /// Why that was not made, or not again, and how often.
    unprepared: Option<(Refusal, u32)>,
    /// Whether this node takes the pod.
    admitted: Option<Result<(), Refusal>>,
    ending_since: Option<Timestamp>,
    /// What the runs that ended had to say.
    messages: BTreeMap<ContainerId, String>,
}

/// What becomes of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Nothing of the pod is left.
    Ended,
    /// The pod is over and waits to be deleted; nothing is to be done for it until it changes.
    Parked,
}

/// What follows a step.
enum After {
    Wait(Wake),
    Rest(Rest),
}

pub async fn run(shared: &Arc<Shared>, uid: &str, name: &Name, wake: &Arc<Notify>) -> Rest {
    let mut worker = Worker {
        shared,
        wake,
        uid,
        written: None,
        refused: BTreeMap::new(),
        stopping: BTreeMap::new(),
        stops: JoinSet::new(),
        hooked: BTreeSet::new(),
        hooks: JoinSet::new(),
        probes: BTreeMap::new(),
        backed_off: BTreeSet::new(),
        prepared: None,
        unprepared: None,
        admitted: None,
        ending_since: None,
        messages: BTreeMap::new(),
    };
    while let Some(pod) = worker.pod(name) {
        let after = match worker.step(&pod).await {
            Ok(After::Wait(after)) => after,
            Ok(After::Rest(Rest::Ended)) => break,
            Ok(After::Rest(Rest::Parked)) => {
                worker.park();
                return Rest::Parked;
            }
            Err(error) => {
                tracing::debug!(pod = %name, error = %error.chain(), "not reported");
                Wake::After(RETRY)
            }
        };
        let later = async {
            match after {
                Wake::OnChange => std::future::pending().await,
                Wake::After(after) => tokio::time::sleep(after).await,
            }
        };
        tokio::select! {
            () = wake.notified() => {}
            Some(Ok((id, stopped))) = worker.stops.join_next() => {
                worker.has_stopped(&pod, &id, stopped).await;
            }
            Some(Ok((id, ran))) = worker.hooks.join_next() => {
                worker.has_run_hook(&pod, &id, ran).await;
            }
            () = later => {}
        }
    }
    worker.end().await;
    Rest::Ended
}

impl Worker<'_> {
    /// The pod, if it is still the one.
    fn pod(&self, name: &Name) -> Option<Arc<Object>> {
        let held = self.shared.context.cache(POD).get(name);
        let held = held.filter(|pod| pod.uid == self.uid)?;
        let written = self.written.clone().filter(|written| written.revision > held.revision);
        Some(written.unwrap_or(held))
    }

    /// Looks once and does what is due.
    async fn step(&mut self, pod: &Arc<Object>) -> Result<After, Error> {
        let environment = &self.shared.context.environment;
        self.admit(pod).await;
        let mut wake = self.prepare(pod).await;
        let mut pod = pod.clone();
        loop {
            self.probe(&pod);
            let observed = self.observe(&pod);
            let next = next(&pod, &observed, environment.now());
            if let Some(written) = self.report(&pod, &observed, &next).await? {
                pod = written;
            }
            if next.is_still && next.stage == Stage::Terminating {
                return self.delete(&pod).await.map(|()| After::Rest(Rest::Ended));
            }
            if next.is_still && spec::is_over(&pod) && next.deeds.is_empty() {
                return Ok(After::Rest(Rest::Parked));
            }
            wake = wake.or_earlier(next.wake);
            self.tell_of_back_off(&pod, &observed).await;
            if !self.act(&pod, next.deeds).await {
                return Ok(After::Wait(wake));
            }
        }
    }

    /// Asks once whether this node takes the pod.
    async fn admit(&mut self, pod: &Object) {
        if self.admitted.is_some() {
            return;
        }
        let name = Name::new("", self.shared.options.node.as_str());
        let node = self.shared.context.cache(NODE).get(&name);
        let admitted = self.shared.ledger.admit(pod, node.as_deref());
        if let Err(refusal) = &admitted {
            self.say(pod, Notice::warning(refusal.reason, refusal.message.clone())).await;
        }
        self.admitted = Some(admitted);
    }

    fn observe(&mut self, pod: &Object) -> Observed {
        let now = self.shared.context.environment.now();
        let mut containers: BTreeMap<String, Seen> = BTreeMap::new();
        let runs = self.shared.runtime.of_pod(self.uid);
        self.messages.retain(|id, _| runs.iter().any(|run| run.id == *id));
        for spec in spec::containers(pod) {
            let refused = self.refused.get(spec.name).cloned();
            let mut seen = Seen { refused, ..Seen::default() };
            for run in runs.iter().filter(|run| run.id.name == spec.name) {
                seen.is_stopping = self.is_stopping(pod, &run.id);
                seen.health = self.health(&run.id);
                if let State::Exited(exit) = &run.state {
                    let message = self.message(pod, &spec, (&run.id, exit));
                    seen.messages.insert(run.id.attempt, message);
                }
                seen.runs.push(run.clone());
            }
            if seen.runs.is_empty()
                && let Some((run, message)) = lost(pod, spec.name, now)
            {
                seen.messages.extend(message.map(|message| (run.id.attempt, message)));
                seen.runs.push(run);
            }
            containers.insert(spec.name.to_owned(), seen);
        }
        let unprepared = self.unprepared.as_ref().filter(|_| self.prepared.is_none());
        Observed {
            containers,
            volumes: unprepared.map(|(why, _)| why.clone()),
            sandbox: self.shared.runtime.sandbox_of(self.uid),
            rejected: self.admitted.clone().and_then(Result::err),
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
    fn probe(&mut self, pod: &Arc<Object>) {
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
        let given = self.stopping.get(id);
        given.is_some_and(|given| {
            !pod.is_terminating() || *given <= spec::grace(pod).max(GONE_GRACE)
        })
    }

    /// Makes what containers need before they start, and keeps it up to date.
    async fn prepare(&mut self, pod: &Object) -> Wake {
        let is_taken = matches!(self.admitted, Some(Ok(())));
        if pod.is_terminating() || spec::is_over(pod) || !is_taken {
            return Wake::OnChange;
        }
        let before = self.prepared.as_ref();
        if let Some(wake) = before.and_then(|prepared| prepared.lasts(self.shared, pod)) {
            return wake;
        }
        let mut made = prepare::prepare(self.shared, (pod, self.wake), before).await;
        if made.is_ok()
            && let Err(refusal) = sandbox::make(self.shared, pod).await
        {
            made = Err(refusal);
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

    /// Writes what is different in the status.
    async fn report(
        &mut self,
        pod: &Arc<Object>,
        observed: &Observed,
        next: &Next,
    ) -> Result<Option<Arc<Object>>, Error> {
        let context = &self.shared.context;
        let address = self.shared.options.address.to_string();
        let place = status::Place { address, runtime: self.shared.runtime.name() };
        let now = context.environment.now();
        let changes = status::changes(pod, observed, (next.stage, &place), now);
        if changes.is_empty() {
            return Ok(None);
        }
        let target = Target::unchanged(POD, pod).part("status");
        let patch = json!({"status": Value::Object(changes)});
        let requests = context.requests(MANAGER, Default::default());
        let written = Arc::new(requests.patch(&target, &patch).await?);
        self.written = Some(written.clone());
        Ok(Some(written))
    }

    /// Says once for each run that it ended too soon to be started at once.
    async fn tell_of_back_off(&mut self, pod: &Object, observed: &Observed) {
        let now = self.shared.context.environment.now();
        for spec in spec::containers(pod) {
            let Some(seen) = observed.containers.get(spec.name) else { continue };
            let Some(run) = seen.runs.last() else { continue };
            let waits = matches!(fate(seen, &spec, now), Fate::Wait { .. });
            if pod.is_terminating() || !waits || !self.backed_off.insert(run.id.clone()) {
                continue;
            }
            let message = format!(
                "Back-off restarting failed container {} in pod {}_{}({})",
                spec.name, pod.name.name, pod.name.namespace, pod.uid
            );
            self.say(pod, Notice::warning("BackOff", message)).await;
        }
        let runs = self.shared.runtime.of_pod(self.uid);
        self.backed_off.retain(|id| runs.iter().any(|run| run.id == *id));
    }

    /// Does what was decided. True if it changed what would be decided next.
    async fn act(&mut self, pod: &Arc<Object>, deeds: Vec<Deed>) -> bool {
        let mut is_changed = false;
        for deed in deeds {
            match deed {
                Deed::Start { name, attempt, failures } => {
                    self.start(pod, &name, (attempt, failures)).await;
                    is_changed = true;
                }
                Deed::Stop { name, attempt, grace, why } => {
                    if why == Why::PodEnds && self.ending_since.is_none() {
                        self.ending_since = Some(self.shared.context.environment.now());
                    }
                    let message = said_of_stop(&name, why);
                    let id = ContainerId::new(self.uid, &name, attempt);
                    self.stop(pod, id, (grace, message)).await;
                }
                Deed::Forget { name, attempt } => {
                    let id = ContainerId::new(self.uid, &name, attempt);
                    self.shared.runtime.remove(&id).await;
                    termination::forget(&prepare::directory(self.shared, self.uid), &id);
                }
            }
        }
        is_changed
    }

    async fn start(&mut self, pod: &Arc<Object>, name: &str, (attempt, failures): (u32, u32)) {
        let specs = spec::containers(pod);
        let Some(spec) = specs.iter().find(|spec| spec.name == name) else { return };
        let id = ContainerId::new(self.uid, name, attempt);
        match self.try_start(pod, spec, (id, failures)).await {
            Ok(()) => {
                self.refused.remove(name);
                self.say(pod, Notice::normal("Created", format!("Created container: {name}")))
                    .await;
                self.say(pod, Notice::normal("Started", format!("Started container {name}"))).await;
            }
            Err(refusal) => {
                let times = self.refused.get(name).map_or(0, |refused| refused.times) + 1;
                let message = format!("Error: {}", refusal.message);
                self.say(pod, Notice::warning("Failed", message)).await;
                self.refuse(spec, refusal, times);
            }
        }
    }

    fn refuse(&mut self, spec: &Spec<'_>, refusal: Refusal, times: u32) {
        let (at, image) = (self.shared.context.environment.now(), spec.image().to_owned());
        self.refused.insert(spec.name.to_owned(), Refused { refusal, at, times, image });
    }

    async fn try_start(
        &mut self,
        pod: &Arc<Object>,
        spec: &Spec<'_>,
        (id, failures): (ContainerId, u32),
    ) -> Result<(), Refusal> {
        let missing = || Refusal {
            reason: "CreateContainerConfigError",
            message: "its volumes are not there yet".to_owned(),
        };
        let prepared = self.prepared.as_ref().ok_or_else(missing)?;
        let mut container = prepare::container(pod, spec.value, prepared, (id, failures))?;
        for (name, value) in self.shared.options.devices.variables((self.uid, spec.value))? {
            if !container.env.iter().any(|(known, _)| known == name) {
                container.env.push((name.to_owned(), value));
            }
        }
        sandbox::add_files(self.shared, pod, &mut container);
        {
            let _permit = self.shared.starts.acquire().await;
            self.shared.runtime.start(&container).await?;
        }
        let hook = &spec.value["lifecycle"]["postStart"];
        if hook.is_object() {
            self.hooked.insert(container.id.clone());
            let (shared, own) = (self.shared.clone(), spec.value.clone());
            self.hooks.spawn(hooks::after_start(shared, container.id, own));
        }
        Ok(())
    }

    /// A hook after the start has ended: its container counts as started, or has to go.
    async fn has_run_hook(&mut self, pod: &Arc<Object>, id: &ContainerId, ran: Result<(), String>) {
        self.hooked.remove(id);
        let Err(why) = ran else { return };
        self.say(pod, Notice::warning("FailedPostStartHook", "PostStartHook failed")).await;
        let specs = spec::containers(pod);
        let Some(spec) = specs.iter().find(|spec| spec.name == id.name) else { return };
        let runs = self.shared.runtime.of_pod(self.uid);
        let failures = runs.iter().find(|run| run.id == *id).map_or(0, |run| run.failures);
        let refusal = Refusal { reason: "PostStartHookError", message: why };
        self.refuse(spec, refusal, failures);
        self.stop(pod, id.clone(), (spec::grace(pod), "FailedPostStartHook".to_owned())).await;
    }

    async fn stop(
        &mut self,
        pod: &Arc<Object>,
        id: ContainerId,
        (grace, message): (Duration, String),
    ) {
        let is_first = self.stopping.insert(id.clone(), grace).is_none();
        if is_first {
            self.say(pod, Notice::normal("Killing", message)).await;
        }
        let (shared, pod) = (self.shared.clone(), pod.clone());
        self.stops.spawn(async move {
            let left = match is_first {
                true => hooks::before_stop(&shared, &pod, &id, grace).await,
                // It was told already, and has less time than it was told.
                false => grace,
            };
            let stopped = shared.runtime.stop(&id, left).await;
            (id, stopped)
        });
    }

    /// What could not be stopped is tried again.
    async fn has_stopped(&mut self, pod: &Object, id: &ContainerId, stopped: Result<(), Refusal>) {
        let Err(refusal) = stopped else { return };
        self.stopping.remove(id);
        let message = format!("error killing pod: {}", refusal.message);
        self.say(pod, Notice::warning("FailedKillPod", message)).await;
    }

    async fn say(&self, pod: &Object, notice: Notice) {
        say(self.shared, pod, notice).await;
    }

    /// Nothing of the pod runs: its object may go.
    async fn delete(&self, pod: &Object) -> Result<(), Error> {
        let requests = self.shared.context.requests(MANAGER, Default::default());
        let options = Deletion { grace_seconds: Some(0), ..Deletion::default() };
        match requests.delete(&Target::of(POD, pod), &options).await {
            Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error),
            _ => Ok(()),
        }
    }

    /// The pod is over: what it had is free for others, and its volumes are nobody's.
    fn park(&self) {
        self.shared.ledger.release(self.uid);
        self.shared.options.devices.release(self.uid);
        prepare::remove(self.shared, self.uid);
    }

    /// Ends what is left of a pod, and forgets it.
    async fn end(&mut self) {
        let runtime = &self.shared.runtime;
        let runs = runtime.of_pod(self.uid);
        let stops = runs.iter().map(|run| runtime.stop(&run.id, GONE_GRACE));
        for refusal in futures::future::join_all(stops).await.into_iter().filter_map(Result::err) {
            tracing::warn!(pod = self.uid, %refusal, "not stopped");
        }
        runtime.remove_pod(self.uid).await;
        self.park();
        let at = conditions::time(self.shared.context.environment.now());
        tracing::debug!(pod = self.uid, at, "pod ended");
    }
}

fn said_of_stop(name: &str, why: Why) -> String {
    let because = match why {
        Why::PodEnds => return format!("Stopping container {name}"),
        Why::Unhealthy => "failed liveness probe",
        Why::Unstarted => "failed startup probe",
        Why::Changed => "definition changed",
    };
    format!("Container {name} {because}, will be restarted")
}

/// Tells people of something that happened to a pod.
pub async fn say(shared: &Shared, pod: &Object, notice: Notice) {
    let context = &shared.context;
    let requests = context.requests(MANAGER, Default::default());
    let now = context.environment.now();
    context.recorder.record(&requests, (POD, pod), &notice, now).await;
}
