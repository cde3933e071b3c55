//! Starting, stopping and removing containers.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tonic::{Code, Status};

use super::Inner;
use super::client::is_missing;
use super::container;
use super::look::Run;
use super::messages::{
    ContainerRequest, ContainerStatusRequest, ContainerStatusResponse, CreateContainerRequest,
    CreateContainerResponse, Empty, ExecSyncRequest, ExecSyncResponse, StopContainerRequest,
};
use crate::machine;
use crate::runtime::{
    Container, ContainerId, ContainerSpec, Executed, Mount, Refusal, START_ERROR, SandboxSpec,
};
use crate::runtimes::process::{remove_logs, system};
use crate::volumes::pinned;

/// What a runtime gets to stop a container, besides what the container gets.
const STOP_MARGIN: Duration = Duration::from_secs(2);
/// What it gets to kill one.
const KILL_MAX: Duration = Duration::from_secs(30);
/// How long a program beside a container may run, where nobody says: as long as it likes.
const EXEC_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// What is kept of its output.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

impl Inner {
    /// A container of ours, as it was last seen.
    pub fn run(&self, id: &ContainerId) -> Option<Run> {
        self.lock().pods.get(&id.pod).and_then(|pod| pod.runs.get(id)).cloned()
    }

    /// What the runtime calls a container that runs.
    pub fn running(&self, id: &ContainerId, reason: &'static str) -> Result<String, Refusal> {
        let run = self.run(id);
        let is_running = |run: &Run| run.container.as_ref().is_some_and(Container::is_running);
        let message = || format!("container {:?} does not run", id.name);
        match run.filter(is_running) {
            Some(run) => Ok(run.native),
            None => Err(Refusal { reason, message: message() }),
        }
    }

    pub async fn start(&self, spec: &ContainerSpec) -> Result<(), Refusal> {
        let found = self.run(&spec.id);
        if found.as_ref().is_some_and(|run| run.container.is_some()) {
            return Ok(());
        }
        let started = self.try_start(spec, found).await;
        // One that is there after all keeps what it uses.
        if started.is_err() && self.run(&spec.id).is_none() {
            pinned::remove(&self.pins(&spec.id));
        }
        started
    }

    async fn try_start(&self, spec: &ContainerSpec, found: Option<Run>) -> Result<(), Refusal> {
        if let Some(made) = found {
            // It was made and never started, by one of us who is gone.
            self.remove_native(&made.native).await.map_err(|status| failed(&status))?;
        }
        let native = self.create(spec).await?;
        let request = ContainerRequest { container_id: native.clone() };
        let limit = self.options.start_max;
        let started: Result<Empty, Status> =
            self.client.runtime_within("StartContainer", request, limit).await;
        if let Err(status) = started {
            if let Err(error) = self.remove_native(&native).await {
                tracing::warn!(container = native, error = error.message(), "not removed");
            }
            let _ = self.look().await;
            let reason = if is_answer(&status) { START_ERROR } else { "RunContainerError" };
            return Err(Refusal { reason, message: status.message().to_owned() });
        }
        self.look().await.map_err(|status| failed(&status))
    }

    async fn create(&self, spec: &ContainerSpec) -> Result<String, Refusal> {
        let pod = SandboxSpec {
            pod: spec.id.pod.clone(),
            namespace: spec.namespace.clone(),
            pod_name: spec.pod_name.clone(),
            hostname: spec.security.hostname.clone().unwrap_or_default(),
            processes: spec.security.processes,
            host_ipc: spec.security.host_ipc,
            ..SandboxSpec::default()
        };
        let held = self.lock().pods.get(&spec.id.pod).and_then(|pod| pod.sandbox().cloned());
        let sandbox = match held {
            Some(sandbox) => sandbox,
            None => self.make_sandbox(&pod).await?.0,
        };
        let logs = self.logs(&spec.id.pod).join(&spec.id.name);
        std::fs::create_dir_all(&logs).map_err(|error| Refusal {
            reason: "CreateContainerError",
            message: format!("could not make {}: {error}", logs.display()),
        })?;
        let target = self.target(spec)?;
        let reason = "CreateContainerError";
        let mut pinned = self.pin(spec).map_err(|message| Refusal { reason, message })?;
        // A score that nobody here may give would fail the start, and not say why.
        pinned.limits.oom_score = pinned.limits.oom_score.max(machine::oom_score_min());
        let cluster = &self.options.cluster;
        let config = container::config(cluster, &pinned, sandbox.host_network, &target);
        let mut of_pod = self.sandbox_config(&pod, (sandbox.attempt, sandbox.host_network));
        if let Some(context) =
            of_pod.linux.as_mut().and_then(|linux| linux.security_context.as_mut())
        {
            context.privileged = spec.security.privileged;
        }
        let request = CreateContainerRequest {
            pod_sandbox_id: sandbox.id,
            config: Some(config),
            sandbox_config: Some(of_pod),
        };
        let limit = self.options.start_max;
        let created = self.client.runtime_within("CreateContainer", request, limit).await;
        let CreateContainerResponse { container_id } = created.map_err(|status| failed(&status))?;
        Ok(container_id)
    }

    /// The container whose processes it is to see; empty if that is none.
    fn target(&self, spec: &ContainerSpec) -> Result<String, Refusal> {
        let Some(name) = &spec.security.processes_of else { return Ok(String::new()) };
        let held = self.lock();
        let mut runs = held.pods.get(&spec.id.pod).into_iter().flat_map(|pod| &pod.runs);
        let latest = runs.rfind(|(id, run)| {
            id.name == *name && run.container.as_ref().is_some_and(Container::is_running)
        });
        let message = || format!("container {name:?} does not run");
        match latest {
            Some((_, run)) => Ok(run.native.clone()),
            None => Err(Refusal { reason: "CreateContainerError", message: message() }),
        }
    }

    /// The same with mounts that the runtime can be told: paths whose meaning cannot change.
    fn pin(&self, spec: &ContainerSpec) -> Result<ContainerSpec, String> {
        let mut mounts = Vec::new();
        for (index, mount) in spec.mounts.iter().enumerate() {
            if mount.optional && !mount.source.exists() {
                continue;
            }
            let place = self.pins(&spec.id).join(index.to_string());
            let source = pinned::pin(mount, &place)
                .map_err(|error| format!("could not mount {}: {error}", mount.target.display()))?;
            mounts.push(Mount { source, within: None, ..mount.clone() });
        }
        Ok(ContainerSpec { mounts, ..spec.clone() })
    }

    /// Where places within volumes are, for the runtime to find.
    fn pins(&self, id: &ContainerId) -> PathBuf {
        self.pins_of_pod(&id.pod).join(format!("{}-{}", id.name, id.attempt))
    }

    fn pins_of_pod(&self, pod: &str) -> PathBuf {
        self.options.directory.join(pinned::DIRECTORY).join(pod)
    }

    pub async fn stop(&self, id: &ContainerId, grace: Duration) -> Result<(), Refusal> {
        let Some(run) = self.run(id) else { return Ok(()) };
        if !run.container.as_ref().is_some_and(Container::is_running) {
            return Ok(());
        }
        // The runtime knows the image's signal only.
        let signalled = match run.stop_signal {
            Some(signal) => self.process(&run.native).await.map(|process| (process, signal)),
            None => None,
        };
        let grace = match signalled {
            Some((process, signal)) => {
                let _ = system::signal(&process, signal);
                let _ = tokio::time::timeout(grace, self.ended(id)).await;
                Duration::ZERO
            }
            // Any other signal, and time, is better than none.
            None => grace,
        };
        let mut stopped = self.stop_native(&run.native, grace).await;
        if stopped.is_err() && grace > Duration::ZERO {
            stopped = self.stop_native(&run.native, Duration::ZERO).await;
        }
        match stopped {
            Err(status) if !is_missing(&status) => {
                Err(Refusal { reason: "KillContainerError", message: status.message().to_owned() })
            }
            _ => self.look().await.map_err(|status| failed(&status)),
        }
    }

    async fn stop_native(&self, native: &str, grace: Duration) -> Result<(), Status> {
        // In whole seconds, and not in less than was asked for.
        let seconds = grace.as_secs() + u64::from(grace.subsec_nanos() > 0);
        let timeout = i64::try_from(seconds).unwrap_or(i64::MAX);
        let request = StopContainerRequest { container_id: native.to_owned(), timeout };
        let margin = if timeout == 0 { KILL_MAX } else { STOP_MARGIN };
        let limit = Duration::from_secs(seconds).saturating_add(margin);
        let _: Empty = self.client.runtime_within("StopContainer", request, limit).await?;
        Ok(())
    }

    /// The first process of a container.
    async fn process(&self, native: &str) -> Option<OwnedFd> {
        let request = ContainerStatusRequest { container_id: native.to_owned(), verbose: true };
        let answer: ContainerStatusResponse =
            self.client.runtime("ContainerStatus", request).await.ok()?;
        let info: Value = serde_json::from_str(answer.info.get("info")?).ok()?;
        let pid = i32::try_from(info["pid"].as_i64()?).ok().filter(|pid| *pid > 1)?;
        system::open_process(pid, system::began(pid)?)
    }

    async fn remove_native(&self, native: &str) -> Result<(), Status> {
        let request = ContainerRequest { container_id: native.to_owned() };
        let removed: Result<Empty, Status> = self.client.runtime("RemoveContainer", request).await;
        match removed {
            Err(status) if !is_missing(&status) => Err(status),
            _ => Ok(()),
        }
    }

    pub async fn remove(&self, id: &ContainerId) {
        let Some(run) = self.run(id) else { return };
        if let Err(status) = self.remove_native(&run.native).await {
            return tracing::warn!(container = run.native, why = status.message(), "not removed");
        }
        remove_logs(&self.logs(&id.pod).join(container::log_path(id)));
        pinned::remove(&self.pins(id));
        let _ = self.look().await;
    }

    /// Removes a pod; if it cannot be removed, that is tried again.
    pub async fn remove_pod(&self, pod: &str) {
        let sandboxes = self.lock().pods.get(pod).map(|pod| pod.sandboxes.clone());
        for sandbox in sandboxes.unwrap_or_default() {
            if let Err(status) = self.remove_sandbox(&sandbox.id).await
                && !is_missing(&status)
            {
                tracing::warn!(pod, why = status.message(), "a sandbox is not removed yet");
                self.lock().leaving.insert(pod.to_owned());
                return;
            }
        }
        if let Some(network) = self.network().cloned() {
            let pod = pod.to_owned();
            // It waits for the kernel.
            let _ = tokio::task::spawn_blocking(move || network.remove(&pod)).await;
        }
        pinned::remove(&self.pins_of_pod(pod));
        let _ = std::fs::remove_dir_all(self.logs(pod));
        self.lock().leaving.remove(pod);
        let _ = self.look().await;
    }

    /// Removes what could not be removed before.
    pub async fn remove_leaving(&self) {
        let leaving = self.lock().leaving.clone();
        for pod in leaving {
            self.remove_pod(&pod).await;
        }
    }

    pub async fn exec(&self, id: &ContainerId, command: &[String]) -> Result<Executed, Refusal> {
        let container_id = self.running(id, "ExecError")?;
        let request = ExecSyncRequest { container_id, cmd: command.to_vec(), timeout: 0 };
        let executed = self.client.runtime_within("ExecSync", request, EXEC_MAX).await;
        let ExecSyncResponse { stdout, stderr, exit_code } = executed.map_err(|status| {
            Refusal { reason: "ExecError", message: status.message().to_owned() }
        })?;
        let mut output = [stdout, stderr].concat();
        output.truncate(OUTPUT_BYTES_MAX);
        Ok(Executed { code: exit_code, output })
    }
}

/// What CRI-O says when what runs the program refuses it, which it asks here already.
const PROGRAM_REFUSED: &str = "container create failed";

fn failed(status: &Status) -> Refusal {
    let message = status.message().to_owned();
    let reason = match message.contains(PROGRAM_REFUSED) {
        true => START_ERROR,
        false => "CreateContainerError",
    };
    Refusal { reason, message }
}

/// Whether the runtime itself said so, rather than that it was not there or took too long.
fn is_answer(status: &Status) -> bool {
    !matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled)
}
