//! Machines as processes of QEMU: one each, which outlives us and is found again.
//!
//! Every machine has a directory (`record.rs`). Its process holds a lock there as long as it lives,
//! by a descriptor that it inherits: no two can be, and whether one lives is asked of the kernel.
//! Commands go over the monitor (`protocol.rs`).

pub mod accelerator;
mod agent;
pub mod arguments;
mod disks;
mod interfaces;
mod launch;
pub mod memory;
mod ports;
mod processors;
mod protocol;
mod record;
mod running;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::net::UnixStream;
use tokio::sync::OnceCell;

use self::accelerator::Accelerator;
use self::record::{MONITOR, RUN, Record};
use self::running::{Begun, Running, lock};
use crate::confinement::{Groups, Limits};
use crate::error::Error;
use crate::machine::{Disk, End, Figures, Guest, Interface, Machine, Opened, Port, State};
use crate::{
    Connection, Copied, Hypervisor, Kind, Listener, Others, Quiet, bridge, device, system,
};

pub const PROGRAM: &str = "qemu-system-x86_64";
pub const PACKAGE: &str = "qemu-system-x86";
/// Looked at after `PATH`.
const USUAL: [&str; 3] = ["/usr/bin", "/usr/local/bin", "/usr/libexec"];
/// Below the directory of the hypervisor.
const MACHINES: &str = "machines";

pub struct Qemu {
    directory: PathBuf,
    machines: Mutex<BTreeMap<String, Arc<Running>>>,
    /// What was found to run guests.
    accelerator: OnceCell<Accelerator>,
    /// What bounds machines, if anything does.
    groups: Option<Arc<dyn Groups>>,
    listener: Arc<Mutex<Option<Listener>>>,
}

impl Qemu {
    /// Finds machines that run again. Their guests notice nothing.
    pub async fn open(directory: &Path) -> Result<Qemu, Error> {
        Qemu::open_bounded(directory, None).await
    }

    /// As `open`; what machines use is bounded.
    pub async fn open_bounded(
        directory: &Path,
        groups: Option<Arc<dyn Groups>>,
    ) -> Result<Qemu, Error> {
        let machines = directory.join(MACHINES);
        fs::create_dir_all(&machines).map_err(Error::io(format!("make {}", machines.display())))?;
        let qemu = Qemu {
            directory: directory.to_owned(),
            machines: Mutex::default(),
            accelerator: OnceCell::new(),
            groups,
            listener: Arc::default(),
        };
        for id in qemu.ids() {
            let removed = Record::open(&qemu.path(&id)).and_then(|record| record.remove_seed());
            if let Err(error) = removed {
                tracing::warn!(machine = id, error = error.chain(), "cloud-init data not removed");
            }
            match qemu.adopt(&id).await {
                Ok(true) => tracing::info!(machine = id, "found again"),
                Ok(false) => {}
                Err(error) => tracing::warn!(machine = id, error = error.chain(), "not adopted"),
            }
        }
        qemu.remove_unused();
        Ok(qemu)
    }

    /// Whether the program is installed.
    pub fn find_program() -> Option<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        // Who starts services often leaves out where programs are.
        let places = std::env::split_paths(&path).chain(USUAL.iter().map(PathBuf::from));
        places.map(|place| place.join(PROGRAM)).find(|file| file.is_file())
    }

    /// Takes up a machine that another process of ours started. Says whether it lives.
    async fn adopt(&self, id: &str) -> Result<bool, Error> {
        let record = Record::open(&self.path(id))?;
        if record.lock()?.is_some() {
            return Ok(false);
        }
        let unknown = || Error::Invalid("a process holds the lock, and nobody knows which".into());
        let (pid, found) = find(&record).ok_or_else(unknown)?;
        let Some(machine) = record.machine() else {
            // It was started and never told what it is.
            let _ = system::kill(&found);
            return Err(unknown());
        };
        let stream = UnixStream::connect(record.socket(MONITOR)).await;
        let stream = stream.map_err(Error::io("reach the monitor of a machine"))?;
        let begun = Begun { machine, record, pid, process: found, child: None };
        let running = Running::follow(begun, stream, self.listener.clone()).await?;
        if running.machine.goes_on_from.as_ref().is_some_and(|file| file.exists()) {
            // Whoever started it did not come to the end of it: it has executed nothing.
            running.stop(Duration::ZERO).await;
            return Ok(false);
        }
        running.let_go_on().await?;
        lock(&self.machines).insert(id.to_owned(), running);
        Ok(true)
    }

    fn path(&self, id: &str) -> PathBuf {
        self.directory.join(MACHINES).join(id)
    }

    fn running(&self, id: &str) -> Result<Arc<Running>, Error> {
        let found = lock(&self.machines).get(id).cloned();
        found.ok_or_else(|| Error::NotRunning { id: id.to_owned() })
    }

    async fn accelerator(&self) -> Accelerator {
        let find = async {
            let directory = self.directory.clone();
            let found = tokio::task::spawn_blocking(move || match Qemu::find_program() {
                Some(program) => accelerator::find(&program, &directory),
                None => Accelerator::Software,
            });
            found.await.unwrap_or(Accelerator::Software)
        };
        *self.accelerator.get_or_init(|| find).await
    }

    /// Takes away what was made to connect machines that do not run.
    fn remove_unused(&self) {
        bridge::remove_unused(&self.directory);
        device::remove_unused(&self.directory, |id| self.is_locked(id));
    }

    /// Whether a process of a machine lives, known or not.
    fn is_locked(&self, id: &str) -> bool {
        let record = Record::open(&self.path(id));
        record.is_ok_and(|record| record.lock().is_ok_and(|lock| lock.is_none()))
    }

    /// What became of a machine that does not run.
    fn left(&self, id: &str) -> State {
        let Ok(record) = Record::open(&self.path(id)) else { return State::Absent };
        match (record.ended(), record.process()) {
            (Some(end), _) => State::Ended(end),
            (None, Some(_)) => State::Ended(End::Crashed(record.said())),
            (None, None) => State::Absent,
        }
    }
}

/// The process of a machine: as it was written down, or, if whoever started it was killed before it
/// could, the one that runs in its directory.
fn find(record: &Record) -> Option<(u32, OwnedFd)> {
    let written = record.process().filter(|process| process.boot == record::boot());
    let written = written
        .and_then(|process| Some((process.pid, system::open_process(process.pid, process.began)?)));
    written.or_else(|| {
        let pid = system::process_in(&record.path.join(RUN))?;
        Some((pid, system::open_process(pid, system::began(pid)?)?))
    })
}

fn is_file_name(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !id.is_empty() && id.len() <= 128 && !id.starts_with('.') && id.bytes().all(is_plain)
}

#[async_trait]
impl Hypervisor for Qemu {
    fn ids(&self) -> Vec<String> {
        let found = fs::read_dir(self.directory.join(MACHINES)).into_iter().flatten().flatten();
        found.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    async fn launch(&self, machine: &Machine) -> Result<(), Error> {
        if !is_file_name(&machine.id) {
            return Err(Error::Invalid(format!("{:?} is no id of a machine", machine.id)));
        }
        let accelerator = self.accelerator().await;
        let path = self.path(&machine.id);
        let running = launch::launch(launch::Order {
            machine,
            accelerator,
            directory: &self.directory,
            path: &path,
            listener: &self.listener,
            groups: self.groups.as_deref(),
        });
        let running = running.await.inspect_err(|_| {
            // What it was connected to it is not any more.
            self.remove_unused();
        })?;
        lock(&self.machines).insert(machine.id.clone(), running);
        Ok(())
    }

    async fn state(&self, id: &str) -> State {
        let running = match self.running(id) {
            Ok(running) => running,
            Err(_) if !self.is_locked(id) => return self.left(id),
            // It lives, and was not found at the start.
            Err(_) => match (self.adopt(id).await, self.running(id)) {
                (Ok(true), Ok(running)) => running,
                (Ok(false), _) => return self.left(id),
                _ => return State::Running,
            },
        };
        if let Some(state) = running.state().await {
            return state;
        }
        lock(&self.machines).remove(id);
        self.remove_unused();
        self.left(id)
    }

    async fn press(&self, id: &str) -> Result<(), Error> {
        self.running(id)?.press().await
    }

    async fn stop(&self, id: &str, grace: Duration) -> Result<End, Error> {
        if self.running(id).is_err() && self.is_locked(id) {
            self.adopt(id).await?;
        }
        let Ok(running) = self.running(id) else {
            return match self.left(id) {
                State::Ended(end) => Ok(end),
                _ => Err(Error::NotRunning { id: id.to_owned() }),
            };
        };
        let end = running.stop(grace).await;
        lock(&self.machines).remove(id);
        self.remove_unused();
        Ok(end)
    }

    async fn remove(&self, id: &str) -> Result<(), Error> {
        let Ok(record) = Record::open(&self.path(id)) else { return Ok(()) };
        let Some(_lock) = record.lock()? else {
            return Err(Error::AlreadyRuns { id: id.to_owned() });
        };
        lock(&self.machines).remove(id);
        if let Some(groups) = &self.groups {
            groups.remove(id);
        }
        self.remove_unused();
        fs::remove_dir_all(&record.path).map_err(Error::io("forget a machine"))
    }

    async fn reset(&self, id: &str) -> Result<(), Error> {
        self.running(id)?.reset().await
    }

    async fn pause(&self, id: &str) -> Result<(), Error> {
        self.running(id)?.pause().await
    }

    async fn resume(&self, id: &str) -> Result<(), Error> {
        self.running(id)?.resume().await
    }

    async fn attach(&self, id: &str, disk: &Disk) -> Result<(), Error> {
        self.running(id)?.attach(disk).await
    }

    async fn detach(&self, id: &str, disk: &str) -> Result<(), Error> {
        self.running(id)?.detach(disk).await
    }

    async fn attach_interface(&self, id: &str, interface: &Interface) -> Result<(), Error> {
        let running = self.running(id)?;
        let attached = running.attach_interface(interface, &self.directory).await;
        attached.inspect_err(|_| {
            // Nobody is connected to what was made for it.
            device::disconnect(&self.directory, id, &interface.name);
            self.remove_unused();
        })
    }

    async fn detach_interface(&self, id: &str, interface: &str) -> Result<(), Error> {
        self.running(id)?.detach_interface(interface).await?;
        device::disconnect(&self.directory, id, interface);
        self.remove_unused();
        Ok(())
    }

    async fn interfaces(&self, id: &str) -> Result<Vec<String>, Error> {
        self.running(id)?.interfaces().await
    }

    async fn add_processors(&self, id: &str, count: u32) -> Result<(), Error> {
        let running = self.running(id)?;
        running.add_processors(count).await?;
        if let Some(groups) = self.groups.as_ref().filter(|_| count > running.machine.processors) {
            let machine = Machine { processors: count, ..running.machine.clone() };
            let limits = Limits::of(&machine, self.accelerator().await);
            // It has its group: what that bounds is all that changes.
            if let Err(error) = groups.make(id, &limits) {
                tracing::warn!(machine = id, %error, "a group bounds a machine as before");
            }
        }
        Ok(())
    }

    async fn resize(&self, id: &str, disk: &str, bytes: u64) -> Result<(), Error> {
        self.running(id)?.resize(disk, bytes).await
    }

    async fn disk_bytes(&self, id: &str, disk: &str) -> Result<u64, Error> {
        self.running(id)?.size(disk).await
    }

    async fn copy(
        &self,
        id: &str,
        disks: &[Copied],
        memory: Option<&Path>,
    ) -> Result<Quiet, Error> {
        self.running(id)?.copy(disks, memory).await
    }

    async fn serial(&self, id: &str) -> Result<Box<dyn Connection>, Error> {
        self.running(id)?.serial().await
    }

    async fn screen(&self, id: &str, others: Others) -> Result<Box<dyn Connection>, Error> {
        self.running(id)?.screen(others).await
    }

    async fn dial(&self, id: &str, port: u16) -> Result<Box<dyn Connection>, Error> {
        self.running(id)?.dial(port).await
    }

    async fn open_ports(
        &self,
        id: &str,
        at: Ipv4Addr,
        ports: &BTreeSet<Port>,
    ) -> Result<Opened, Error> {
        self.running(id)?.open_ports(at, ports).await
    }

    async fn close_other_ports(
        &self,
        id: &str,
        at: Ipv4Addr,
        ports: &BTreeSet<Port>,
    ) -> Result<(), Error> {
        self.running(id)?.close_other_ports(at, ports).await
    }

    async fn figures(&self, id: &str) -> Result<Figures, Error> {
        self.running(id)?.figures().await
    }

    async fn guest(&self, id: &str) -> Result<Option<Guest>, Error> {
        self.running(id)?.guest().await
    }

    async fn kind(&self) -> Kind {
        match self.accelerator().await {
            Accelerator::Hardware | Accelerator::HardwareReduced => Kind::Hardware,
            Accelerator::Software => Kind::Software,
        }
    }

    fn listen(&self, listener: Listener) {
        lock(&self.listener).get_or_insert(listener);
    }
}
