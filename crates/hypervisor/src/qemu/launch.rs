//! Starts the process of a machine.

use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::UnixStream;

use super::accelerator::Accelerator;
use super::arguments::{self, Contents, Given};
use super::record::{LOG, MONITOR, Record};
use super::running::{Begun, Running};
use super::{PACKAGE, PROGRAM, Qemu, disks, memory};
use crate::confinement::{self, Groups, Limits};
use crate::error::Error;
use crate::machine::{Interface, Machine, Network};
use crate::system::Detached;
use crate::{Listener, bridge, device, seed, system};

pub struct Order<'a> {
    pub machine: &'a Machine,
    pub accelerator: Accelerator,
    /// Of the hypervisor.
    pub directory: &'a Path,
    /// Of the machine.
    pub path: &'a Path,
    pub listener: &'a Arc<Mutex<Option<Listener>>>,
    pub groups: Option<&'a dyn Groups>,
}

pub async fn launch(order: Order<'_>) -> Result<Arc<Running>, Error> {
    let machine = order.machine;
    let record = Record::make(order.path)?;
    // From here on until the process ends nobody else starts the machine.
    let Some(lock) = record.lock()? else {
        return Err(Error::AlreadyRuns { id: machine.id.clone() });
    };
    let launched = begin(&order, record, lock).await;
    if let (Err(_), Some(groups)) = (&launched, order.groups) {
        groups.remove(&machine.id);
    }
    launched
}

async fn begin(order: &Order<'_>, record: Record, lock: File) -> Result<Arc<Running>, Error> {
    let machine = order.machine;
    record.clear()?;
    record.write_machine(machine)?;
    let monitor = UnixListener::bind(record.socket(MONITOR));
    let monitor = monitor.map_err(Error::io("listen for the monitor of a machine"))?;
    let given = Files {
        taps: connect(order.directory, machine)?,
        disks: open_disks(order.path, machine)?,
        lock,
        monitor,
    };
    let child = spawn(order, &record.make_run()?, &given)?;
    let pid = child.id();
    record.write_process(pid)?;
    let stream = UnixStream::connect(record.socket(MONITOR)).await;
    // What QEMU has of these is its own; were they ours too, we would keep them open for it.
    drop(given);
    let stream = stream.map_err(Error::io("reach the monitor of a machine"))?;
    let Some(process) = open(pid) else { return Err(failed(order.path)) };
    let machine = machine.clone();
    let begun = Begun { machine, record, pid, process, child: Some(child) };
    // The process may end before it greets; then what it said is why.
    let running = Running::follow(begun, stream, order.listener.clone()).await;
    let running = running.map_err(|_| failed(order.path))?;
    if let Some(file) = &order.machine.goes_on_from
        && let Err(error) = memory::go_on(&running, file).await
    {
        running.stop(Duration::ZERO).await;
        let _ = fs::remove_dir_all(order.path);
        return Err(Error::DidNotStart { said: error.chain() });
    }
    Ok(running)
}

/// What a process is given.
struct Files {
    lock: File,
    monitor: UnixListener,
    taps: Vec<File>,
    disks: Vec<Contents<File>>,
}

/// Opens the disks of a machine in their order, and its cloud-init data, which are in memory only.
fn open_disks(path: &Path, machine: &Machine) -> Result<Vec<Contents<File>>, Error> {
    let disks = machine.disks.iter().map(|disk| disks::open(disk, path));
    let mut all: Vec<Contents<File>> = disks.collect::<Result<_, _>>()?;
    if let Some(seed) = &machine.seed {
        let file = system::memory_file("cloud-init", &seed::write(seed)?);
        let file = file.map_err(Error::io("keep the cloud-init data of a machine in memory"))?;
        all.push(Contents { file, base: None });
    }
    Ok(all)
}

fn open(pid: u32) -> Option<OwnedFd> {
    system::open_process(pid, system::began(pid)?)
}

/// Why a process ended before it began; nothing remains of it.
fn failed(path: &Path) -> Error {
    let said = Record::open(path).map(|record| record.said()).unwrap_or_default();
    let said = if said.is_empty() { "it said nothing".to_owned() } else { said };
    let _ = fs::remove_dir_all(path);
    Error::DidNotStart { said }
}

/// Connects the interfaces that are on bridges and devices, in their order.
fn connect(directory: &Path, machine: &Machine) -> Result<Vec<File>, Error> {
    let mut taps = Vec::new();
    for interface in &machine.interfaces {
        taps.extend(connect_one(directory, &machine.id, interface)?);
    }
    Ok(taps)
}

/// Connects an interface, if it is to be.
pub fn connect_one(
    directory: &Path,
    id: &str,
    interface: &Interface,
) -> Result<Option<File>, Error> {
    match &interface.network {
        Network::Own => Ok(None),
        Network::Bridge(bridge) => bridge::connect(directory, bridge).map(Some),
        Network::Device(of) => device::connect(directory, (id, of), interface).map(Some),
    }
}

fn spawn(order: &Order<'_>, run: &Path, files: &Files) -> Result<Child, Error> {
    let missing = Error::NotInstalled { program: PROGRAM, package: PACKAGE };
    let program = Qemu::find_program().ok_or(missing)?;
    let numbers = |files: &[File]| files.iter().map(AsRawFd::as_raw_fd).collect::<Vec<RawFd>>();
    let taps = numbers(&files.taps);
    let disks = files.disks.iter().map(|disk| Contents {
        file: disk.file.as_raw_fd(),
        base: disk.base.as_ref().map(AsRawFd::as_raw_fd),
    });
    let disks: Vec<Contents<RawFd>> = disks.collect();
    let monitor = files.monitor.as_raw_fd();
    let given = Given { accelerator: order.accelerator, monitor, taps: &taps, disks: &disks };
    let mut command = Command::new(program);
    command.args(arguments::arguments(order.machine, &given)?);
    let doing = || Error::io("start a machine");
    let log = File::create(order.path.join(LOG)).map_err(doing())?;
    command.current_dir(run).env_clear();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let user = confinement::user(&order.machine.id, order.accelerator);
    if let Some(user) = &user {
        confinement::give(run, user).map_err(doing())?;
    }
    let of_disks = disks.iter().flat_map(|disk| [Some(disk.file), disk.base]).flatten();
    let of_disks: Vec<RawFd> = of_disks.collect();
    let inherited = [&[files.lock.as_raw_fd(), monitor], &taps[..], &of_disks[..]].concat();
    system::detach(&mut command, Detached { inherited, doors: doors(order), user });
    command.spawn().map_err(doing())
}

/// Makes the group of a machine. One that cannot be bounded runs all the same.
fn doors(order: &Order<'_>) -> Vec<File> {
    let Some(groups) = order.groups else { return Vec::new() };
    let limits = Limits::of(order.machine, order.accelerator);
    groups.make(&order.machine.id, &limits).unwrap_or_else(|error| {
        tracing::warn!(machine = order.machine.id, %error, "nothing bounds a machine");
        Vec::new()
    })
}
