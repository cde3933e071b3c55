//! The sandbox of a pod. The runtime makes its namespaces; its network is ours, so that services,
//! names and ports of the machine are for these pods what they are for all others.

use std::path::PathBuf;

use serde_json::Value;
use tonic::Status;

use super::container::labels;
use super::look::Made;
use super::messages::{
    Empty, LinuxPodSandboxConfig, LinuxSandboxSecurityContext, Map, NamespaceMode, NamespaceOption,
    PodSandboxConfig, PodSandboxMetadata, PodSandboxStatusRequest, PodSandboxStatusResponse,
    ProfileType, RunPodSandboxRequest, RunPodSandboxResponse, SandboxRequest, SecurityProfile,
};
use super::{Inner, cni};
use crate::confinement::Processes;
use crate::runtime::{Refusal, Sandbox, SandboxSpec};

/// Tries of what may fail for the image of sandboxes only.
const TRIES_MAX: u32 = 2;

impl Inner {
    /// The pod's sandbox and what the runtime calls it: found, or made.
    pub async fn make_sandbox(&self, spec: &SandboxSpec) -> Result<(Made, Sandbox), Refusal> {
        let found = self.lock().pods.get(&spec.pod).cloned().unwrap_or_default();
        let made = match found.sandbox() {
            Some(made) => made.clone(),
            None => {
                // One that broke gives its network and its name away first.
                for broken in &found.sandboxes {
                    self.stop_sandbox(&broken.id).await.map_err(|status| refused(&status))?;
                }
                let last = found.sandboxes.last().map(|made| made.attempt + 1);
                self.run_sandbox(spec, last.unwrap_or(0)).await?
            }
        };
        let sandbox = self.give_network(spec, &made).await?;
        Ok((made, sandbox))
    }

    async fn run_sandbox(&self, spec: &SandboxSpec, attempt: u32) -> Result<Made, Refusal> {
        let host_network = spec.host_network || self.network().is_none();
        let logs = self.logs(&spec.pod);
        std::fs::create_dir_all(&logs).map_err(|error| Refusal {
            reason: "CreatePodSandboxError",
            message: format!("could not make {}: {error}", logs.display()),
        })?;
        let config = self.sandbox_config(spec, (attempt, host_network));
        let mut tried = 0;
        let id = loop {
            let request =
                RunPodSandboxRequest { config: Some(config.clone()), ..Default::default() };
            let limit = self.options.start_max;
            let run = self.client.runtime_within("RunPodSandbox", request, limit).await;
            tried += 1;
            match run {
                Ok(RunPodSandboxResponse { pod_sandbox_id }) => break pod_sandbox_id,
                // Somebody may have removed the image, or the plugin.
                Err(status) if tried < TRIES_MAX && self.mend(status.message()).await.is_ok() => {
                    tracing::debug!(why = status.message(), "a sandbox is tried again");
                }
                Err(status) => return Err(refused(&status)),
            }
        };
        let _ = self.look().await;
        Ok(Made { id, attempt, is_ready: true, host_network })
    }

    pub fn sandbox_config(
        &self,
        spec: &SandboxSpec,
        (attempt, host_network): (u32, bool),
    ) -> PodSandboxConfig {
        let node_if = |is_node: bool| match is_node {
            true => NamespaceMode::Node as i32,
            false => NamespaceMode::Pod as i32,
        };
        // Containers join what the sandbox has, so it must have the machine's where they are to.
        let pid = match spec.processes {
            Processes::OfHost => NamespaceMode::Node,
            Processes::OfPod => NamespaceMode::Pod,
            Processes::Own => NamespaceMode::Container,
        };
        let options = NamespaceOption {
            network: node_if(host_network),
            pid: pid as i32,
            ipc: node_if(spec.host_ipc),
            target_id: String::new(),
        };
        let unconfined = ProfileType::Unconfined as i32;
        let of_pod = (&*spec.pod, &*spec.namespace, &*spec.pod_name);
        let mut annotations = Map::new();
        if host_network {
            annotations.insert(labels::HOST_NETWORK.to_owned(), "true".to_owned());
        }
        PodSandboxConfig {
            metadata: Some(PodSandboxMetadata {
                name: spec.pod_name.clone(),
                uid: spec.pod.clone(),
                namespace: spec.namespace.clone(),
                attempt,
            }),
            // Who has the network of the machine has its name, and cannot give it another.
            hostname: if host_network { String::new() } else { spec.hostname.clone() },
            log_directory: self.logs(&spec.pod).display().to_string(),
            // The files of names are ours too.
            dns_config: None,
            labels: labels::of_pod(&self.options.cluster, of_pod),
            annotations,
            linux: Some(LinuxPodSandboxConfig {
                security_context: Some(LinuxSandboxSecurityContext {
                    namespace_options: Some(options),
                    privileged: false,
                    seccomp: Some(SecurityProfile {
                        profile_type: unconfined,
                        localhost_ref: String::new(),
                    }),
                }),
                sysctls: spec.sysctls.iter().cloned().collect(),
                ..Default::default()
            }),
        }
    }

    /// Gives the pod its network, if it has not got it.
    async fn give_network(&self, spec: &SandboxSpec, made: &Made) -> Result<Sandbox, Refusal> {
        let Some(network) = self.network().filter(|_| !made.host_network) else {
            return Ok(Sandbox::default());
        };
        let namespace = self.namespace(&made.id).await?;
        network.make_within(spec, &namespace).await
    }

    /// Where the network namespace of a sandbox is.
    pub async fn namespace(&self, id: &str) -> Result<PathBuf, Refusal> {
        let request = PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: true };
        let status: PodSandboxStatusResponse =
            self.client.runtime("PodSandboxStatus", request).await.map_err(|it| refused(&it))?;
        let text = status.info.get("info").map_or("", String::as_str);
        namespace_in(text).ok_or_else(|| Refusal {
            reason: "CreatePodSandboxError",
            message: format!("{} does not tell the network of sandbox {id}", self.answer.name),
        })
    }

    /// The sandbox of a pod, if it is whole.
    pub fn find_sandbox(&self, pod: &str) -> Option<Sandbox> {
        let made = self.lock().pods.get(pod).and_then(|pod| pod.sandbox().cloned())?;
        match self.network().filter(|_| !made.host_network) {
            None => Some(Sandbox::default()),
            Some(network) => network.find(pod).filter(|_| network.is_made(pod)),
        }
    }

    async fn stop_sandbox(&self, id: &str) -> Result<(), Status> {
        let request = SandboxRequest { pod_sandbox_id: id.to_owned() };
        let _: Empty =
            self.client.runtime_within("StopPodSandbox", request, self.options.start_max).await?;
        Ok(())
    }

    /// Takes a sandbox away with all that is in it.
    pub async fn remove_sandbox(&self, id: &str) -> Result<(), Status> {
        self.stop_sandbox(id).await?;
        let request = SandboxRequest { pod_sandbox_id: id.to_owned() };
        let _: Empty =
            self.client.runtime_within("RemovePodSandbox", request, self.options.start_max).await?;
        Ok(())
    }

    /// Makes what may have been missing when a sandbox could not be made.
    async fn mend(&self, complaint: &str) -> Result<(), String> {
        if let Some(name) = cni::image_in(complaint) {
            cni::make_image(self, name).await?;
        }
        self.prepare().await
    }

    /// Sees to it that sandboxes can be made.
    pub async fn prepare(&self) -> Result<(), String> {
        cni::prepare(self).await
    }
}

fn refused(status: &Status) -> Refusal {
    Refusal { reason: "CreatePodSandboxError", message: status.message().to_owned() }
}

/// What the runtime tells of a sandbox, beside what CRI says.
fn namespace_in(text: &str) -> Option<PathBuf> {
    let info: Value = serde_json::from_str(text).ok()?;
    let namespaces = info["runtimeSpec"]["linux"]["namespaces"].as_array();
    let network = namespaces.into_iter().flatten().find(|one| one["type"] == "network");
    let path = network.and_then(|one| one["path"].as_str()).filter(|path| !path.is_empty());
    if let Some(path) = path {
        return Some(PathBuf::from(path));
    }
    let pid = info["pid"].as_u64().filter(|pid| *pid > 0)?;
    Some(PathBuf::from(format!("/proc/{pid}/ns/net")))
}
