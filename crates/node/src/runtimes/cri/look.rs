//! What there is, as the runtime tells it. It is asked after every deed of ours, when it tells that
//! something happened, and, where it tells nothing, every second.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{PoisonError, Weak};
use std::time::Duration;

use futures::future::{Either, select};
use k8s_openapi::jiff::Timestamp;
use tonic::{Code, Status};

use super::Inner;
use super::client::is_missing;
use super::container::{self, labels};
use super::messages::{
    ContainerFilter, ContainerState, ContainerStatus, ContainerStatusRequest,
    ContainerStatusResponse, ListContainersRequest, ListContainersResponse, ListImagesRequest,
    ListImagesResponse, ListPodSandboxRequest, ListPodSandboxResponse, PodSandboxFilter,
    PodSandboxState,
};
use crate::runtime::{Container, ContainerId, Exit, Image, State};

/// How often it is looked where nothing is told.
const POLL: Duration = Duration::from_secs(1);
/// How often where it is: in case that something was not.
const CHECK: Duration = Duration::from_secs(10);
/// How often images are listed.
const IMAGES: Duration = Duration::from_secs(60);

/// What there is.
#[derive(Default)]
pub struct Held {
    /// By UID.
    pub pods: BTreeMap<String, Pod>,
    pub images: Vec<Image>,
    /// Why the runtime does not answer, if it does not.
    pub trouble: Option<String>,
    /// Pods that are to go, which could not be removed yet.
    pub leaving: BTreeSet<String>,
}

/// What there is of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pod {
    /// Its sandboxes; more than one after one broke.
    pub sandboxes: Vec<Made>,
    pub runs: BTreeMap<ContainerId, Run>,
}

/// A sandbox.
#[derive(Clone, Debug, PartialEq)]
pub struct Made {
    pub id: String,
    pub attempt: u32,
    pub is_ready: bool,
    pub host_network: bool,
}

/// A container.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// What the runtime calls it.
    pub native: String,
    /// `None` while it was made only.
    pub container: Option<Container>,
    pub stop_signal: Option<i32>,
}

impl Pod {
    pub fn told(&self) -> Vec<Container> {
        self.runs.values().filter_map(|run| run.container.clone()).collect()
    }

    /// The sandbox that is whole.
    pub fn sandbox(&self) -> Option<&Made> {
        self.sandboxes.iter().rev().find(|made| made.is_ready)
    }
}

impl Inner {
    /// Asks what there is, and tells of what changed.
    pub async fn look(&self) -> Result<(), Status> {
        let _alone = self.looking.lock().await;
        let seen = self.see().await;
        let changed: BTreeSet<String> = {
            let mut held = self.lock();
            match seen {
                Err(status) => {
                    held.trouble = Some(status.message().to_owned());
                    return Err(status);
                }
                Ok(pods) => {
                    held.trouble = None;
                    let before = std::mem::replace(&mut held.pods, pods);
                    let uids = before.keys().chain(held.pods.keys());
                    let differs = |uid: &&String| before.get(*uid) != held.pods.get(*uid);
                    uids.filter(differs).cloned().collect()
                }
            }
        };
        if !changed.is_empty() {
            self.changes.send_modify(|count| *count += 1);
        }
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(listener) = listener {
            changed.iter().for_each(|pod| listener(pod));
        }
        Ok(())
    }

    async fn see(&self) -> Result<BTreeMap<String, Pod>, Status> {
        let ours = labels::ours(&self.options.cluster);
        let filter = PodSandboxFilter { label_selector: ours.clone(), ..Default::default() };
        let request = ListPodSandboxRequest { filter: Some(filter) };
        let sandboxes: ListPodSandboxResponse =
            self.client.runtime("ListPodSandbox", request).await?;
        let filter = ContainerFilter { label_selector: ours, ..Default::default() };
        let request = ListContainersRequest { filter: Some(filter) };
        let containers: ListContainersResponse =
            self.client.runtime("ListContainers", request).await?;
        let mut pods: BTreeMap<String, Pod> = BTreeMap::new();
        for sandbox in sandboxes.items {
            let metadata = sandbox.metadata.unwrap_or_default();
            let made = Made {
                id: sandbox.id,
                attempt: metadata.attempt,
                is_ready: sandbox.state == PodSandboxState::Ready as i32,
                host_network: sandbox.annotations.contains_key(labels::HOST_NETWORK),
            };
            pods.entry(metadata.uid).or_default().sandboxes.push(made);
        }
        for pod in pods.values_mut() {
            pod.sandboxes.sort_by_key(|made| made.attempt);
        }
        for found in containers.containers {
            let Some(id) = container::id_of(&found) else { continue };
            let before = {
                let held = self.lock();
                held.pods.get(&id.pod).and_then(|pod| pod.runs.get(&id)).cloned()
            };
            let run = match before {
                Some(before) if is_same(&before, &found.id, found.state) => before,
                _ => match self.see_container(&id, &found).await {
                    Ok(run) => run,
                    Err(status) if is_missing(&status) => continue,
                    Err(status) => return Err(status),
                },
            };
            pods.entry(id.pod.clone()).or_default().runs.insert(id, run);
        }
        Ok(pods)
    }

    async fn see_container(
        &self,
        id: &ContainerId,
        found: &super::messages::Container,
    ) -> Result<Run, Status> {
        let noted = |name: &str| found.annotations.get(name);
        let stop_signal = noted(labels::STOP_SIGNAL).and_then(|text| text.parse().ok());
        let run = |container| Run { native: found.id.clone(), container, stop_signal };
        if found.state == ContainerState::Created as i32 {
            return Ok(run(None));
        }
        let request = ContainerStatusRequest { container_id: found.id.clone(), verbose: false };
        let answer: ContainerStatusResponse =
            self.client.runtime("ContainerStatus", request).await?;
        let status = answer.status.unwrap_or_default();
        let Some(state) = state(&status) else { return Ok(run(None)) };
        let image = noted(labels::IMAGE).cloned().unwrap_or_default();
        let failures = noted(labels::FAILURES).and_then(|text| text.parse().ok());
        Ok(run(Some(Container {
            id: id.clone(),
            image,
            image_id: status.image_ref,
            native_id: Some(found.id.clone()),
            failures: failures.unwrap_or(0),
            state,
        })))
    }

    pub async fn look_at_images(&self) {
        let listed = self.client.images("ListImages", ListImagesRequest {}).await;
        let Ok(ListImagesResponse { images }) = listed else { return };
        let told = images.into_iter().map(|image| Image {
            names: [image.repo_tags, image.repo_digests].concat(),
            bytes: image.size,
        });
        let told = told.filter(|image| !image.names.is_empty()).collect();
        self.lock().images = told;
    }

    /// Waits until a container does not run, or is not known.
    pub async fn ended(&self, id: &ContainerId) {
        let mut changes = self.changes.subscribe();
        loop {
            let runs = {
                let held = self.lock();
                let run = held.pods.get(&id.pod).and_then(|pod| pod.runs.get(id));
                run.and_then(|run| run.container.as_ref()).is_some_and(Container::is_running)
            };
            if !runs || changes.changed().await.is_err() {
                return;
            }
        }
    }
}

/// Whether nothing happened to a container since it was looked at.
fn is_same(before: &Run, native: &str, state: i32) -> bool {
    let known = match before.container.as_ref().map(|container| &container.state) {
        None => ContainerState::Created,
        Some(State::Running { .. }) => ContainerState::Running,
        Some(State::Exited(_)) => ContainerState::Exited,
    };
    before.native == native && known as i32 == state
}

fn state(status: &ContainerStatus) -> Option<State> {
    let at = |nanoseconds: i64| {
        Timestamp::from_nanosecond(nanoseconds.into()).unwrap_or(Timestamp::UNIX_EPOCH)
    };
    // One that never ran has neither.
    let began = if status.started_at > 0 { status.started_at } else { status.created_at };
    match ContainerState::try_from(status.state) {
        Ok(ContainerState::Created) => None,
        Ok(ContainerState::Running) => Some(State::Running { since: at(began) }),
        Ok(ContainerState::Exited) => Some(State::Exited(Exit {
            began: at(began),
            ended: at(status.finished_at.max(began)),
            code: status.exit_code,
            signal: None,
            reason: (status.reason == "OOMKilled").then_some("OOMKilled"),
        })),
        Ok(ContainerState::Unknown) | Err(_) => Some(State::Exited(Exit {
            began: at(began),
            ended: at(began),
            code: 137,
            signal: None,
            reason: Some("ContainerStatusUnknown"),
        })),
    }
}

/// Looks whenever there may be something to see, until the runtime is dropped.
pub async fn follow(inner: Weak<Inner>) {
    let mut images = tokio::time::Instant::now();
    loop {
        let Some(held) = inner.upgrade() else { return };
        if images.elapsed() >= IMAGES {
            held.look_at_images().await;
            images = tokio::time::Instant::now();
        }
        if held.look().await.is_ok() {
            held.remove_leaving().await;
            held.set_logs_aside().await;
        }
        let client = held.client.clone();
        drop(held);
        // What happened before it was listened is seen by another look.
        let told = follow_events(&inner, &client).await;
        if told.is_err_and(|status| status.code() != Code::Unimplemented) {
            tracing::debug!("the runtime tells nothing of containers");
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Looks for every event; returns when there are no more.
async fn follow_events(inner: &Weak<Inner>, client: &super::client::Client) -> Result<(), Status> {
    match client.containerd_events().await {
        Ok(mut events) => {
            while let Some(true) = next(inner, events.message()).await? {}
            Ok(())
        }
        Err(_) => {
            let mut events = client.events().await?;
            while let Some(true) = next(inner, events.message()).await? {}
            Ok(())
        }
    }
}

/// Waits for an event or a while, and looks; whether to go on.
async fn next<T>(
    inner: &Weak<Inner>,
    event: impl Future<Output = Result<Option<T>, Status>>,
) -> Result<Option<bool>, Status> {
    let is_more = match select(pin!(event), pin!(tokio::time::sleep(CHECK))).await {
        Either::Left((event, _)) => event?.is_some(),
        Either::Right(_) => true,
    };
    let Some(held) = inner.upgrade() else { return Ok(None) };
    held.look().await?;
    held.remove_leaving().await;
    held.set_logs_aside().await;
    Ok(Some(is_more))
}
