//! Containers of containerd and CRI-O, over CRI v1.
//!
//! ```text
//! client.rs     calls over the socket           messages/    what is said, written by hand
//! sandbox.rs    a pod's sandbox and its network  container.rs what a container is made of (pure)
//! look.rs       what there is: asked again when the runtime tells of something, else each second
//! deeds.rs      starting, stopping, removing     images.rs    the images of the runtime
//! streams.rs    programs beside containers       spdy.rs      how the runtime streams them
//! cni.rs        a plugin that leaves the network of pods to us
//! archive.rs    the image of sandboxes, made here  logs.rs  output that has become too large
//! played/       CRI-O for tests: a server that records what it is asked, and runs processes
//! ```
//!
//! What there is, is what the runtime tells; nothing is kept here but that. Ours is what carries
//! the label of this cluster, and nothing else is ever touched.

mod archive;
mod client;
mod cni;
mod container;
mod deeds;
mod images;
mod logs;
mod look;
mod messages;
#[cfg(test)]
mod played;
mod sandbox;
mod spdy;
mod streams;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use link::{Duplex, Program, Streams};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Answer;
use crate::image::ImageStore;
use crate::machine;
use crate::network::{Mode, Network};
use crate::runtime::{
    Container, ContainerId, ContainerSpec, Executed, Image, Listener, PodRuntime, Refusal, Sandbox,
    SandboxSpec,
};
use client::{CALL_MAX, Client};
use look::Held;
use messages::{VersionRequest, VersionResponse};

/// Of CRI.
const API_VERSION: &str = "v1";

/// What the runtime is told.
#[derive(Clone, Debug)]
pub struct Options {
    pub socket: PathBuf,
    /// Where output of containers is kept.
    pub directory: PathBuf,
    /// What marks all that is ours.
    pub cluster: String,
    /// How long it may take to start a container.
    pub start_max: Duration,
    /// Without one pods share the network of the machine.
    pub network: Option<Arc<Network>>,
}

/// Containers of a runtime that speaks CRI.
pub struct Cri(Arc<Inner>, JoinHandle<()>);

impl Drop for Cri {
    fn drop(&mut self) {
        self.1.abort();
    }
}

struct Inner {
    options: Options,
    client: Client,
    answer: Answer,
    held: Mutex<Held>,
    /// Counts what was seen to change.
    changes: watch::Sender<u64>,
    /// One look at a time, so that what is seen last is newest.
    looking: tokio::sync::Mutex<()>,
    listener: Mutex<Option<Listener>>,
    /// By pod: who makes something of it.
    turns: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

/// Asks a socket which runtime is there.
pub async fn ask(socket: &Path) -> Result<Answer, String> {
    ask_client(&Client::new(socket)).await
}

async fn ask_client(client: &Client) -> Result<Answer, String> {
    let request = VersionRequest { version: API_VERSION.to_owned() };
    let version: VersionResponse =
        client.runtime("Version", request).await.map_err(|status| status.message().to_owned())?;
    let name = match version.runtime_name.as_str() {
        "containerd" => "containerd",
        "cri-o" => "cri-o",
        other => return Err(format!("{other:?} is neither containerd nor CRI-O")),
    };
    Ok(Answer { name, version: version.runtime_version.trim_start_matches('v').to_owned() })
}

/// The images of the runtime at a socket.
pub async fn images(socket: &Path) -> Result<Box<dyn ImageStore>, String> {
    let options = Options {
        socket: socket.to_owned(),
        directory: PathBuf::new(),
        cluster: String::new(),
        start_max: CALL_MAX,
        network: None,
    };
    Ok(Box::new(Inner::connect(options).await?))
}

/// How many containers of ours run; 0 if nobody answers. Nothing is changed.
pub async fn count_running(options: &Options) -> usize {
    let Ok(inner) = Inner::connect(options.clone()).await else { return 0 };
    if inner.look().await.is_err() {
        return 0;
    }
    let held = inner.lock();
    held.pods.values().flat_map(look::Pod::told).filter(Container::is_running).count()
}

impl Cri {
    /// Connects, makes what sandboxes need, and finds again what runs.
    #[expect(clippy::disallowed_methods, reason = "it ends with the runtime")]
    pub async fn open(options: Options) -> Result<Cri, String> {
        let inner = Arc::new(Inner::connect(options).await?);
        inner.prepare().await?;
        inner.look().await.map_err(|status| status.message().to_owned())?;
        inner.look_at_images().await;
        let following = tokio::spawn(look::follow(Arc::downgrade(&inner)));
        Ok(Cri(inner, following))
    }
}

/// Takes away what a node put beside its runtime, when nothing of it runs any more.
pub async fn clear(options: &Options) {
    if let Ok(inner) = Inner::connect(options.clone()).await {
        cni::remove_plugin(&inner).await;
    }
}

impl Inner {
    async fn connect(options: Options) -> Result<Inner, String> {
        let client = Client::new(&options.socket);
        let answer = ask_client(&client).await?;
        Ok(Inner {
            client,
            answer,
            held: Mutex::default(),
            changes: watch::Sender::new(0),
            looking: tokio::sync::Mutex::default(),
            listener: Mutex::default(),
            turns: Mutex::default(),
            options,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody else makes something of the pod.
    async fn turn(&self, pod: &str) -> tokio::sync::OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            turns.entry(pod.to_owned()).or_default().clone()
        };
        turn.lock_owned().await
    }

    /// The network that pods get, if they get one of their own.
    fn network(&self) -> Option<&Arc<Network>> {
        self.options.network.as_ref().filter(|network| network.mode == Mode::Namespaces)
    }

    /// Where the output of a pod's containers is.
    fn logs(&self, pod: &str) -> PathBuf {
        self.options.directory.join("logs").join(pod)
    }
}

#[async_trait::async_trait]
impl PodRuntime for Cri {
    fn name(&self) -> &'static str {
        self.0.answer.name
    }

    fn version(&self) -> String {
        self.0.answer.version.clone()
    }

    fn listen(&self, listener: Listener) {
        *self.0.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(listener);
    }

    async fn sandbox(&self, spec: &SandboxSpec) -> Result<Sandbox, Refusal> {
        let _turn = self.0.turn(&spec.pod).await;
        self.0.make_sandbox(spec).await.map(|(_, sandbox)| sandbox)
    }

    fn sandbox_of(&self, pod: &str) -> Option<Sandbox> {
        self.0.find_sandbox(pod)
    }

    fn containers(&self) -> BTreeMap<String, Vec<Container>> {
        let held = self.0.lock();
        let pods = held.pods.iter().map(|(uid, pod)| (uid.clone(), pod.told()));
        pods.collect()
    }

    fn of_pod(&self, pod: &str) -> Vec<Container> {
        self.0.lock().pods.get(pod).map(look::Pod::told).unwrap_or_default()
    }

    async fn start(&self, spec: &ContainerSpec) -> Result<(), Refusal> {
        let _turn = self.0.turn(&spec.id.pod).await;
        self.0.start(spec).await
    }

    async fn stop(&self, id: &ContainerId, grace: Duration) -> Result<(), Refusal> {
        self.0.stop(id, grace).await
    }

    async fn ended(&self, id: &ContainerId) {
        self.0.ended(id).await;
    }

    async fn remove(&self, id: &ContainerId) {
        self.0.remove(id).await;
    }

    async fn remove_pod(&self, pod: &str) {
        let _turn = self.0.turn(pod).await;
        self.0.remove_pod(pod).await;
    }

    fn image_store(&self) -> Option<&dyn ImageStore> {
        Some(&*self.0)
    }

    fn oom_score_min(&self) -> i32 {
        machine::oom_score_min()
    }

    fn trouble(&self) -> Option<String> {
        self.0.lock().trouble.clone()
    }

    fn images(&self) -> Vec<Image> {
        self.0.lock().images.clone()
    }

    fn log(&self, id: &ContainerId) -> PathBuf {
        self.0.logs(&id.pod).join(container::log_path(id))
    }

    async fn exec(&self, id: &ContainerId, command: &[String]) -> Result<Executed, Refusal> {
        self.0.exec(id, command).await
    }

    async fn run_beside(
        &self,
        id: &ContainerId,
        command: &[String],
        wanted: &Streams,
    ) -> Result<Program, Refusal> {
        self.0.run_beside(id, command, wanted).await
    }

    async fn attach(&self, id: &ContainerId, wanted: &Streams) -> Result<Program, Refusal> {
        self.0.attach(id, wanted).await
    }

    async fn dial(
        &self,
        pod: &str,
        address: Option<IpAddr>,
        port: u16,
    ) -> Result<Box<dyn Duplex>, Refusal> {
        self.0.dial(pod, address, port).await
    }
}
