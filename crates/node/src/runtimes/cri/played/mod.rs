//! A server that plays CRI-O on a socket of its own: its version, its paths, its names and numbers,
//! what it insists on, and the output as its monitor writes it. Containers are processes of this
//! machine, images lie in a storage that Podman can fill, as CRI-O's own. What it is asked is
//! recorded.
//!
//! Upstream: github.com/cri-o/cri-o/server

mod containers;
mod server;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prost::Message;
use serde_json::json;
use tokio::net::UnixListener;
use tokio::task::JoinHandle;

use super::messages::*;
use crate::contract::IMAGE;
use containers::Played;

pub const VERSION: &str = "1.28.4";
/// What its sandboxes are made of.
pub const PAUSE: &str = "registry.k8s.io/pause:3.9";
/// How images are kept in its storage.
const DRIVER: &str = "vfs";
/// Without `sha256:` before it, as it has them.
pub const IMAGE_ID: &str = "9d5a1b0c3e7f8a2b4c6d8e0f1a3b5c7d9e1f2a4b6c8d0e2f3a5b7c9d1e3f5a7b";

/// Codes of gRPC.
pub const UNKNOWN: u32 = 2;
pub const NOT_FOUND: u32 = 5;
pub const UNIMPLEMENTED: u32 = 12;

/// Why it refuses: code and message.
pub type Failure = (u32, String);

/// The server.
pub struct CriO {
    pub socket: PathBuf,
    pub state: Arc<State>,
    task: JoinHandle<()>,
}

/// What it has, and what it was asked.
pub struct State {
    directory: PathBuf,
    held: Mutex<Held>,
}

#[derive(Default)]
pub struct Held {
    /// Method and message of every request, in order.
    pub asked: Vec<(String, Vec<u8>)>,
    pub sandboxes: BTreeMap<String, Sandbox>,
    pub containers: BTreeMap<String, Arc<Played>>,
    /// No plugin gives pods their network.
    pub is_unconnected: bool,
    next: u64,
}

pub struct Sandbox {
    pub config: PodSandboxConfig,
    pub is_ready: bool,
}

impl Drop for CriO {
    fn drop(&mut self) {
        self.task.abort();
        for container in self.state.lock().containers.values() {
            container.kill();
        }
    }
}

impl CriO {
    #[expect(clippy::disallowed_methods, reason = "it ends with the server")]
    pub fn start(directory: &Path) -> CriO {
        std::fs::create_dir_all(directory).expect("what a test plays must work");
        let socket = directory.join("crio.sock");
        let listener = UnixListener::bind(&socket).expect("what a test plays must work");
        let state = Arc::new(State { directory: directory.to_owned(), held: Mutex::default() });
        let task = tokio::spawn(server::serve(listener, state.clone()));
        CriO { socket, state, task }
    }

    /// The methods that were called since the last time, without those that only look.
    pub fn deeds(&self) -> Vec<String> {
        let asked = std::mem::take(&mut self.state.lock().asked);
        let is_deed = |name: &String| {
            let looks = ["List", "Status", "Version", "ImageFsInfo", "GetContainerEvents"];
            !looks.iter().any(|look| name.contains(look)) && name != "Subscribe"
        };
        asked.into_iter().map(|(name, _)| name).filter(is_deed).collect()
    }

    /// The last request of a method.
    pub fn last<T: Message + Default>(&self, method: &str) -> T {
        let held = self.state.lock();
        let found = held.asked.iter().rev().find(|(name, _)| name == method);
        T::decode(&*found.expect("it was asked").1).expect("what a test plays must work")
    }
}

/// What is asked, read; and an answer, written.
fn hear<T: Message + Default>(bytes: &[u8]) -> Result<T, Failure> {
    T::decode(bytes).map_err(|error| (13, error.to_string()))
}

fn say(answer: impl Message) -> Result<Vec<u8>, Failure> {
    Ok(answer.encode_to_vec())
}

impl State {
    pub fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where its images are.
    pub fn storage(&self) -> PathBuf {
        self.directory.join("storage")
    }

    /// Answers one request.
    fn answer(&self, method: &str, bytes: &[u8]) -> Result<Vec<u8>, Failure> {
        self.lock().asked.push((method.to_owned(), bytes.to_vec()));
        match method {
            "Version" => say(VersionResponse {
                runtime_name: "cri-o".to_owned(),
                runtime_version: VERSION.to_owned(),
                runtime_api_version: "v1".to_owned(),
            }),
            "Status" => say(self.status()),
            "RunPodSandbox" => self.run_sandbox(hear(bytes)?),
            "StopPodSandbox" => self.stop_sandbox(hear(bytes)?),
            "RemovePodSandbox" => self.remove_sandbox(hear(bytes)?),
            "ListPodSandbox" => say(self.list_sandboxes(hear(bytes)?)),
            "PodSandboxStatus" => self.sandbox_status(hear(bytes)?),
            "CreateContainer" => self.create(hear(bytes)?),
            "StartContainer" => self.start(hear(bytes)?),
            "StopContainer" => self.stop(hear(bytes)?),
            "RemoveContainer" => self.remove(hear(bytes)?),
            "ListContainers" => say(self.list_containers(hear(bytes)?)),
            "ContainerStatus" => self.container_status(hear(bytes)?),
            "ExecSync" => self.exec(hear(bytes)?),
            "ReopenContainerLog" => say(Empty {}),
            "ListImages" => say(ListImagesResponse { images: vec![self.shell_image()] }),
            "ImageStatus" => say(self.image_status(hear(bytes)?)),
            "ImageFsInfo" => say(self.file_system()),
            "PullImage" => {
                let request: PullImageRequest = hear(bytes)?;
                let image = request.image.unwrap_or_default().image;
                let why = "pinging container registry: connection refused";
                Err((UNKNOWN, format!("initializing source docker://{image}: {why}")))
            }
            other => Err((UNIMPLEMENTED, format!("method {other} not implemented"))),
        }
    }

    /// It tells nothing of plugins.
    fn status(&self) -> StatusResponse {
        let is_connected = !self.lock().is_unconnected;
        let condition = |kind: &str, status: bool, message: &str| RuntimeCondition {
            kind: kind.to_owned(),
            status,
            reason: if status { String::new() } else { "NetworkPluginNotReady".to_owned() },
            message: message.to_owned(),
        };
        let why = "Network plugin returns error: No CNI configuration file in /etc/cni/net.d/";
        let why = if is_connected { "" } else { why };
        let conditions =
            vec![condition("RuntimeReady", true, ""), condition("NetworkReady", is_connected, why)];
        let config = json!({"sandboxImage": PAUSE}).to_string();
        StatusResponse {
            status: Some(RuntimeStatus { conditions }),
            info: [("config".to_owned(), config)].into(),
        }
    }

    fn shell_image(&self) -> Image {
        Image {
            id: IMAGE_ID.to_owned(),
            repo_tags: vec![IMAGE.to_owned()],
            repo_digests: Vec::new(),
            size: 1_000_000,
            uid: None,
            username: String::new(),
        }
    }

    /// What its storage has besides was put there by another program.
    fn image_status(&self, request: ImageStatusRequest) -> ImageStatusResponse {
        let name = request.image.unwrap_or_default().image;
        if name == IMAGE || name == IMAGE_ID {
            return ImageStatusResponse { image: Some(self.shell_image()) };
        }
        let mut podman = Command::new("podman");
        podman.arg("--root").arg(self.storage()).args(["--storage-driver", DRIVER]);
        podman.args(["image", "inspect", "--format", "{{.Id}}", &name]);
        let found = podman.output().ok().filter(|ended| ended.status.success());
        let image = found.map(|ended| Image {
            id: String::from_utf8_lossy(&ended.stdout).trim().to_owned(),
            repo_tags: vec![name],
            size: 1,
            ..Image::default()
        });
        ImageStatusResponse { image }
    }

    fn file_system(&self) -> ImageFsInfoResponse {
        let mountpoint = self.storage().join(format!("{DRIVER}-images")).display().to_string();
        let id = Some(FilesystemIdentifier { mountpoint });
        ImageFsInfoResponse { image_filesystems: vec![FilesystemUsage { id }] }
    }

    fn name(&self) -> String {
        let mut held = self.lock();
        held.next += 1;
        format!("{:064x}", held.next)
    }

    fn run_sandbox(&self, request: RunPodSandboxRequest) -> Result<Vec<u8>, Failure> {
        let config = request.config.unwrap_or_default();
        let metadata = config.metadata.clone().unwrap_or_default();
        for (what, text) in [
            ("PodSandboxConfig.Metadata.Name", &metadata.name),
            ("PodSandboxConfig.Metadata.Namespace", &metadata.namespace),
            ("PodSandboxConfig.Metadata.UID", &metadata.uid),
        ] {
            if text.is_empty() {
                return Err((UNKNOWN, format!("{what} should not be empty")));
            }
        }
        if !config.log_directory.is_empty() && !Path::new(&config.log_directory).is_dir() {
            return Err((UNKNOWN, format!("{} is no directory", config.log_directory)));
        }
        let reserved = |sandbox: &Sandbox| sandbox.config.metadata.as_ref() == Some(&metadata);
        if self.lock().sandboxes.values().any(reserved) {
            let name = format!("k8s_{}_{}", metadata.name, metadata.namespace);
            return Err((UNKNOWN, format!("pod sandbox with name {name:?} already exists")));
        }
        let id = self.name();
        self.lock().sandboxes.insert(id.clone(), Sandbox { config, is_ready: true });
        say(RunPodSandboxResponse { pod_sandbox_id: id })
    }

    fn stop_sandbox(&self, request: SandboxRequest) -> Result<Vec<u8>, Failure> {
        let id = request.pod_sandbox_id;
        let of_sandbox: Vec<Arc<Played>> = {
            let mut held = self.lock();
            if let Some(sandbox) = held.sandboxes.get_mut(&id) {
                sandbox.is_ready = false;
            }
            held.containers.values().filter(|it| it.sandbox == id).cloned().collect()
        };
        of_sandbox.iter().for_each(|container| container.kill());
        say(Empty {})
    }

    fn remove_sandbox(&self, request: SandboxRequest) -> Result<Vec<u8>, Failure> {
        let mut held = self.lock();
        held.sandboxes.remove(&request.pod_sandbox_id);
        held.containers.retain(|_, container| container.sandbox != request.pod_sandbox_id);
        drop(held);
        say(Empty {})
    }

    fn list_sandboxes(&self, request: ListPodSandboxRequest) -> ListPodSandboxResponse {
        let wanted = request.filter.unwrap_or_default().label_selector;
        let held = self.lock();
        let ours = held.sandboxes.iter().filter(|(_, it)| has_all(&it.config.labels, &wanted));
        let items = ours.map(|(id, sandbox)| PodSandbox {
            id: id.clone(),
            metadata: sandbox.config.metadata.clone(),
            state: state_of(sandbox) as i32,
            labels: sandbox.config.labels.clone(),
            annotations: sandbox.config.annotations.clone(),
        });
        ListPodSandboxResponse { items: items.collect() }
    }

    /// A sandbox without a process of its own has no number of one.
    fn sandbox_status(&self, request: PodSandboxStatusRequest) -> Result<Vec<u8>, Failure> {
        let held = self.lock();
        let id = request.pod_sandbox_id;
        let missing = || (NOT_FOUND, format!("could not find pod {id:?}: ID does not exist"));
        let sandbox = held.sandboxes.get(&id).ok_or_else(missing)?;
        let namespaces = json!([{"type": "network", "path": format!("/var/run/netns/{id}")}]);
        let info = json!({"runtimeSpec": {"linux": {"namespaces": namespaces}}}).to_string();
        say(PodSandboxStatusResponse {
            status: Some(PodSandboxStatus {
                id: id.clone(),
                metadata: sandbox.config.metadata.clone(),
                state: state_of(sandbox) as i32,
                ..PodSandboxStatus::default()
            }),
            info: [("info".to_owned(), info)].into(),
        })
    }
}

fn state_of(sandbox: &Sandbox) -> PodSandboxState {
    if sandbox.is_ready { PodSandboxState::Ready } else { PodSandboxState::NotReady }
}

pub fn has_all(labels: &Map, wanted: &Map) -> bool {
    wanted.iter().all(|(name, value)| labels.get(name) == Some(value))
}
