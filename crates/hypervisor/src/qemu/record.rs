//! What is kept of a machine on disk: its directory, which process it is, and how it ended.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::arguments::SEED;
use crate::error::Error;
use crate::machine::{End, Machine};
use crate::system;

const MACHINE: &str = "machine.json";
const PROCESS: &str = "process.json";
const ENDED: &str = "ended.json";
/// That a machine is to run which is held for a moment.
const HELD: &str = "held";
const LOCK: &str = "lock";
pub const LOG: &str = "qemu.log";
pub const MONITOR: &str = "monitor";
/// What the process of the machine may write: it runs there, and its sockets are there. Nothing
/// that is in it is believed.
pub const RUN: &str = "run";
/// Of what QEMU said last.
const SAID_BYTES_MAX: usize = 2_000;

/// Which process a machine is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub pid: u32,
    /// In ticks since boot: the number alone may come to mean another.
    pub began: u64,
    pub boot: String,
}

/// The directory of one machine. It is kept open: its path may be longer than a socket allows.
pub struct Record {
    pub path: PathBuf,
    directory: File,
}

impl Record {
    pub fn make(path: &Path) -> Result<Record, Error> {
        let doing = || Error::io(format!("make {}", path.display()));
        let made = fs::DirBuilder::new().mode(0o700).recursive(true).create(path);
        made.map_err(doing())?;
        Record::open(path)
    }

    pub fn open(path: &Path) -> Result<Record, Error> {
        let directory = File::open(path).map_err(Error::io(format!("open {}", path.display())))?;
        Ok(Record { path: path.to_owned(), directory })
    }

    /// A path of a socket in the directory.
    pub fn socket(&self, name: &str) -> PathBuf {
        format!("/proc/self/fd/{}/{name}", self.directory.as_raw_fd()).into()
    }

    /// A path of a socket that the process of the machine has made.
    pub fn made_socket(&self, name: &str) -> PathBuf {
        format!("/proc/self/fd/{}/{RUN}/{name}", self.directory.as_raw_fd()).into()
    }

    /// The directory of the process, empty.
    pub fn make_run(&self) -> Result<PathBuf, Error> {
        let path = self.path.join(RUN);
        let doing = || Error::io(format!("make {}", path.display()));
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(doing()(error)),
            _ => {}
        }
        fs::DirBuilder::new().mode(0o700).create(&path).map_err(doing())?;
        Ok(path)
    }

    /// The lock that the process of the machine holds while it lives. `None` if one does.
    pub fn lock(&self) -> Result<Option<File>, Error> {
        let doing = || Error::io("lock a machine");
        let mut options = File::options();
        let file = options.create(true).truncate(false).write(true).mode(0o600);
        let file = file.open(self.path.join(LOCK)).map_err(doing())?;
        Ok(system::try_lock(&file).map_err(doing())?.then_some(file))
    }

    pub fn machine(&self) -> Option<Machine> {
        self.read(MACHINE)
    }

    pub fn process(&self) -> Option<Process> {
        self.read(PROCESS)
    }

    pub fn ended(&self) -> Option<End> {
        self.read(ENDED)
    }

    pub fn write_machine(&self, machine: &Machine) -> Result<(), Error> {
        self.write(MACHINE, machine)
    }

    /// Removes cloud-init data that earlier versions wrote to disk. A process that has the file
    /// open keeps it.
    pub fn remove_seed(&self) -> Result<(), Error> {
        if !self.path.join(SEED).exists() {
            return Ok(());
        }
        if let Some(machine) = self.machine() {
            // The record of earlier versions has the texts as well.
            self.write_machine(&machine)?;
        }
        self.remove(SEED)
    }

    pub fn write_process(&self, pid: u32) -> Result<(), Error> {
        let began = system::began(pid).unwrap_or(0);
        self.write(PROCESS, &Process { pid, began, boot: boot() })
    }

    pub fn write_ended(&self, end: &End) -> Result<(), Error> {
        self.write(ENDED, end)
    }

    /// Notes that the machine is to go on, whatever becomes of who holds it.
    pub fn write_held(&self) -> Result<(), Error> {
        self.write(HELD, &true)
    }

    pub fn is_held(&self) -> bool {
        self.path.join(HELD).exists()
    }

    pub fn forget_held(&self) -> Result<(), Error> {
        self.remove(HELD)
    }

    /// What a former life left behind.
    pub fn clear(&self) -> Result<(), Error> {
        [PROCESS, ENDED, LOG, MONITOR, HELD].into_iter().try_for_each(|name| self.remove(name))
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        match fs::remove_file(self.path.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io(format!("remove {name} of a machine"))(error))
            }
            _ => Ok(()),
        }
    }

    /// The last that QEMU said.
    pub fn said(&self) -> String {
        let text = fs::read(self.path.join(LOG)).unwrap_or_default();
        let from = text.len().saturating_sub(SAID_BYTES_MAX);
        String::from_utf8_lossy(&text[from..]).trim().replace('\n', "; ")
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_slice(&fs::read(self.path.join(name)).ok()?).ok()
    }

    /// Whole or not at all.
    fn write<T: Serialize>(&self, name: &str, value: &T) -> Result<(), Error> {
        let doing = || Error::io(format!("write {name} of a machine"));
        let text = serde_json::to_vec(value).map_err(io::Error::other).map_err(doing())?;
        let half = self.path.join(format!("{name}.new"));
        fs::write(&half, text).map_err(doing())?;
        fs::rename(&half, self.path.join(name)).map_err(doing())
    }
}

/// Which boot of this machine it is: a number of a process means nothing in another.
pub fn boot() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cloud_init_data_of_earlier_versions_are_removed() {
        let path = std::env::temp_dir().join(format!("setpoint-record-{}", std::process::id()));
        let record = Record::make(&path).unwrap();
        let old = r#"{"id":"a","name":"a","uuid":"u","processors":1,"memory_bytes":1,"disks":[],
            "seed":{"meta_data":"","user_data":"marker","network_config":null},"interfaces":[],
            "has_screen":false,"has_serial":false,"starts_paused":false}"#;
        fs::write(path.join(MACHINE), old).unwrap();
        fs::write(path.join(SEED), "marker").unwrap();
        record.remove_seed().unwrap();
        assert!(!path.join(SEED).exists());
        assert!(!fs::read_to_string(path.join(MACHINE)).unwrap().contains("marker"));
        assert_eq!(record.machine().map(|machine| machine.id), Some("a".to_owned()));
        fs::remove_dir_all(&path).unwrap();
    }
}
