//! Carries one pod through its life: looks, decides (`lifecycle.rs`), does, reports, waits.
//!
//! A worker waits for nobody but its own pod. It ends when nothing of the pod is left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use reconcile::plan::{Deletion, Notice, Target};
use reconcile::{Error, Name, Object, Wake, conditions};
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::lifecycle::{Deed, Next, Observed, Refused, Seen, Stage, Why, next};
use super::probes::Probes;
use super::restart::{Fate, fate};
use super::spec::{self, Spec};
use super::{handlers, prepare, sandbox, status};
use crate::agent::Options;
use crate::register::MANAGER;
use crate::runtime::{ContainerId, PodRuntime, Refusal};
use crate::simulated::POD;

/// How long until a write that failed is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// What a pod that is gone without a word gets to end.
const GONE_GRACE: Duration = Duration::from_secs(2);
/// How long until volumes that could not be made are tried again.
const VOLUMES_RETRY: Duration = Duration::from_millis(50);
const VOLUMES_RETRY_MAX: Duration = Duration::from_secs(10);
/// How many times in a row before it is worth an event.
const VOLUMES_PATIENCE: u32 = 3;
/// How often volumes with contents from the API are brought up to date.
const VOLUMES_REFRESH: Duration = Duration::from_secs(60);

/// How long a hook after the start may take.
const HOOK_MAX: Duration = Duration::from_secs(120);

/// What all workers share.
pub struct Shared {
    pub context: reconcile::Context,
    pub runtime: Arc<dyn PodRuntime>,
    pub options: Options,
    pub starts: Semaphore,
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
    stops: JoinSet<()>,
    /// Of the runs that are probed; `None` where there is nothing to ask.
    probes: BTreeMap<ContainerId, Option<Probes>>,
    /// Runs whose back-off was told of.
    backed_off: BTreeSet<ContainerId>,
    prepared: Option<prepare::Prepared>,
    /// When that was made, or why it was not and how often.
    prepared_at: Option<Instant>,
    volumes: Option<(Refusal, u32)>,
}

pub async fn run(shared: &Arc<Shared>, uid: &str, name: &Name, wake: &Arc<Notify>) {
    let mut worker = Worker {
        shared,
        wake,
        uid,
        written: None,
        refused: BTreeMap::new(),
        stopping: BTreeMap::new(),
        stops: JoinSet::new(),
        probes: BTreeMap::new(),
        backed_off: BTreeSet::new(),
        prepared: None,
        prepared_at: None,
        volumes: None,
    };
    while let Some(pod) = worker.pod(name) {
        let after = match worker.step(&pod).await {
            Ok(Some(after)) => after,
            Ok(None) => break,
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
            Some(_) = worker.stops.join_next() => {}
            () = later => {}
        }
    }
    worker.end().await;
}

impl Worker<'_> {
    /// The pod, if it is still the one.
    fn pod(&self, name: &Name) -> Option<Arc<Object>> {
        let held = self.shared.context.cache(POD).get(name);
        let held = held.filter(|pod| pod.uid == self.uid)?;
        let written = self.written.clone().filter(|written| written.revision > held.revision);
        Some(written.unwrap_or(held))
    }

    /// Looks once and does what is due; `None` when the pod is done with.
    async fn step(&mut self, pod: &Arc<Object>) -> Result<Option<Wake>, Error> {
        let environment = &self.shared.context.environment;
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
                return self.delete(&pod).await.map(|()| None);
            }
            wake = wake.or_earlier(next.wake);
            self.tell_of_back_off(&pod, &observed).await;
            if !self.act(&pod, next.deeds).await {
                return Ok(Some(wake));
            }
        }
    }

    fn observe(&self, pod: &Object) -> Observed {
        let mut containers: BTreeMap<String, Seen> = BTreeMap::new();
        for spec in spec::containers(pod) {
            let refused = self.refused.get(spec.name).cloned();
            let seen = Seen { refused, ..Seen::default() };
            containers.insert(spec.name.to_owned(), seen);
        }
        for run in self.shared.runtime.of_pod(self.uid) {
            let Some(seen) = containers.get_mut(&run.id.name) else { continue };
            seen.is_stopping = self.is_stopping(pod, &run.id);
            let probes = self.probes.get(&run.id).and_then(Option::as_ref);
            seen.health = probes.map(Probes::health).unwrap_or_default();
            seen.runs.push(run);
        }
        let volumes = self.volumes.as_ref().map(|(why, _)| why.clone());
        Observed { containers, volumes, sandbox: self.shared.runtime.sandbox_of(self.uid) }
    }

    /// Probes run for what runs, and for nothing else.
    fn probe(&mut self, pod: &Arc<Object>) {
        let runs = self.shared.runtime.of_pod(self.uid);
        let running: Vec<_> = runs.iter().filter(|run| run.is_running()).collect();
        self.probes.retain(|id, _| running.iter().any(|run| run.id == *id));
        for spec in spec::containers(pod) {
            for run in running.iter().filter(|run| run.id.name == spec.name) {
                let (shared, wake) = (self.shared, self.wake);
                self.probes
                    .entry(run.id.clone())
                    .or_insert_with(|| Probes::start((shared, wake), pod, (&run.id, spec.value)));
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
        let phase = pod.value["status"]["phase"].as_str().unwrap_or_default();
        if pod.is_terminating() || ["Succeeded", "Failed"].contains(&phase) {
            return Wake::OnChange;
        }
        if let (Some(prepared), Some(at)) = (&self.prepared, self.prepared_at) {
            let left = VOLUMES_REFRESH.saturating_sub(at.elapsed());
            if !prepared.is_living {
                return Wake::OnChange;
            }
            if !left.is_zero() {
                return Wake::After(left);
            }
        }
        let mut made = prepare::prepare(self.shared, pod, self.prepared.take()).await;
        if made.is_ok()
            && let Err(refusal) = sandbox::make(self.shared, pod).await
        {
            made = Err(refusal);
        }
        match made {
            Ok(prepared) => {
                self.volumes = None;
                let is_living = prepared.is_living;
                self.prepared = Some(prepared);
                self.prepared_at = Some(Instant::now());
                if is_living { Wake::After(VOLUMES_REFRESH) } else { Wake::OnChange }
            }
            Err(refusal) => {
                let times = match &self.volumes {
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
                self.volumes = Some((refusal, times));
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
            let waits = matches!(fate(seen, spec.restart, now), Fate::Wait { .. });
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
                    self.stop(pod, ContainerId::new(self.uid, &name, attempt), grace, why).await;
                }
                Deed::Forget { name, attempt } => {
                    self.shared.runtime.remove(&ContainerId::new(self.uid, &name, attempt)).await;
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
                let at = self.shared.context.environment.now();
                self.refused.insert(name.to_owned(), Refused { refusal, at, times });
            }
        }
    }

    async fn try_start(
        &self,
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
        sandbox::add_files(self.shared, pod, &mut container);
        {
            let _permit = self.shared.starts.acquire().await;
            self.shared.runtime.start(&container).await?;
        }
        let hook = &spec.value["lifecycle"]["postStart"];
        if !hook.is_object() {
            return Ok(());
        }
        let id = &container.id;
        let ran = handlers::run(self.shared, (id, spec.value), hook);
        let ran = tokio::time::timeout(HOOK_MAX, ran).await;
        let Err(why) = ran.unwrap_or_else(|_| Err("it took too long".to_owned())) else {
            return Ok(());
        };
        let message = format!("PostStartHook failed: {why}");
        self.say(pod, Notice::warning("FailedPostStartHook", message.clone())).await;
        self.shared.runtime.stop(id, spec::grace(pod)).await?;
        Err(Refusal { reason: "PostStartHookError", message })
    }

    async fn stop(&mut self, pod: &Arc<Object>, id: ContainerId, grace: Duration, why: Why) {
        let message = match why {
            Why::PodEnds => format!("Stopping container {}", id.name),
            Why::Unhealthy => {
                format!("Container {} failed liveness probe, will be restarted", id.name)
            }
        };
        if self.stopping.insert(id.clone(), grace).is_none() {
            self.say(pod, Notice::normal("Killing", message)).await;
        }
        let (shared, pod) = (self.shared.clone(), pod.clone());
        self.stops.spawn(async move {
            let left = before_stop(&shared, &pod, &id, grace).await;
            if let Err(refusal) = shared.runtime.stop(&id, left).await {
                tracing::warn!(container = id.name, pod = id.pod, %refusal, "not stopped");
            }
        });
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

    /// Ends what is left of a pod, and forgets it.
    async fn end(&mut self) {
        let runtime = &self.shared.runtime;
        let runs = runtime.of_pod(self.uid);
        let stops = runs.iter().map(|run| runtime.stop(&run.id, GONE_GRACE));
        for refusal in futures::future::join_all(stops).await.into_iter().filter_map(Result::err) {
            tracing::warn!(pod = self.uid, %refusal, "not stopped");
        }
        runtime.remove_pod(self.uid).await;
        prepare::remove(self.shared, self.uid);
        let at = conditions::time(self.shared.context.environment.now());
        tracing::debug!(pod = self.uid, at, "pod ended");
    }
}

/// Runs the hook before the end, within the grace period; what is left of that.
async fn before_stop(shared: &Shared, pod: &Object, id: &ContainerId, grace: Duration) -> Duration {
    let specs = spec::containers(pod);
    let Some(spec) = specs.iter().find(|spec| spec.name == id.name) else { return grace };
    let hook = &spec.value["lifecycle"]["preStop"];
    if !hook.is_object() {
        return grace;
    }
    let began = Instant::now();
    let ran = handlers::run(shared, (id, spec.value), hook);
    let ran = tokio::time::timeout(grace, ran).await;
    if let Err(why) = ran.unwrap_or_else(|_| Err("it took too long".to_owned())) {
        let message = format!("PreStopHook failed: {why}");
        say(shared, pod, Notice::warning("FailedPreStopHook", message)).await;
    }
    grace.saturating_sub(began.elapsed()).max(GONE_GRACE)
}

/// Tells people of something that happened to a pod.
pub async fn say(shared: &Shared, pod: &Object, notice: Notice) {
    let context = &shared.context;
    let requests = context.requests(MANAGER, Default::default());
    let now = context.environment.now();
    context.recorder.record(&requests, (POD, pod), &notice, now).await;
}
