//! The records of a run: what was asked for, what started, how it ended. Each is a small file that
//! is written whole or not at all, in a directory per run.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::Environment;
use reconcile::environment::System;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::runtime::{ContainerId, ContainerSpec};

/// How long a shim that lives may take to say that its program runs, after a restart of ours.
const FOUND_START_MAX: Duration = Duration::from_secs(5);
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
}

/// The program has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    pub at: Timestamp,
    pub code: i32,
    pub signal: Option<i32>,
}

/// What the shim is asked to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    pub spec: ContainerSpec,
    pub log: PathBuf,
}

/// Where the records of a run are.
#[derive(Clone, Debug)]
pub struct Place(PathBuf);

impl Place {
    pub fn of(directory: &Path, id: &ContainerId) -> Place {
        let pod = directory.join("pods").join(&id.pod).join("containers");
        Place(pod.join(&id.name).join(id.attempt.to_string()))
    }

    pub fn at(directory: PathBuf) -> Place {
        Place(directory)
    }

    /// Every run that has a directory.
    pub fn all(directory: &Path) -> io::Result<Vec<Place>> {
        let mut places = Vec::new();
        for pod in children(&directory.join("pods"))? {
            for container in children(&pod.join("containers")).unwrap_or_default() {
                places.extend(children(&container).unwrap_or_default().into_iter().map(Place));
            }
        }
        places.truncate(RUNS_MAX);
        Ok(places)
    }

    pub fn directory(&self) -> &Path {
        &self.0
    }

    /// Makes the directory and records what is asked for.
    pub fn prepare(&self, spec: &ContainerSpec, log: &Path) -> io::Result<()> {
        let mut make = fs::DirBuilder::new();
        make.recursive(true).mode(0o700);
        make.create(&self.0)?;
        if let Some(folder) = log.parent() {
            make.create(folder)?;
        }
        let asked = Asked { spec: spec.clone(), log: log.to_owned() };
        self.write("asked.json", &asked)
    }

    pub fn asked(&self) -> Option<Asked> {
        self.read("asked.json")
    }

    pub fn spec(&self) -> Option<ContainerSpec> {
        self.asked().map(|asked| asked.spec)
    }

    pub fn started(&self) -> Option<Started> {
        self.read("started.json")
    }

    pub fn ended(&self) -> Option<Ended> {
        self.read("ended.json")
    }

    /// The start of a run that was found: a shim that lives and has not said so yet is waited for.
    pub fn wait_for_start(&self) -> Option<Started> {
        let mut waited = Duration::ZERO;
        loop {
            if let Some(started) = self.started() {
                return Some(started);
            }
            if !self.is_held() || waited > FOUND_START_MAX {
                return self.started();
            }
            std::thread::sleep(LOOK);
            waited += LOOK;
        }
    }

    /// Held by the shim for as long as it lives.
    pub fn hold(&self) -> io::Result<File> {
        let file = File::create(self.0.join("lock"))?;
        file.try_lock().map_err(io::Error::from)?;
        Ok(file)
    }

    fn is_held(&self) -> bool {
        let Ok(file) = File::open(self.0.join("lock")) else { return false };
        file.try_lock_shared().is_err()
    }

    pub fn write(&self, name: &str, record: &impl Serialize) -> io::Result<()> {
        let draft = self.0.join(format!("{name}.draft"));
        let mut file = File::create(&draft)?;
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
