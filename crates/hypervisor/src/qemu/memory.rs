//! The memory of a machine, kept in a file, and taken up again by one that is the same.
//!
//! QEMU writes it as a snapshot that is inside of a disk of its own, which no guest sees. Beside it
//! is noted what the machine was: memory fits no other.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::arguments::{CARD, all_disks, card, device, node};
use super::running::Running;
use crate::error::Error;
use crate::images::{self, Access};
use crate::machine::{Machine, Pause, State};

/// What QEMU knows the file by; no disk that is asked for can be called so.
const KEPT: &str = "kept.memory";
const RAW: &str = "kept.file";
const JOB: &str = "kept.job";
/// Of the snapshot within the file.
const TAG: &str = "memory";
/// What a guest could see of the disk, if one had it.
const DISK_BYTES: u64 = 1 << 20;

/// Whose doing it is that a machine is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    ByUs,
    Before,
}

/// What a file of memory is of.
pub fn note_of(file: &Path) -> PathBuf {
    file.with_extension("json")
}

/// Whether a machine can go on from a file of memory.
///
/// # Errors
/// Says what is different.
pub fn fits(file: &Path, machine: &Machine) -> Result<(), String> {
    let note = fs::read(note_of(file)).ok();
    let was: Option<Machine> = note.and_then(|note| serde_json::from_slice(&note).ok());
    let was = was.ok_or_else(|| "it is not known of which machine the memory is".to_owned())?;
    let disks = |of: &Machine| -> Vec<_> {
        let all = all_disks(of).into_iter();
        all.map(|one| (one.name, one.boot_order, one.is_read_only, one.media)).collect()
    };
    let what = match () {
        () if (was.processors, was.processors_max)
            != (machine.processors, machine.processors_max) =>
        {
            "processors"
        }
        () if was.memory_bytes != machine.memory_bytes => "memory",
        () if disks(&was) != disks(machine) => "disks",
        () if was.interfaces != machine.interfaces => "interfaces",
        () if (was.has_screen, was.has_serial) != (machine.has_screen, machine.has_serial) => {
            "consoles"
        }
        () => return Ok(()),
    };
    Err(format!("the machine has other {what} than when its memory was kept"))
}

impl Running {
    /// Stops the guest for a moment, after which it goes on even if we do not.
    pub async fn hold(&self) -> Result<Held, Error> {
        if self.state().await != Some(State::Running) {
            return Ok(Held::Before);
        }
        self.record.write_held()?;
        self.pause().await?;
        Ok(Held::ByUs)
    }

    /// Lets a guest go on that is held for a moment.
    pub async fn let_go_on(&self) -> Result<(), Error> {
        if !self.record.is_held() {
            return Ok(());
        }
        if self.state().await == Some(State::Paused(Pause::Asked)) {
            self.resume().await?;
        }
        self.record.forget_held()
    }

    /// Whether it has what it was started with, and nothing else: what came later is not where it
    /// would be if it were started with it.
    pub async fn check_as_started(&self) -> Result<(), Error> {
        let devices = self.devices().await?;
        let is_ours = |name: &&String| {
            ["ua-", CARD, "processor-"].iter().any(|begin| name.starts_with(begin))
        };
        let mut has: Vec<String> = devices.iter().filter(is_ours).cloned().collect();
        let disks = all_disks(&self.machine).into_iter().map(|disk| device(&disk.name));
        let cards = self.machine.interfaces.iter().map(|one| card(&one.name));
        let mut had: Vec<String> = disks.chain(cards).collect();
        has.sort();
        had.sort();
        match has == had {
            true => Ok(()),
            false => Err(Error::Invalid(
                "devices came or went while the machine ran: its memory can be kept after a \
                 restart"
                    .to_owned(),
            )),
        }
    }

    /// Writes the memory of a guest that is held into a file that does not exist yet.
    pub async fn keep_memory(&self, file: &Path) -> Result<(), Error> {
        let doing = || Error::io("keep the memory of a machine");
        self.forget_memory().await;
        let options = File::options().read(true).write(true).create_new(true).open(file);
        let options = options.map_err(doing())?;
        let synced = options.try_clone().map_err(doing())?;
        let kept = async {
            self.add_file(options).await?;
            let size = json!({"driver": "qcow2", "file": node(RAW), "size": DISK_BYTES});
            let create = json!({"job-id": node(JOB), "options": size});
            self.do_job("blockdev-create", create).await?;
            self.add_disk_of_memory().await?;
            self.do_job("snapshot-save", snapshot()).await
        };
        let kept = kept.await;
        self.forget_memory().await;
        kept?;
        let note = serde_json::to_vec(&self.machine).map_err(std::io::Error::other);
        let noted = note.and_then(|note| fs::write(note_of(file), note));
        noted.and_then(|()| synced.sync_all()).map_err(doing())
    }

    /// Takes up memory that was kept, before anything was executed.
    pub async fn take_up(&self, file: &Path) -> Result<(), Error> {
        let opened = images::open(file, Access::Write);
        let opened = opened.map_err(Error::io("open the memory of a machine"))?;
        self.add_file(opened).await?;
        let taken = async {
            self.add_disk_of_memory().await?;
            self.do_job("snapshot-load", snapshot()).await
        };
        let taken = taken.await;
        self.forget_memory().await;
        taken
    }

    async fn add_file(&self, file: File) -> Result<(), Error> {
        let set = self.give(file, &node(RAW)).await?;
        let name = format!("/dev/fdset/{set}");
        let file = json!({"driver": "file", "node-name": node(RAW), "filename": name});
        self.execute("blockdev-add", file).await.map(drop)
    }

    async fn add_disk_of_memory(&self) -> Result<(), Error> {
        let disk = json!({"driver": "qcow2", "node-name": node(KEPT), "file": node(RAW)});
        self.execute("blockdev-add", disk).await.map(drop)
    }

    async fn do_job(&self, command: &str, arguments: serde_json::Value) -> Result<(), Error> {
        self.execute(command, arguments).await?;
        let done = self.wait_for_jobs(&[node(JOB)]).await;
        let _ = self.execute("job-dismiss", json!({"id": node(JOB)})).await;
        done
    }

    /// What is left of the file, also of an attempt that was cut short.
    async fn forget_memory(&self) {
        self.forget_job(JOB).await;
        self.drop_contents(KEPT).await;
        self.drop_contents(RAW).await;
    }
}

fn snapshot() -> serde_json::Value {
    json!({"job-id": node(JOB), "tag": TAG, "vmstate": node(KEPT), "devices": [node(KEPT)]})
}

/// Has a machine that was started for it go on from memory that was kept.
pub async fn go_on(running: &Running, file: &Path) -> Result<(), Error> {
    running.take_up(file).await?;
    if !running.machine.starts_paused {
        running.record.write_held()?;
    }
    // From here on it is what the machine has, and the disks follow it.
    let doing = || Error::io("let go of the memory of a machine");
    fs::remove_file(file).map_err(doing())?;
    let _ = fs::remove_file(note_of(file));
    running.let_go_on().await
}
