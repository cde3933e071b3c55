//! The records of a run: what was asked for, what started, how it ended. Each is a small file that
//! is written whole or not at all, in a directory per run.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::Environment;
use reconcile::environment::System;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::cgroups::Group;
use super::ids::{self, IdRange};
use super::{system, world};
use crate::runtime::{ContainerId, ContainerSpec};

/// How long a shim that lives may take to say that its program runs, after a restart of ours.
const FOUND_START_MAX: Duration = Duration::from_secs(5);
/// How long a shim waits for its lock.
const HELD_MAX: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(10);
/// Runs that are looked for.
const RUNS_MAX: usize = 100_000;

/// The program runs. Process numbers count together with when their process began, in ticks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Started {
    pub at: Timestamp,
    pub pid: i32,
    pub ticks: u64,
    pub shim: i32,
    pub shim_ticks: u64,
    /// The first process of its namespaces; 0 for a plain process.
    #[serde(default)]
    pub init: i32,
    #[serde(default)]
    pub init_ticks: u64,
    /// Of the machine: after another boot no number means anything.
    #[serde(default)]
    pub boot: String,
    /// Descriptor of the shim that holds the [`Invocation`]; 0 if the record of the run has it, as
    /// versions before 0.2 wrote it.
    #[serde(default)]
    pub invocation: i32,
}

impl Started {
    /// The shim, if it is still there.
    pub fn shim(&self) -> Option<OwnedFd> {
        self.process(self.shim, self.shim_ticks)
    }

    /// The first process of its namespaces, if it has any and it is still there.
    pub fn first(&self) -> Option<OwnedFd> {
        if self.init > 0 { self.process(self.init, self.init_ticks) } else { None }
    }

    /// The program, if it is still there and where it was put.
    pub fn program(&self, group: Option<&Group>) -> Option<OwnedFd> {
        let found = self.process(self.pid, self.ticks)?;
        group.is_none_or(|group| group.holds(self.pid)).then_some(found)
    }

    fn process(&self, pid: i32, ticks: u64) -> Option<OwnedFd> {
        let is_this_boot = self.boot.is_empty() || self.boot == system::boot();
        if is_this_boot { system::open_process(pid, ticks) } else { None }
    }
}

/// The program has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    pub at: Timestamp,
    pub code: i32,
    pub signal: Option<i32>,
    /// It was killed because its memory was used up.
    #[serde(default)]
    pub is_short_of_memory: bool,
}

/// What the shim is asked to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    pub spec: ContainerSpec,
    pub log: PathBuf,
    /// Its control group, where there are any.
    #[serde(default)]
    pub group: Option<Group>,
    /// The file of the network namespace to join; `None` for the machine's.
    #[serde(default)]
    pub network: Option<PathBuf>,
    /// Paths of the host that the container does not see.
    #[serde(default)]
    pub hidden: Vec<PathBuf>,
    /// Ids of the host that its ids are; `None` for the same ids.
    #[serde(default)]
    pub ids: Option<IdRange>,
}

impl Asked {
    /// Returns the user of the host that the container runs as, if it is not that of the shim.
    pub fn host_user(&self) -> Option<u32> {
        match self.ids {
            Some(range) => Some(range.first + self.spec.user.unwrap_or(0).min(ids::COUNT - 1)),
            None => self.spec.user,
        }
    }
}

/// Command and environment of a container. They may hold values of Secrets, so they are passed to
/// the shim in memory, stay with it for programs that are run beside the container, and are never
/// written to disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Invocation {
    pub command: Vec<String>,
    pub arguments: Vec<String>,
    pub env: Vec<(String, String)>,
}

impl Invocation {
    /// Moves the command and the environment out of a specification.
    pub fn take_from(spec: &mut ContainerSpec) -> Invocation {
        Invocation {
            command: std::mem::take(&mut spec.command),
            arguments: std::mem::take(&mut spec.arguments),
            env: std::mem::take(&mut spec.env),
        }
    }

    pub fn put_into(self, spec: &mut ContainerSpec) {
        (spec.command, spec.arguments, spec.env) = (self.command, self.arguments, self.env);
    }

    /// Writes it to a file in memory.
    pub fn hand_over(&self) -> io::Result<OwnedFd> {
        let mut file = system::memory_file(c"invocation")?;
        file.write_all(&serde_json::to_vec(self)?)?;
        Ok(file.into())
    }

    /// Reads it from a descriptor of a process, which may be this one.
    pub fn read(process: &str, descriptor: i32) -> io::Result<Invocation> {
        let bytes = fs::read(format!("/proc/{process}/fd/{descriptor}"))?;
        Ok(serde_json::from_slice(&bytes)?)
    }
}

/// Another container of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sibling {
    /// `world::HOLDER` for what is none.
    pub name: String,
    /// The first process of its namespaces.
    pub first: i32,
}

/// Where the records of a run are.
#[derive(Clone, Debug)]
pub struct Place(PathBuf);

impl Place {
    pub fn of(directory: &Path, id: &ContainerId) -> Place {
        let pod = directory.join("pods").join(&id.pod);
        if id.name == world::HOLDER {
            return Place(pod.join("holder/0/0"));
        }
        Place(pod.join("containers").join(&id.name).join(id.attempt.to_string()))
    }

    pub fn at(directory: PathBuf) -> Place {
        Place(directory)
    }

    /// Every run that has a directory.
    pub fn all(directory: &Path) -> io::Result<Vec<Place>> {
        let mut places = Vec::new();
        for pod in children(&directory.join("pods"))? {
            for kind in ["holder", "containers"] {
                for container in children(&pod.join(kind)).unwrap_or_default() {
                    places.extend(children(&container).unwrap_or_default().into_iter().map(Place));
                }
            }
        }
        places.truncate(RUNS_MAX);
        Ok(places)
    }

    pub fn directory(&self) -> &Path {
        &self.0
    }

    fn pod(&self) -> &Path {
        self.0.ancestors().nth(3).unwrap_or(&self.0)
    }

    /// The containers of the pod that live, in namespaces of their own: the holder before the
    /// others.
    pub fn siblings(&self) -> Vec<Sibling> {
        let mut found = Vec::new();
        let boot = system::boot();
        for kind in ["holder", "containers"] {
            for container in children(&self.pod().join(kind)).unwrap_or_default() {
                let name = container.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let name = if kind == "holder" { world::HOLDER.to_owned() } else { name };
                for run in children(&container).unwrap_or_default() {
                    let started = Place(run).started().filter(|it| it.init > 0 && it.boot == boot);
                    let lives = |it: &Started| system::began(it.init) == Some(it.init_ticks);
                    let first = started.filter(lives).map(|it| it.init);
                    found.extend(first.map(|first| Sibling { name: name.clone(), first }));
                }
            }
        }
        found
    }

    /// Makes the directory and records what is asked for.
    pub fn prepare(&self, asked: &Asked) -> io::Result<()> {
        let mut make = fs::DirBuilder::new();
        make.recursive(true).mode(0o700);
        make.create(&self.0)?;
        if let Some(folder) = asked.log.parent() {
            make.create(folder)?;
        }
        self.write("asked.json", asked)
    }

    pub fn asked(&self) -> Option<Asked> {
        self.read("asked.json")
    }

    /// Returns what was asked for, with the command and the environment, while the shim lives.
    pub fn asked_while_running(&self, started: &Started) -> Option<Asked> {
        let mut asked = self.asked()?;
        if started.invocation > 0 {
            // Opened before and looked at after: the number still means the shim in between.
            let _shim = started.shim()?;
            let read = Invocation::read(&started.shim.to_string(), started.invocation);
            let invocation = read.inspect_err(|error| {
                tracing::warn!(shim = started.shim, %error, "environment of container not read");
            });
            invocation.ok()?.put_into(&mut asked.spec);
        }
        Some(asked)
    }

    pub fn started(&self) -> Option<Started> {
        self.read("started.json")
    }

    pub fn ended(&self) -> Option<Ended> {
        self.read("ended.json")
    }

    /// The start of a run that was found. A shim that lives and has not said so yet is waited for,
    /// and killed if that takes too long. Without one the run never began, and never will: what
    /// there is of it is removed while we hold what its shim would have to.
    pub fn find_start(&self) -> Option<Started> {
        let mut waited = Duration::ZERO;
        loop {
            if let Some(started) = self.started() {
                return Some(started);
            }
            match self.hold() {
                Ok(_held) => {
                    let started = self.started();
                    if started.is_none() {
                        let _ = self.remove();
                    }
                    return started;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Only a shim is waited for.
                Err(error) => {
                    let place = self.0.display();
                    tracing::warn!(%place, %error, "a run cannot be looked at");
                    return self.started();
                }
            }
            if waited > FOUND_START_MAX
                && let Some(shim) = self.holder()
            {
                let _ = system::signal(&shim, libc::SIGKILL);
            }
            std::thread::sleep(LOOK);
            waited += LOOK;
        }
    }

    /// Held by the shim for as long as it lives.
    pub fn hold(&self) -> io::Result<File> {
        let path = self.0.join("lock");
        let mut file = File::options().create(true).truncate(false).write(true).open(&path)?;
        file.try_lock().map_err(io::Error::from)?;
        // Who held it before may have removed it; then this is the lock of nothing.
        if fs::metadata(&path)?.ino() != file.metadata()?.ino() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        let ticks = system::began(own).unwrap_or(0);
        file.set_len(0)?;
        write!(file, "{own} {ticks}")?;
        Ok(file)
    }

    /// The same with patience: a process that was forked while somebody looked has the lock until
    /// it runs its program.
    pub fn hold_soon(&self) -> io::Result<File> {
        let mut waited = Duration::ZERO;
        loop {
            match self.hold() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && waited < HELD_MAX => {
                    std::thread::sleep(LOOK);
                    waited += LOOK;
                }
                held => return held,
            }
        }
    }

    /// Whoever holds it.
    pub fn holder(&self) -> Option<OwnedFd> {
        let text = fs::read_to_string(self.0.join("lock")).ok()?;
        let (pid, ticks) = text.split_once(' ')?;
        system::open_process(pid.parse().ok()?, ticks.parse().ok()?)
    }

    /// Only one container of a pod at a time makes its world, so that they find each other's.
    pub fn hold_pod(&self) -> io::Result<File> {
        let file = File::create(self.pod().join("world.lock"))?;
        file.lock()?;
        Ok(file)
    }

    pub fn write(&self, name: &str, record: &impl Serialize) -> io::Result<()> {
        let draft = self.0.join(format!("{name}.draft"));
        let mut options = File::options();
        let mut file = options.create(true).truncate(true).write(true).mode(0o600).open(&draft)?;
        file.write_all(&serde_json::to_vec(record)?)?;
        file.sync_data()?;
        fs::rename(&draft, self.0.join(name))
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let bytes = fs::read(self.0.join(name)).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

pub fn now() -> Timestamp {
    System.now()
}

fn children(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}
