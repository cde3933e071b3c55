//! What a worker does to containers: starts and stops them, with their hooks.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use reconcile::plan::Notice;
use reconcile::{Object, Wake};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::{Shared, Stuck, Worker};
use crate::devices::Sight;
use crate::image::Found;
use crate::pod::lifecycle::{Deed, Refused, Why};
use crate::pod::restart::{self, between};
use crate::pod::spec::{self, Spec};
use crate::pod::{ephemeral, hooks, images, prepare, sandbox, termination};
use crate::runtime::{ContainerId, ContainerSpec, Refusal};

/// How long a start keeps others waiting, where many start at once.
const PLACE_MAX: Duration = Duration::from_secs(2);
/// How long until what could not be stopped is tried again, at first and at the most.
const STOP_RETRY: Duration = Duration::from_secs(1);
const STOP_RETRY_MAX: Duration = Duration::from_secs(60);
/// Longest delay of a stop until the pod has left the rules of Services.
const WITHDRAWAL_MAX: Duration = Duration::from_secs(1);

impl Worker<'_> {
    /// Does what was decided. True if it changed what would be decided next.
    pub(super) async fn act(&mut self, pod: &Arc<Object>, deeds: Vec<Deed>) -> bool {
        let mut is_changed = false;
        for deed in deeds {
            match deed {
                Deed::Start { name, attempt, failures } => {
                    is_changed |= self.start(pod, &name, (attempt, failures)).await;
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

    /// Starts a container whose image is here; else sees to that first. True if it was tried.
    async fn start(
        &mut self,
        pod: &Arc<Object>,
        name: &str,
        (attempt, failures): (u32, u32),
    ) -> bool {
        let specs = ephemeral::and_others(pod);
        let Some(spec) = specs.iter().find(|spec| spec.name == name) else { return true };
        let image = match self.pulled.remove(name) {
            Some((image, found)) if image == spec.image() => found,
            _ if self.shared.runtime.image_store().is_some() => {
                self.look_for_image(pod, spec);
                return false;
            }
            _ => None,
        };
        let id = ContainerId::new(self.uid, name, attempt);
        match self.try_start(pod, (spec, image.as_ref()), (id, failures)).await {
            Ok(()) => {
                self.refused.remove(name);
                self.say(pod, Notice::normal("Created", format!("Created container: {name}")))
                    .await;
                self.say(pod, Notice::normal("Started", format!("Started container {name}"))).await;
            }
            Err(refusal) => self.was_refused(pod, spec, refusal, Some(attempt)).await,
        }
        true
    }

    async fn was_refused(
        &mut self,
        pod: &Object,
        spec: &Spec<'_>,
        refusal: Refusal,
        attempt: Option<u32>,
    ) {
        let times = self.refused.get(spec.name).map_or(0, |refused| refused.times) + 1;
        let told = match images::is_about_image(&refusal) {
            true => refusal.reason,
            false => &refusal.message,
        };
        self.say(pod, Notice::warning("Failed", format!("Error: {told}"))).await;
        self.refuse(spec, refusal, times, attempt);
    }

    /// Nobody waits for it: the pod may be deleted meanwhile.
    fn look_for_image(&mut self, pod: &Arc<Object>, spec: &Spec<'_>) {
        if !self.pulling.insert(spec.name.to_owned()) {
            return;
        }
        let name = spec.name.to_owned();
        let (shared, pod, container) = (self.shared.clone(), pod.clone(), spec.value.clone());
        let broken = |message| Err(Refusal { reason: images::PULL_FAILED, message });
        let ensure = images::ensure(shared, pod, container);
        self.pulls.spawn(async move { (name, unbroken(ensure).await.unwrap_or_else(broken)) });
    }

    /// The image of a container is here, or is not.
    pub(super) async fn has_pulled(
        &mut self,
        pod: &Arc<Object>,
        name: &str,
        ensured: Result<Option<Found>, Refusal>,
    ) {
        self.pulling.remove(name);
        let specs = ephemeral::and_others(pod);
        let Some(spec) = specs.iter().find(|spec| spec.name == name) else { return };
        match ensured {
            Ok(found) => {
                self.pulled.insert(name.to_owned(), (spec.image().to_owned(), found));
            }
            Err(refusal) => {
                self.was_refused(pod, spec, refusal, None).await;
                self.await_image(spec);
            }
        }
    }

    /// Somebody may load what cannot be pulled; that is not waited for until the next pull.
    fn await_image(&mut self, spec: &Spec<'_>) {
        let is_pulled_anyway = spec.value["imagePullPolicy"] == "Always";
        if !is_pulled_anyway && self.awaited.insert(spec.name.to_owned()) {
            let (name, shared) = (spec.name.to_owned(), self.shared.clone());
            let image = spec.image().to_owned();
            self.arrivals.spawn(async move {
                images::arrives(&shared, &image).await;
                name
            });
        }
    }

    /// The image of a container has come without us.
    pub(super) fn has_arrived(&mut self, name: &str) {
        self.awaited.remove(name);
        if self.refused.get(name).is_some_and(|it| images::is_about_image(&it.refusal)) {
            self.refused.remove(name);
        }
    }

    /// That a pull failed is said for a moment; then that the next one waits.
    pub(super) async fn tell_of_waiting_pulls(&mut self, pod: &Arc<Object>) -> Wake {
        let now = self.shared.context.environment.now();
        let mut wake = Wake::OnChange;
        let mut told = Vec::new();
        for refused in self.refused.values_mut() {
            if refused.refusal.reason != images::PULL_FAILED {
                continue;
            }
            match images::FAILURE_SHOWN.checked_sub(between(refused.at, now)) {
                Some(left) if !left.is_zero() => wake = wake.or_earlier(Wake::After(left)),
                _ => {
                    refused.refusal = images::waits(&refused.image, &refused.refusal);
                    told.push(images::said_of_wait(&refused.image));
                    wake = Wake::After(Duration::ZERO);
                }
            }
        }
        for message in told {
            self.say(pod, Notice::normal("BackOff", message)).await;
            self.say(pod, Notice::warning("Failed", format!("Error: {}", images::PULL_WAITS)))
                .await;
        }
        wake
    }

    fn refuse(&mut self, spec: &Spec<'_>, refusal: Refusal, times: u32, attempt: Option<u32>) {
        let (at, image) = (self.shared.context.environment.now(), spec.image().to_owned());
        let refused = Refused { refusal, at, times, image, attempt };
        self.refused.insert(spec.name.to_owned(), refused);
    }

    fn count_start(&mut self, spec: &Spec<'_>) {
        let now = self.shared.context.environment.now();
        let starts = restart::count_start(self.starts.get(spec.name), spec.image(), now);
        self.starts.insert(spec.name.to_owned(), starts);
    }

    async fn try_start(
        &mut self,
        pod: &Arc<Object>,
        (spec, image): (&Spec<'_>, Option<&Found>),
        (id, failures): (ContainerId, u32),
    ) -> Result<(), Refusal> {
        let missing = || Refusal {
            reason: "CreateContainerConfigError",
            message: "its volumes are not there yet".to_owned(),
        };
        let prepared = self.prepared.as_ref().ok_or_else(missing)?;
        let mut container =
            prepare::container(self.shared, pod, spec.value, (prepared, image), (id, failures))
                .await?;
        let sight = if image.is_some() { Sight::Own } else { Sight::All };
        let given = self.shared.options.devices.give((self.uid, spec.value), sight)?;
        container.gpus = given.gpus;
        for (name, value) in given.variables {
            if !container.env.iter().any(|(known, _)| known == name) {
                container.env.push((name.to_owned(), value));
            }
        }
        sandbox::add_files(self.shared, pod, &mut container);
        self.count_start(spec);
        in_turn(&self.shared.starts, self.shared.runtime.start(&container)).await?;
        if let (0, Some(message)) = (container.id.attempt, self.said_of_score(&container)) {
            self.say(pod, Notice::warning("OOMScoreRaised", message)).await;
        }
        let hook = &spec.value["lifecycle"]["postStart"];
        if hook.is_object() {
            self.hooked.insert(container.id.clone());
            let (shared, own) = (self.shared.clone(), spec.value.clone());
            let id = container.id.clone();
            let hook = hooks::after_start(shared, container.id, own);
            self.hooks.spawn(async move { (id, unbroken(hook).await.unwrap_or_else(Err)) });
        }
        Ok(())
    }

    /// What is said of a container that is killed more willingly than it should be.
    fn said_of_score(&self, container: &ContainerSpec) -> Option<String> {
        let (wanted, lowest) = (container.limits.oom_score, self.shared.runtime.oom_score_min());
        let name = &container.id.name;
        (wanted < lowest).then(|| {
            format!(
                "Container {name} has oom_score_adj {lowest} in place of {wanted}, which this node \
                 may not give"
            )
        })
    }

    /// A hook after the start has ended: its container counts as started, or has to go.
    pub(super) async fn has_run_hook(
        &mut self,
        pod: &Arc<Object>,
        id: &ContainerId,
        ran: Result<(), String>,
    ) {
        self.hooked.remove(id);
        let Err(why) = ran else { return };
        self.say(pod, Notice::warning("FailedPostStartHook", "PostStartHook failed")).await;
        let specs = spec::containers(pod);
        let Some(spec) = specs.iter().find(|spec| spec.name == id.name) else { return };
        let runs = self.shared.runtime.of_pod(self.uid);
        let failures = runs.iter().find(|run| run.id == *id).map_or(0, |run| run.failures);
        let refusal = Refusal { reason: "PostStartHookError", message: why };
        self.refuse(spec, refusal, failures, Some(id.attempt));
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
        if let Some(stuck) = self.stuck.get_mut(&id) {
            stuck.again = None;
        }
        let (shared, pod, own) = (self.shared.clone(), pod.clone(), id.clone());
        let stop = async move {
            let left = match is_first {
                true => prepare_stop(&shared, &pod, &own, grace).await,
                // It was told already: it has less time than it was told, or did not end.
                false => grace,
            };
            shared.runtime.stop(&own, left).await
        };
        let broken = |message| Err(Refusal { reason: "KillContainerError", message });
        self.stops.spawn(async move { (id, unbroken(stop).await.unwrap_or_else(broken)) });
    }

    /// What could not be stopped is tried again, ever later.
    pub(super) async fn has_stopped(
        &mut self,
        pod: &Object,
        id: &ContainerId,
        stopped: Result<(), Refusal>,
    ) {
        let Err(refusal) = stopped else {
            self.stuck.remove(id);
            return;
        };
        let times = self.stuck.get(id).map_or(0, |stuck| stuck.times);
        let delay = STOP_RETRY.saturating_mul(1 << times.min(16)).min(STOP_RETRY_MAX);
        let again = Some(Instant::now() + delay);
        self.stuck.insert(id.clone(), Stuck { times: times + 1, again });
        let message = format!("error killing pod: {}", refusal.message);
        self.say(pod, Notice::warning("FailedKillPod", message)).await;
    }
}

/// Runs the hook before the end, and keeps the container of a deleted pod running until Services
/// send it no new connections. Returns the rest of the grace period.
async fn prepare_stop(
    shared: &Shared,
    pod: &Object,
    id: &ContainerId,
    grace: Duration,
) -> Duration {
    let began = Instant::now();
    let withdrawn = async {
        if let (true, Some(connected)) = (pod.is_terminating(), &shared.options.network) {
            let limit = WITHDRAWAL_MAX.min(grace);
            connected.network.wait_until_withdrawn(&id.pod, limit).await;
        }
    };
    let (left, ()) = tokio::join!(hooks::before_stop(shared, pod, id, grace), withdrawn);
    left.min(grace.saturating_sub(began.elapsed()).max(hooks::GRACE_MIN))
}

/// What came of something that is done beside the worker. It may break off by a defect of ours:
/// whoever waits for it has to learn of that, too.
async fn unbroken<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let ran = AssertUnwindSafe(work).catch_unwind().await;
    ran.map_err(|_| "it broke off by a defect of this program".to_owned())
}

/// Starts when there is room. One that takes long gives its place away: a runtime that hangs on
/// some containers holds up no others.
async fn in_turn(
    places: &Semaphore,
    start: impl Future<Output = Result<(), Refusal>>,
) -> Result<(), Refusal> {
    let place = places.acquire().await;
    let mut start = pin!(start);
    if let Ok(started) = tokio::time::timeout(PLACE_MAX, &mut start).await {
        return started;
    }
    drop(place);
    start.await
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
