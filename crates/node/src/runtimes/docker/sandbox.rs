//! What the containers of a pod share: a container that only waits. Its network namespace becomes
//! that of the pod, with the address and the rules that pods have on this node whoever runs them.

use std::time::Duration;

use super::client::Error;
use super::create;
use super::{Docker, Pause, retrying};
use crate::network::Mode;
use crate::runtime::{ContainerSpec, Refusal, Sandbox, SandboxSpec};

impl Docker {
    pub(super) async fn make_sandbox(&self, spec: &SandboxSpec) -> Result<Sandbox, Refusal> {
        let refused =
            |error: Error| Refusal { reason: "CreatePodSandboxError", message: error.message };
        let known = self.lock().pauses.get(&spec.pod).cloned();
        let pause = match known.filter(|pause| pause.is_running) {
            Some(pause) => pause,
            None => {
                self.clear_sandbox(&spec.pod).await;
                retrying(|| self.start_pause(spec)).await.map_err(refused)?
            }
        };
        let sandbox = match &self.options.network {
            Some(network) => network.make_in(spec, pause.pid).await?,
            None => Sandbox::default(),
        };
        let mut held = self.lock();
        if let Some(pause) = held.pauses.get_mut(&spec.pod) {
            pause.is_whole = true;
        }
        Ok(sandbox)
    }

    /// One for a pod of which nobody asked for it.
    pub(super) async fn usual_sandbox(&self, spec: &ContainerSpec) -> Result<(), Refusal> {
        let usual = SandboxSpec {
            pod: spec.id.pod.clone(),
            namespace: spec.namespace.clone(),
            pod_name: spec.pod_name.clone(),
            hostname: spec.pod_name.chars().take(63).collect(),
            ..SandboxSpec::default()
        };
        self.make_sandbox(&usual).await.map(drop)
    }

    pub(super) fn find_sandbox(&self, pod: &str) -> Option<Sandbox> {
        let pause = self.lock().pauses.get(pod).cloned()?;
        if !pause.is_running || !pause.is_whole {
            return None;
        }
        let found = self.options.network.as_ref().and_then(|network| network.find(pod));
        Some(found.unwrap_or_default())
    }

    /// What was shared is gone: nothing that shared it can go on.
    async fn clear_sandbox(&self, pod: &str) {
        for run in self.running(pod) {
            let _ = super::PodRuntime::stop(self, &run, Duration::ZERO).await;
        }
        self.remove_sandbox(pod).await;
    }

    pub(super) async fn remove_sandbox(&self, pod: &str) {
        let pause = self.lock().pauses.remove(pod);
        if let Some(pause) = pause {
            self.delete(&pause.native).await;
        }
        let Some(network) = self.options.network.clone() else { return };
        let pod = pod.to_owned();
        // It waits for the kernel.
        let _ = tokio::task::spawn_blocking(move || network.remove(&pod)).await;
    }

    async fn start_pause(&self, spec: &SandboxSpec) -> Result<Pause, Error> {
        self.images.ensure_pause().await?;
        let mode = self.options.network.as_ref().map(|network| network.mode);
        // Without a network of its own a pod has the machine's.
        let is_own = mode == Some(Mode::Namespaces) && !spec.host_network;
        let network = if is_own { "none" } else { "host" };
        let body = create::sandbox(&self.engine, spec, network);
        let name = create::sandbox_name(spec);
        let native = self.create((&name, &spec.pod), &body).await?;
        let started = self.client.post(&format!("/containers/{native}/start"), None).await;
        if let Err(error) = started {
            self.delete(&native).await;
            return Err(error);
        }
        let told = self.client.get(&format!("/containers/{native}/json")).await?;
        let pid = told["State"]["Pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
        let pause = Pause {
            native,
            pid: pid.unwrap_or(0),
            is_running: told["State"]["Running"] == true,
            is_whole: false,
            host_network: spec.host_network,
        };
        self.lock().pauses.insert(spec.pod.clone(), pause.clone());
        Ok(pause)
    }
}
