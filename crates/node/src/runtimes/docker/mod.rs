//! Containers of Docker and Podman, over the socket of the engine.
//!
//! Podman speaks as Docker does; what differs is in `create.rs`. Ours carry our label and are found
//! again by it; what does not is never touched, also if it has a name that we want. A pod has a
//! container that only waits (`sandbox.rs`), and the others join it. The engine is asked for
//! everything, and what it said last is kept (`Held`), so that a pod does not look dead because its
//! engine does.

mod client;
mod create;
mod events;
mod found;
mod frames;
mod images;
mod logs;
mod machine;
mod sandbox;
pub mod service;
mod start;
mod streams;
mod tasks;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use futures::future::BoxFuture;
use link::{Duplex, Program, Streams};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::Answer;
use super::process::remove_logs;
use super::process::streams::dial;
use crate::image::ImageStore;
use crate::network::Network;
use crate::runtime::{
    Container, ContainerId, ContainerSpec, Executed, Image, Listener, PodRuntime, Refusal,
    START_MAX, Sandbox, SandboxSpec, State,
};
use crate::volumes::pinned;
use client::{Client, Error, encode};
use create::Engine;
pub use found::count_running;
use found::{has_not_run, state_of, vanished};
pub use images::Images;
use logs::Output;

/// How long an ended container may take to hand over its output.
const OUTPUT_MAX: Duration = Duration::from_secs(5);
/// How much of the output of a program beside a container is kept.
const OUTPUT_BYTES_MAX: u64 = 10 << 10;
/// How often one that was asked to end is looked at, in case nobody tells.
const LOOK: Duration = Duration::from_millis(500);
/// How long a container may take to end once it is killed.
const KILL_MAX: Duration = Duration::from_secs(10);
/// How long until an engine that does not answer is asked again.
const RETRY: Duration = Duration::from_millis(500);

/// How the runtime is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where logs are kept.
    pub directory: PathBuf,
    /// Of the engine.
    pub socket: PathBuf,
    /// What gives pods addresses; without it they share the machine's.
    pub network: Option<Arc<Network>>,
}

/// The runtime.
pub struct Docker {
    options: Options,
    client: Client,
    name: &'static str,
    version: String,
    engine: Engine,
    images: Images,
    held: Mutex<Held>,
    listener: RwLock<Option<Listener>>,
    follower: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Held {
    runs: BTreeMap<ContainerId, Run>,
    /// Not yet among the runs.
    starting: BTreeSet<ContainerId>,
    /// What pods are held by, by UID.
    pauses: BTreeMap<String, Pause>,
    images: Vec<Image>,
    /// Containers that were to be removed when the engine did not answer.
    left: BTreeSet<String>,
    /// Why the engine does not answer.
    trouble: Option<String>,
}

struct Run {
    container: Container,
    native: String,
    log: PathBuf,
    stop_signal: i32,
    is_terminal: bool,
    /// Writes its output, until it ends.
    output: Option<Output>,
    /// True when it ended.
    ended: watch::Sender<bool>,
}

#[derive(Clone, Debug)]
struct Pause {
    native: String,
    pid: i32,
    is_running: bool,
    /// Its network is made.
    is_whole: bool,
    host_network: bool,
}

/// Asks a socket which engine is there. Podman speaks as Docker does, and tells so.
pub async fn ask(socket: &Path) -> Result<Answer, String> {
    let client = Client { socket: socket.to_owned() };
    let version = client.get("/version").await.map_err(|error| error.message)?;
    let components = version["Components"].as_array().into_iter().flatten();
    let is_podman =
        components.filter_map(|one| one["Name"].as_str()).any(|name| name.contains("Podman"));
    match version["Version"].as_str() {
        Some(number) if is_podman => Ok(Answer { name: "podman", version: number.to_owned() }),
        Some(number) => Ok(Answer { name: "docker", version: number.to_owned() }),
        None => Err("whoever listens there is no engine of containers".to_owned()),
    }
}

/// The images of an engine, without the rest.
pub fn images(socket: &Path) -> Images {
    Images { client: Client { socket: socket.to_owned() } }
}

impl Docker {
    /// Finds what is there already. Why it cannot is for people.
    pub async fn open(options: Options) -> Result<Arc<Docker>, String> {
        let Answer { name, version } = ask(&options.socket).await?;
        let client = Client { socket: options.socket.clone() };
        let docker = Arc::new(Docker {
            engine: machine::engine(&options.directory, name == "podman"),
            images: Images { client: client.clone() },
            client,
            name,
            version,
            options,
            held: Mutex::default(),
            listener: RwLock::default(),
            follower: Mutex::default(),
        });
        for one in docker.list().await.map_err(|error| error.message)? {
            let Some(native) = one["Id"].as_str() else { continue };
            let told = docker.client.get(&format!("/containers/{native}/json")).await;
            docker.find_again(&told.map_err(|error| error.message)?).await;
        }
        let follower = tasks::spawn(events::follow(Arc::downgrade(&docker)));
        *docker.follower.lock().unwrap_or_else(PoisonError::into_inner) = Some(follower);
        Ok(docker)
    }

    /// All containers that are ours.
    async fn list(&self) -> Result<Vec<Value>, Error> {
        let label = format!("{}={}", create::CLUSTER, self.engine.cluster);
        let filters = json!({"label": [label]}).to_string();
        let path = format!("/containers/json?all=1&filters={}", encode(&filters));
        let list = self.client.get(&path).await?;
        Ok(list.as_array().cloned().unwrap_or_default())
    }

    /// Looks at a container that may have ended, and tells whoever listens if it has.
    async fn settle(&self, native: &str) {
        let told = match self.client.get(&format!("/containers/{native}/json")).await {
            Ok(told) => Some(told),
            Err(error) if error.is_missing() => None,
            // Whether it ended is found out when the engine is back.
            Err(_) => return,
        };
        if told.as_ref().is_some_and(|told| told["State"]["Running"] == true) {
            return;
        }
        let found = {
            let mut held = self.lock();
            let pod = held.pauses.iter_mut().find(|(_, pause)| pause.native == native);
            if let Some((pod, pause)) = pod {
                let was_running = std::mem::replace(&mut pause.is_running, false);
                let pod = pod.clone();
                drop(held);
                if was_running {
                    self.tell(&pod);
                }
                return;
            }
            let run = held.runs.values_mut().find(|run| run.native == native);
            run.filter(|run| run.container.is_running())
                .map(|run| (run.container.id.clone(), run.output.as_ref().map(Output::written)))
        };
        let Some((id, output)) = found else { return };
        // All that it wrote is there before it is said that it ended, whoever says so first.
        if let Some(output) = output {
            let _ = tokio::time::timeout(OUTPUT_MAX, output).await;
        }
        let ended = {
            let mut held = self.lock();
            let Some(run) = held.runs.get_mut(&id) else { return };
            run.container.state = match (&told, &run.container.state) {
                (Some(told), _) => state_of(&told["State"]),
                (None, State::Running { since }) => State::Exited(vanished(*since)),
                (None, exited) => exited.clone(),
            };
            run.ended.clone()
        };
        ended.send_replace(true);
        self.tell(&id.pod);
    }

    fn believed_running(&self) -> Vec<String> {
        let held = self.lock();
        let runs = held.runs.values().filter(|run| run.container.is_running());
        let pauses = held.pauses.values().filter(|pause| pause.is_running);
        let natives = runs.map(|run| run.native.clone());
        natives.chain(pauses.map(|pause| pause.native.clone())).collect()
    }

    fn running(&self, pod: &str) -> Vec<ContainerId> {
        let runs = self.of_pod(pod).into_iter().filter(Container::is_running);
        runs.map(|run| run.id).collect()
    }

    /// What the engine calls a container that runs.
    fn native(&self, id: &ContainerId) -> Option<(String, bool)> {
        let held = self.lock();
        let run = held.runs.get(id).filter(|run| run.container.is_running())?;
        Some((run.native.clone(), run.is_terminal))
    }

    /// Removes a container of ours, whatever it does.
    async fn delete(&self, native: &str) {
        let path = format!("/containers/{native}?force=true&v=true");
        if let Err(error) = self.client.delete(&path).await
            && !error.is_missing()
        {
            tracing::warn!(container = native, error = error.message, "not removed");
            self.lock().left.insert(native.to_owned());
        }
    }

    fn pins(&self, id: &ContainerId) -> PathBuf {
        let name = format!("{}-{}", id.name, id.attempt);
        self.options.directory.join(pinned::DIRECTORY).join(&id.pod).join(name)
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Docker {
    fn drop(&mut self) {
        let follower = self.follower.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(follower) = follower {
            follower.abort();
        }
    }
}

/// Calls an engine that may be about to come back.
async fn retrying<'a, T, F>(call: impl Fn() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>> + 'a,
{
    let until = Instant::now() + START_MAX;
    loop {
        match call().await {
            Err(error) if error.status.is_none() && Instant::now() < until => {
                tracing::debug!(error = error.message, "the engine is asked again");
                tokio::time::sleep(RETRY).await;
            }
            called => return called,
        }
    }
}

#[async_trait::async_trait]
impl PodRuntime for Docker {
    fn name(&self) -> &'static str {
        self.name
    }

    fn version(&self) -> String {
        self.version.clone()
    }

    fn listen(&self, listener: Listener) {
        *self.listener.write().unwrap_or_else(PoisonError::into_inner) = Some(listener);
    }

    async fn sandbox(&self, spec: &SandboxSpec) -> Result<Sandbox, Refusal> {
        self.make_sandbox(spec).await
    }

    fn sandbox_of(&self, pod: &str) -> Option<Sandbox> {
        self.find_sandbox(pod)
    }

    fn containers(&self) -> BTreeMap<String, Vec<Container>> {
        let held = self.lock();
        let of_network = self.options.network.as_ref().map(|it| it.pods()).unwrap_or_default();
        let pods = held.pauses.keys().cloned().chain(of_network);
        let mut all: BTreeMap<String, Vec<Container>> = pods.map(|pod| (pod, Vec::new())).collect();
        for (id, run) in &held.runs {
            all.entry(id.pod.clone()).or_default().push(run.container.clone());
        }
        all
    }

    fn of_pod(&self, pod: &str) -> Vec<Container> {
        let held = self.lock();
        let from = ContainerId::new(pod, "", 0);
        let runs = held.runs.range(from..).take_while(|(id, _)| id.pod == pod);
        runs.map(|(_, run)| run.container.clone()).collect()
    }

    async fn start(&self, spec: &ContainerSpec) -> Result<(), Refusal> {
        self.start_once(spec).await
    }

    async fn stop(&self, id: &ContainerId, grace: Duration) -> Result<(), Refusal> {
        let (native, signal, mut ended) = {
            let held = self.lock();
            let Some(run) = held.runs.get(id) else { return Ok(()) };
            (run.native.clone(), run.stop_signal, run.ended.subscribe())
        };
        for (signal, limit) in [(signal, grace), (libc::SIGKILL, KILL_MAX)] {
            if *ended.borrow() {
                return Ok(());
            }
            if limit.is_zero() {
                continue;
            }
            let path = format!("/containers/{native}/kill?signal={signal}");
            if let Err(error) = self.client.post(&path, None).await
                && error.status.is_none()
            {
                // Who asks again at once gets no other answer.
                tokio::time::sleep(RETRY).await;
                return Err(Refusal { reason: "KillContainerError", message: error.message });
            }
            let until = Instant::now() + limit;
            while Instant::now() < until {
                let step = LOOK.min(until.saturating_duration_since(Instant::now()));
                if tokio::time::timeout(step, ended.wait_for(|it| *it)).await.is_ok() {
                    return Ok(());
                }
                self.settle(&native).await;
            }
        }
        let message = format!("container {:?} does not end", id.name);
        if *ended.borrow() {
            Ok(())
        } else {
            Err(Refusal { reason: "KillContainerError", message })
        }
    }

    async fn ended(&self, id: &ContainerId) {
        let ended = self.lock().runs.get(id).map(|run| run.ended.subscribe());
        if let Some(mut ended) = ended {
            let _ = ended.wait_for(|ended| *ended).await;
        }
    }

    async fn remove(&self, id: &ContainerId) {
        let removed = {
            let mut held = self.lock();
            match held.runs.get(id) {
                Some(run) if !run.container.is_running() => held.runs.remove(id),
                _ => None,
            }
        };
        if let Some(run) = removed {
            self.delete(&run.native).await;
            pinned::remove(&self.pins(id));
            remove_logs(&run.log);
        }
    }

    async fn remove_pod(&self, pod: &str) {
        let ids: Vec<ContainerId> = self.of_pod(pod).into_iter().map(|one| one.id).collect();
        let log = ids.first().map(|id| self.log(id));
        for id in ids {
            self.remove(&id).await;
        }
        self.remove_sandbox(pod).await;
        pinned::remove(&self.options.directory.join(pinned::DIRECTORY).join(pod));
        // The folder of the pod's logs is two above a log.
        if let Some(folder) = log.as_deref().and_then(Path::parent).and_then(Path::parent) {
            let _ = fs::remove_dir_all(folder);
        }
    }

    fn image_store(&self) -> Option<&dyn ImageStore> {
        Some(&self.images)
    }

    fn oom_score_min(&self) -> i32 {
        self.engine.oom_score_min
    }

    fn trouble(&self) -> Option<String> {
        self.lock().trouble.clone()
    }

    fn images(&self) -> Vec<Image> {
        self.lock().images.clone()
    }

    fn log(&self, id: &ContainerId) -> PathBuf {
        self.lock().runs.get(id).map(|run| run.log.clone()).unwrap_or_default()
    }

    async fn exec(&self, id: &ContainerId, command: &[String]) -> Result<Executed, Refusal> {
        let refused = |message: String| Refusal { reason: "ExecError", message };
        // Both outputs in one, in the order in which they come.
        let wanted = Streams { stdout: true, stderr: true, ..Streams::default() };
        let Program { stdout, stderr, end, .. } = self.run_beside(id, command, &wanted).await?;
        let read = |stream: Option<link::Output>| -> BoxFuture<'static, Vec<u8>> {
            Box::pin(async move {
                let mut output = Vec::new();
                let Some(mut stream) = stream else { return output };
                let _ = (&mut stream).take(OUTPUT_BYTES_MAX).read_to_end(&mut output).await;
                // The rest is nobody's, but must not hold it up.
                let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
                output
            })
        };
        let (mut output, errors, code) = tokio::join!(read(stdout), read(stderr), end);
        output.extend(errors);
        Ok(Executed { code: code.map_err(refused)?, output })
    }

    async fn run_beside(
        &self,
        id: &ContainerId,
        command: &[String],
        wanted: &Streams,
    ) -> Result<Program, Refusal> {
        let refused = |message: String| Refusal { reason: "ExecError", message };
        let found = self.native(id);
        let (native, _) =
            found.ok_or_else(|| refused(format!("container {:?} does not run", id.name)))?;
        let opened = streams::run_beside(&self.client, &native, command, wanted).await;
        opened.map_err(|error| refused(error.message))
    }

    async fn attach(&self, id: &ContainerId, wanted: &Streams) -> Result<Program, Refusal> {
        let refused = |message: String| Refusal { reason: "AttachError", message };
        let found = self.native(id);
        let (native, tty) =
            found.ok_or_else(|| refused(format!("container {:?} does not run", id.name)))?;
        // Whether there are frames is the container's matter.
        let wanted = Streams { tty, ..wanted.clone() };
        let opened = streams::attach(&self.client, &native, &wanted).await;
        opened.map_err(|error| refused(error.message))
    }

    async fn dial(
        &self,
        pod: &str,
        address: Option<IpAddr>,
        port: u16,
    ) -> Result<Box<dyn Duplex>, Refusal> {
        let refused = |message: String| Refusal { reason: "PortForwardError", message };
        let pause = self.lock().pauses.get(pod).filter(|pause| pause.is_running).cloned();
        let pause = pause.ok_or_else(|| refused("no container of the pod runs".to_owned()))?;
        match dial(pause.pid, address, port).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => Err(refused(format!("could not connect to port {port}: {error}"))),
        }
    }
}
