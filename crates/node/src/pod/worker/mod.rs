//! Carries one pod through its life: looks, decides (`lifecycle.rs`), does, reports, waits.
//!
//! A worker waits for nobody but its own pod. It ends when nothing of the pod is left.

mod deeds;
mod observe;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::plan::{Deletion, Notice, Target};
use reconcile::{Error, Name, Object, Wake, conditions};
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::admission::Ledger;
use super::follow::Followers;
use super::lifecycle::{Deed, Next, Observed, Refused, Stage, Starts, next};
use super::probes::Probes;
use super::restart::{Fate, fate};
use super::spec;
use super::{prepare, status};
use crate::agent::Options;
use crate::failpoints::reached;
use crate::image::{Found, Garbage};
use crate::register::MANAGER;
use crate::runtime::{ContainerId, PodRuntime, Refusal};
use crate::simulated::POD;

/// How long until a write that failed is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// What a pod that is gone without a word gets to end.
const GONE_GRACE: Duration = Duration::from_secs(2);
/// What all workers share.
pub struct Shared {
    pub context: reconcile::Context,
    pub runtime: Arc<dyn PodRuntime>,
    pub options: Options,
    pub starts: Semaphore,
    /// One for each image that is pulled.
    pub pulls: Semaphore,
    /// What was pulled, and may go.
    pub garbage: Garbage,
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
    /// Start requests, by container.
    starts: BTreeMap<String, Starts>,
    /// Runs that were asked to stop, and the grace they were given.
    stopping: BTreeMap<ContainerId, Duration>,
    /// Those of them that did not.
    stuck: BTreeMap<ContainerId, Stuck>,
    stops: JoinSet<(ContainerId, Result<(), Refusal>)>,
    /// Runs whose hook after the start has not ended.
    hooked: BTreeSet<ContainerId>,
    hooks: JoinSet<(ContainerId, Result<(), String>)>,
    /// Containers whose image is looked for or pulled.
    pulling: BTreeSet<String>,
    pulls: JoinSet<(String, Result<Option<Found>, Refusal>)>,
    /// Containers whose image may come without us.
    awaited: BTreeSet<String>,
    arrivals: JoinSet<String>,
    /// The images that are here for the next start of a container.
    pulled: BTreeMap<String, (String, Option<Found>)>,
    /// Of the runs that are probed; `None` where there is nothing to ask.
    probes: BTreeMap<ContainerId, Option<Probes>>,
    /// Runs whose back-off was told of.
    backed_off: BTreeSet<ContainerId>,
    prepared: Option<prepare::Prepared>,
    /// Why that was not made, or not again, and how often.
    unprepared: Option<(Refusal, u32)>,
    /// Whether this node takes the pod.
    admitted: Option<Result<(), Refusal>>,
    evicted: Option<Refusal>,
    /// When its volumes were last looked at.
    measured: Option<Instant>,
    ending_since: Option<Timestamp>,
    /// What the runs that ended had to say.
    messages: BTreeMap<ContainerId, String>,
    /// Nothing is left here of a pod that goes; only its object is.
    is_cleared: bool,
}

/// A run that could not be stopped.
struct Stuck {
    times: u32,
    /// When it is tried again; `None` while it is.
    again: Option<Instant>,
}

/// What becomes of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Nothing of the pod is left.
    Ended,
    /// The pod is over and waits to be deleted; nothing is to be done for it until it changes.
    Parked,
    /// The worker broke off, by a defect of ours. The pod needs another.
    Broken,
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
        starts: BTreeMap::new(),
        stopping: BTreeMap::new(),
        stuck: BTreeMap::new(),
        stops: JoinSet::new(),
        hooked: BTreeSet::new(),
        hooks: JoinSet::new(),
        pulling: BTreeSet::new(),
        pulls: JoinSet::new(),
        awaited: BTreeSet::new(),
        arrivals: JoinSet::new(),
        pulled: BTreeMap::new(),
        probes: BTreeMap::new(),
        backed_off: BTreeSet::new(),
        prepared: None,
        unprepared: None,
        admitted: None,
        evicted: None,
        measured: None,
        ending_since: None,
        messages: BTreeMap::new(),
        is_cleared: false,
    };
    while let Some(pod) = worker.pod(name) {
        let after = match worker.step(&pod).await {
            Ok(After::Wait(after)) => after,
            Ok(After::Rest(Rest::Parked)) => {
                worker.park().await;
                return Rest::Parked;
            }
            Ok(After::Rest(rest)) => return rest,
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
            Some(Ok((container, ensured))) = worker.pulls.join_next() => {
                worker.has_pulled(&pod, &container, ensured).await;
            }
            Some(Ok(container)) = worker.arrivals.join_next() => worker.has_arrived(&container),
            () = later => {}
        }
    }
    worker.end().await;
    Rest::Ended
}

/// Whether the end of a run is not to be told because another begins at once. In a pod that
/// restarts nothing the server lets no container back from its end; another image begins a run.
fn is_followed(pod: &Object, next: &Next) -> bool {
    let begins = |deed: &Deed| matches!(deed, Deed::Start { attempt, .. } if *attempt > 0);
    pod.value["spec"]["restartPolicy"] == "Never" && next.deeds.iter().any(begins)
}

/// Whether what is due may be done though it could not be told: not for a pod that is another by
/// now or was never told of.
fn outlasts(error: &Error, pod: &Object) -> bool {
    let is_old = error.is_conflict() || error.is_not_found();
    !is_old && pod.value["status"]["startTime"].is_string()
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
        if self.is_cleared {
            return self.delete(pod).await.map(|()| After::Rest(Rest::Ended));
        }
        self.admit(pod).await;
        let mut wake = self.prepare(pod).await;
        wake = wake.or_earlier(self.measure(pod).await);
        wake = wake.or_earlier(self.until_stops_again());
        let mut pod = pod.clone();
        loop {
            self.probe(&pod);
            let observed = self.observe(&pod);
            let next = next(&pod, &observed, environment.now());
            if next.is_still {
                // Whoever reads that it has ended may send another in its place at once.
                self.release();
            }
            let reported = match is_followed(&pod, &next) {
                true => Ok(None),
                false => self.report(&pod, &observed, &next).await,
            };
            match reported {
                Ok(Some(written)) => pod = written,
                Ok(None) => {}
                Err(error) if !outlasts(&error, &pod) => return Err(error),
                Err(error) => {
                    // What the server does not hear of is due all the same.
                    self.act(&pod, next.deeds).await;
                    return Err(error);
                }
            }
            if next.is_still && next.stage == Stage::Terminating {
                // Nobody may find the object gone while something is left that stands in the way.
                self.clear().await;
                reached("pod:cleared");
                return self.delete(&pod).await.map(|()| After::Rest(Rest::Ended));
            }
            if next.is_still && spec::is_over(&pod) && next.deeds.is_empty() {
                return Ok(After::Rest(Rest::Parked));
            }
            wake = wake.or_earlier(next.wake);
            self.tell_of_back_off(&pod, &observed).await;
            wake = wake.or_earlier(self.tell_of_waiting_pulls(&pod).await);
            if !self.act(&pod, next.deeds).await {
                return Ok(After::Wait(wake));
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
        reached("pod:reported");
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

    async fn say(&self, pod: &Object, notice: Notice) {
        say(self.shared, pod, notice).await;
    }

    /// Nothing of the pod runs: its object may go.
    async fn delete(&self, pod: &Object) -> Result<(), Error> {
        let requests = self.shared.context.requests(MANAGER, Default::default());
        let options = Deletion { grace_seconds: Some(0), ..Deletion::default() };
        let deleted = requests.delete(&Target::of(POD, pod), &options).await;
        reached("pod:deleted");
        match deleted {
            Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error),
            _ => Ok(()),
        }
    }

    /// What the pod had is free for others.
    fn release(&self) {
        self.shared.ledger.release(self.uid);
        self.shared.options.devices.release(self.uid);
        if let Some(connected) = &self.shared.options.network {
            connected.network.release_ports(self.uid);
        }
    }

    /// The pod is over: its volumes are nobody's.
    async fn park(&self) {
        self.release();
        self.shared.options.pressure.forget(self.uid);
        prepare::remove(self.shared, self.uid).await;
    }

    /// Takes away all that is left here of a pod of which nothing runs.
    async fn clear(&mut self) {
        self.shared.runtime.remove_pod(self.uid).await;
        self.park().await;
        self.is_cleared = true;
    }

    /// Ends what is left of a pod, and forgets it.
    async fn end(&mut self) {
        let runtime = &self.shared.runtime;
        let runs = runtime.of_pod(self.uid);
        let stops = runs.iter().map(|run| runtime.stop(&run.id, GONE_GRACE));
        for refusal in futures::future::join_all(stops).await.into_iter().filter_map(Result::err) {
            tracing::warn!(pod = self.uid, %refusal, "not stopped");
        }
        self.clear().await;
        let at = conditions::time(self.shared.context.environment.now());
        tracing::debug!(pod = self.uid, at, "pod ended");
    }
}

/// Tells people of something that happened to a pod.
pub async fn say(shared: &Shared, pod: &Object, notice: Notice) {
    let context = &shared.context;
    let requests = context.requests(MANAGER, Default::default());
    let now = context.environment.now();
    context.recorder.record(&requests, (POD, pod), &notice, now).await;
}
