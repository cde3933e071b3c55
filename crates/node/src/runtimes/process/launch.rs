//! Starting the shim of a run, and giving up on one.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::ids::IdRange;
use super::nursery::Nursery;
use super::record::{Asked, Invocation, Place, Started};
use super::{Found, Held, OUTPUT_BYTES_MAX, Process, shim, system, world};
use crate::confinement::{Isolation, Processes, Security};
use crate::failpoints::reached;
use crate::runtime::{ContainerId, ContainerSpec, PodRuntime, Refusal, START_ERROR};

impl Process {
    /// Starts a shim and waits until it says that its program runs.
    pub(super) async fn launch(&self, spec: &ContainerSpec) -> Result<(), Refusal> {
        let group = self.cgroups.group(&spec.id, &spec.limits);
        let network = self.find_sandbox(&spec.id.pod).and_then(|sandbox| sandbox.network);
        let ids = self.id_range(spec).map_err(|error| Refusal {
            reason: "CreateContainerError",
            message: format!("could not choose user ids for container {:?}: {error}", spec.id.name),
        })?;
        let asked = Asked {
            spec: spec.clone(),
            log: self.log_path(spec),
            group,
            network,
            hidden: self.options.hidden.clone(),
            ids,
        };
        let place = Place::of(&self.options.directory, &spec.id);
        let failed = |error: io::Error| Refusal {
            reason: "CreateContainerError",
            message: format!("could not record container {:?}: {error}", spec.id.name),
        };
        if !self.lock().starting.insert(spec.id.clone()) {
            return Err(failed(io::Error::other("it is being started")));
        }
        let attempt = Attempt::new(self.held.clone(), place.clone(), asked.clone());
        let mut record = asked.clone();
        let invocation = Invocation::take_from(&mut record.spec).hand_over().map_err(failed)?;
        place.prepare(&record).map_err(failed)?;
        reached("start:recorded");
        let began = self.ask_for_shim(&place, &invocation).map_err(failed)?;
        drop(invocation);
        reached("start:spawned");
        let limit = self.options.start_max;
        let started = match tokio::time::timeout(limit, began.wait(&place)).await {
            Ok(Ok(started)) => started,
            Ok(Err(refusal)) => {
                attempt.give_up().await;
                return Err(refusal);
            }
            Err(_) => {
                attempt.give_up().await;
                let message = format!("it did not start within {} seconds", limit.as_secs());
                return Err(Refusal { reason: "RunContainerError", message });
            }
        };
        reached("start:begun");
        self.take_up(&asked, place, started, Found::Started);
        attempt.succeed();
        reached("start:known");
        Ok(())
    }

    /// Returns the user ids of an isolated container, where they can be given. A container that
    /// shares namespaces of the host keeps its ids, as Kubernetes requires it.
    fn id_range(&self, spec: &ContainerSpec) -> io::Result<Option<IdRange>> {
        let Security { isolation, processes, host_ipc, hostname, .. } = &spec.security;
        let shares = *processes == Processes::OfHost || *host_ipc || hostname.is_none();
        if *isolation == Isolation::Host || shares || !self.is_mighty() {
            return Ok(None);
        }
        IdRange::of_pod(&self.options.directory, &spec.id.pod).map(Some)
    }

    /// Asks for a shim; the nursery is started if there is none.
    fn ask_for_shim(&self, place: &Place, invocation: &OwnedFd) -> io::Result<Began> {
        let (says, tells) = io::pipe()?;
        let tells = OwnedFd::from(tells);
        let mut nursery = self.nursery.lock().unwrap_or_else(PoisonError::into_inner);
        let ask = |nursery: &Nursery| nursery.ask(place.directory(), &tells, invocation);
        let is_asked = nursery.as_ref().is_some_and(|it| ask(it).is_ok());
        if !is_asked {
            let variable = (shim::VARIABLE, self.options.directory.as_path());
            let started = Nursery::start(&self.options.shim, variable)?;
            ask(&started)?;
            *nursery = Some(started);
        }
        Ok(Began::new(OwnedFd::from(says)))
    }

    /// Sees to it that a pod whose containers see each other's processes has a holder.
    pub(super) async fn hold_processes(&self, spec: &ContainerSpec) -> Result<(), Refusal> {
        let id = ContainerId::new(&spec.id.pod, world::HOLDER, 0);
        let lives = self.lock().runs.get(&id).map(|run| run.container.is_running());
        match lives {
            Some(true) => return Ok(()),
            Some(false) => self.remove(&id).await,
            None => {}
        }
        let mut security = spec.security.clone();
        (security.read_only_root, security.processes) = (false, Processes::Own);
        security.processes_of = None;
        let holder = ContainerSpec {
            id,
            command: Vec::new(),
            env: Vec::new(),
            mounts: Vec::new(),
            working_directory: None,
            security,
            ..spec.clone()
        };
        self.launch(&holder).await
    }
}

/// A run that is being started. Dropped before it has succeeded, nothing of it is left.
pub struct Attempt {
    held: Arc<Mutex<Held>>,
    place: Place,
    asked: Asked,
    is_settled: bool,
}

impl Attempt {
    pub fn new(held: Arc<Mutex<Held>>, place: Place, asked: Asked) -> Attempt {
        Attempt { held, place, asked, is_settled: false }
    }

    pub fn succeed(mut self) {
        self.is_settled = true;
    }

    /// Ends what there is of it; returns when that is done.
    pub async fn give_up(mut self) {
        self.is_settled = true;
        let (place, asked) = (self.place.clone(), self.asked.clone());
        let _ = tokio::task::spawn_blocking(move || end(&place, &asked)).await;
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.is_settled {
            end(&self.place, &self.asked);
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.starting.remove(&self.asked.spec.id);
    }
}

/// With its shim dies the program; its group has what is left.
fn end(place: &Place, asked: &Asked) {
    if let Some(shim) = place.holder() {
        let _ = system::signal(&shim, libc::SIGKILL);
    }
    if let Some(group) = &asked.group {
        group.end();
        group.remove();
    }
    let _ = place.remove();
}

/// Removes a log with what was set aside of it.
pub fn remove_logs(log: &Path) {
    let (Some(folder), Some(name)) = (log.parent(), log.file_name()) else { return };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let found = entry.file_name();
        if found.to_string_lossy().starts_with(&*name.to_string_lossy()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// A shim that was asked for but has not said that its program runs.
pub struct Began {
    says: File,
}

impl Began {
    pub fn new(says: OwnedFd) -> Began {
        Began { says: File::from(says) }
    }

    /// Returns when the shim has recorded that its program runs, or why not.
    pub async fn wait(self, place: &Place) -> Result<Started, Refusal> {
        let said = system::read_all(self.says, OUTPUT_BYTES_MAX).await;
        if let Some(started) = place.started() {
            return Ok(started);
        }
        let said = said.unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let why = said.lines().find_map(|line| Some(line.split_once(shim::REFUSED)?.1));
        let (reason, why) = match why {
            Some(why) => (START_ERROR, why),
            None => ("RunContainerError", "its shim ended before it started"),
        };
        Err(Refusal { reason, message: why.to_owned() })
    }
}
