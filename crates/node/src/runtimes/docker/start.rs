//! Starts a container once.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use tokio::sync::watch;

use super::client::{Error, encode};
use super::create::{self, Joined};
use super::found::stop_signal;
use super::{Docker, Run, has_not_run, retrying, state_of, tasks};
use crate::confinement::Filter;
use crate::image::ImageName;
use crate::runtime::{Container, ContainerId, ContainerSpec, Mount, Refusal, START_ERROR, State};
use crate::volumes::pinned;

const CREATE: &str = "CreateContainerError";
const RUN: &str = "RunContainerError";

impl Docker {
    pub(super) async fn start_once(&self, spec: &ContainerSpec) -> Result<(), Refusal> {
        {
            let mut held = self.lock();
            if held.runs.contains_key(&spec.id) {
                return Ok(());
            }
            if !held.starting.insert(spec.id.clone()) {
                let message = "it is being started".to_owned();
                return Err(Refusal { reason: RUN, message });
            }
        }
        let _starting = Starting { docker: self, id: &spec.id };
        let started = self.try_start(spec).await;
        if started.is_err() {
            pinned::remove(&self.pins(&spec.id));
        }
        started
    }

    async fn try_start(&self, spec: &ContainerSpec) -> Result<(), Refusal> {
        if let Filter::Localhost(file) = &spec.security.filter {
            let message = format!(
                "no seccomp profiles are read here (localhost/{file}); there are RuntimeDefault \
                 and Unconfined"
            );
            return Err(Refusal { reason: CREATE, message });
        }
        let has_sandbox = self.lock().pauses.get(&spec.id.pod).is_some_and(|it| it.is_running);
        if !has_sandbox {
            self.usual_sandbox(spec).await?;
        }
        let log = self.log_path((&spec.namespace, &spec.pod_name), &spec.id);
        let refused = |reason: &'static str| move |message: String| Refusal { reason, message };
        if let Some(folder) = log.parent() {
            let made = fs::create_dir_all(folder).map_err(|error| error.to_string());
            made.map_err(refused(CREATE))?;
        }
        let mounts = self.mounts(spec).map_err(refused(CREATE))?;
        let joined = self.joined(spec).map_err(refused(CREATE))?;
        let path = log.to_string_lossy();
        let mut body = create::container(&self.engine, spec, &joined, (&mounts, &path));
        let name = create::container_name(spec);
        let mut created = retrying(|| self.create((&name, &spec.id.pod), &body)).await;
        let local = ImageName::parse(&spec.image).ok().and_then(|image| image.local());
        if let (true, true, Some(local)) =
            (self.engine.is_podman, created.as_ref().is_err_and(Error::is_missing), local)
        {
            body["Image"] = Value::from(local.full());
            created = retrying(|| self.create((&name, &spec.id.pod), &body)).await;
        }
        let native = created.map_err(|error| refused(CREATE)(error.message))?;
        let path = format!("/containers/{native}/start");
        if let Err(error) = self.client.post(&path, None).await {
            self.delete(&native).await;
            let reason = if error.status.is_some() { START_ERROR } else { RUN };
            return Err(refused(reason)(error.message));
        }
        self.take_up(spec, native, log).await;
        Ok(())
    }

    /// From here on the run is known.
    async fn take_up(&self, spec: &ContainerSpec, native: String, log: PathBuf) {
        let is_terminal = spec.input.is_terminal;
        let run = Run {
            container: Container {
                id: spec.id.clone(),
                image: spec.image.clone(),
                image_id: String::new(),
                native_id: Some(native.clone()),
                failures: spec.failures,
                state: State::Running { since: tasks::now() },
            },
            output: self.follow_output(&native, &log, is_terminal),
            native: native.clone(),
            log,
            stop_signal: spec.stop_signal.unwrap_or(libc::SIGTERM),
            is_terminal,
            ended: watch::Sender::new(false),
        };
        self.lock().runs.insert(spec.id.clone(), run);
        // It may have ended before it was known, and then nobody tells.
        let Ok(told) = self.client.get(&format!("/containers/{native}/json")).await else { return };
        {
            let mut held = self.lock();
            let Some(run) = held.runs.get_mut(&spec.id) else { return };
            run.container.image_id = told["Image"].as_str().unwrap_or_default().to_owned();
            run.stop_signal = stop_signal(&told["Config"]);
            if told["State"]["Running"] == true {
                run.container.state = state_of(&told["State"]);
                return;
            }
        }
        self.settle(&native).await;
    }

    /// Makes a container under a name. What of ours has the name is renamed.
    pub(super) async fn create(
        &self,
        (name, pod): (&str, &str),
        body: &Value,
    ) -> Result<String, Error> {
        let path = format!("/containers/create?name={}", encode(name));
        let made = match self.client.post(&path, Some(body)).await {
            Err(error) if error.is_taken() => {
                self.free_name((name, pod), &error).await?;
                self.client.post(&path, Some(body)).await?
            }
            made => made?,
        };
        Ok(made["Id"].as_str().unwrap_or_default().to_owned())
    }

    async fn free_name(&self, (name, pod): (&str, &str), taken: &Error) -> Result<(), Error> {
        let told = self.client.get(&format!("/containers/{name}/json")).await?;
        let native = told["Id"].as_str().unwrap_or_default();
        let labels = &told["Config"]["Labels"];
        if labels[create::CLUSTER] != *self.engine.cluster {
            let short: String = native.chars().take(12).collect();
            let message = format!(
                "the name {name:?} belongs to container {short}, which is not of this node; remove \
                 it or give it another name"
            );
            return Err(Error { status: taken.status, message });
        }
        let uid = labels[create::POD_UID].as_str().unwrap_or_default();
        let is_run = labels[create::KIND] == create::CONTAINER;
        if has_not_run(&told["State"]) || (!is_run && uid == pod) {
            // Nobody knows it: whoever made it was killed meanwhile.
            self.delete(native).await;
            return Ok(());
        }
        let beside = match uid == pod {
            true => labels[create::ATTEMPT].as_str().unwrap_or_default(),
            false => uid,
        };
        let new = encode(&format!("{name}_{beside}"));
        self.client.post(&format!("/containers/{native}/rename?name={new}"), None).await.map(drop)
    }

    fn mounts(&self, spec: &ContainerSpec) -> Result<Vec<(PathBuf, Mount)>, String> {
        let mut mounts = Vec::new();
        for (index, mount) in spec.mounts.iter().enumerate() {
            if mount.optional && !mount.source.exists() {
                continue;
            }
            let place = self.pins(&spec.id).join(index.to_string());
            let source = pinned::pin(mount, &place);
            let failed = |error| format!("could not mount {}: {error}", mount.target.display());
            mounts.push((source.map_err(failed)?, mount.clone()));
        }
        Ok(mounts)
    }

    fn joined(&self, spec: &ContainerSpec) -> Result<Joined, String> {
        let held = self.lock();
        let pause = held.pauses.get(&spec.id.pod);
        let pause = pause.ok_or("what its containers share is gone")?;
        let processes_of = match &spec.security.processes_of {
            None => None,
            Some(target) => {
                let is_it = |run: &&Run| {
                    let id: &ContainerId = &run.container.id;
                    id.pod == spec.id.pod && id.name == *target && run.container.is_running()
                };
                let run = held.runs.values().rfind(is_it);
                Some(run.ok_or(format!("container {target:?} does not run"))?.native.clone())
            }
        };
        let host_network = pause.host_network;
        Ok(Joined { sandbox: pause.native.clone(), processes_of, host_network })
    }
}

/// A start that is under way.
struct Starting<'a> {
    docker: &'a Docker,
    id: &'a ContainerId,
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        self.docker.lock().starting.remove(self.id);
    }
}
