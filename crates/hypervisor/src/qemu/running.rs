//! One machine that runs: its process, its monitor, and what can be asked of it.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use super::agent;
use super::arguments::{self, AGENT, SCREEN, SERIAL, contents, device, node};
use super::protocol::{Monitor, OnEvent};
use super::record::Record;
use crate::error::Error;
use crate::machine::{Disk, End, Figures, Guest, Machine, Media, Network, Pause, State};
use crate::{Connection, Copied, Listener, system};

/// How often the power button is pressed: a guest that boots does not notice.
const PRESS: Duration = Duration::from_secs(5);
/// How long QEMU may take to end once it is told to.
const QUIT_MAX: Duration = Duration::from_secs(5);
/// How long a guest may take to let a device go.
const DETACH_MAX: Duration = Duration::from_secs(20);
/// How long copies of disks may take.
const COPY_MAX: Duration = Duration::from_secs(3_600);
/// How old what a guest says of itself may be: it is asked no more often, whatever it does.
const GUEST_FRESH: Duration = Duration::from_secs(30);
const CONSOLE_BUFFER_BYTES: usize = 64 << 10;
/// Ports of one guest that are reached at the same time.
const PORTS_MAX: usize = 256;

pub struct Running {
    pub machine: Machine,
    pub record: Record,
    pub pid: u32,
    process: OwnedFd,
    child: Arc<Mutex<Option<Child>>>,
    monitor: Monitor,
    /// Counts what happened.
    happened: watch::Sender<u64>,
    /// Ports of the guest, and where they are on this machine.
    ports: tokio::sync::Mutex<BTreeMap<u16, u16>>,
    /// What the guest said of itself, and when.
    guest: tokio::sync::Mutex<Option<(Instant, Option<Guest>)>>,
    /// Who has the serial console.
    console: Mutex<JoinSet<()>>,
    _watch: JoinSet<()>,
}

/// A process of QEMU with a connection to it.
pub struct Begun {
    pub machine: Machine,
    pub record: Record,
    pub pid: u32,
    pub process: OwnedFd,
    /// If we started it.
    pub child: Option<Child>,
}

impl Running {
    /// Follows a process whose monitor answers on this connection.
    pub async fn follow(
        begun: Begun,
        stream: UnixStream,
        listener: Arc<Mutex<Option<Listener>>>,
    ) -> Result<Arc<Running>, Error> {
        let Begun { machine, record, pid, process, child } = begun;
        let (happened, _) = watch::channel(0);
        let (told, id) = (happened.clone(), machine.id.clone());
        let tell = Arc::new(move || {
            told.send_modify(|count| *count += 1);
            let listener = lock(&listener).clone();
            if let Some(listener) = listener {
                listener(&id);
            }
        });
        let on_event: OnEvent = {
            let tell = tell.clone();
            Arc::new(move |_, _| tell())
        };
        let monitor = match Monitor::start(stream, on_event).await {
            Ok(monitor) => monitor,
            Err(error) => {
                if let Some(mut child) = child {
                    let _ = child.kill();
                    let _ = child.wait();
                }
                return Err(error);
            }
        };
        let child = Arc::new(Mutex::new(child));
        let mut watch = JoinSet::new();
        let ending = process.try_clone().map_err(Error::io("follow a process"))?;
        let ended = child.clone();
        watch.spawn(async move {
            let _ = system::ended(&ending).await;
            reap(&ended);
            tell();
        });
        Ok(Arc::new(Running {
            machine,
            record,
            pid,
            process,
            child,
            monitor,
            happened,
            ports: tokio::sync::Mutex::default(),
            guest: tokio::sync::Mutex::default(),
            console: Mutex::default(),
            _watch: watch,
        }))
    }

    async fn execute(&self, command: &str, arguments: Value) -> Result<Value, Error> {
        self.monitor.execute(command, arguments).await
    }

    /// What it does; `None` if its process has ended.
    pub async fn state(&self) -> Option<State> {
        let Ok(answer) = self.execute("query-status", json!({})).await else {
            // It may only be slow.
            let ended = timeout(QUIT_MAX, system::ended(&self.process)).await;
            reap(&self.child);
            return ended.is_err().then_some(State::Running);
        };
        Some(match answer["status"].as_str().unwrap_or_default() {
            "paused" | "prelaunch" | "preconfig" | "debug" | "save-vm" => {
                State::Paused(Pause::Asked)
            }
            "io-error" => State::Paused(Pause::Failing),
            "shutdown" => State::Ended(End::Shutdown),
            "guest-panicked" => State::Ended(End::Panicked),
            "internal-error" => State::Ended(End::Crashed("internal error of QEMU".to_owned())),
            _ => State::Running,
        })
    }

    /// Ends the machine, and says how it ended.
    pub async fn stop(&self, grace: Duration) -> End {
        let end = match self.state().await {
            None => End::Crashed(self.record.said()),
            Some(State::Ended(end)) => end,
            Some(_) if !grace.is_zero() => {
                self.shut_down(grace).await.unwrap_or(End::GraceExceeded)
            }
            Some(_) => End::Killed,
        };
        let _ = self.record.write_ended(&end);
        let _ = timeout(QUIT_MAX, self.execute("quit", json!({}))).await;
        if timeout(QUIT_MAX, system::ended(&self.process)).await.is_err() {
            let _ = system::kill(&self.process);
            let _ = system::ended(&self.process).await;
        }
        reap(&self.child);
        end
    }

    /// Presses the button until the guest is off; `None` if it is not when the grace is over.
    async fn shut_down(&self, grace: Duration) -> Option<End> {
        let deadline = Instant::now() + grace;
        loop {
            let _ = self.press().await;
            let until = deadline.min(Instant::now() + PRESS);
            let mut happened = self.happened.subscribe();
            loop {
                match self.state().await {
                    None => return Some(End::Shutdown),
                    Some(State::Ended(end)) => return Some(end),
                    Some(_) => {}
                }
                if timeout_at(until, happened.changed()).await.is_err() {
                    break;
                }
            }
            if Instant::now() >= deadline {
                return None;
            }
        }
    }

    pub async fn press(&self) -> Result<(), Error> {
        if self.state().await == Some(State::Paused(Pause::Asked)) {
            // Who sleeps does not hear the button.
            self.execute("cont", json!({})).await?;
        }
        self.execute("system_powerdown", json!({})).await.map(drop)
    }

    pub async fn reset(&self) -> Result<(), Error> {
        self.execute("system_reset", json!({})).await.map(drop)
    }

    pub async fn pause(&self) -> Result<(), Error> {
        self.execute("stop", json!({})).await.map(drop)
    }

    pub async fn resume(&self) -> Result<(), Error> {
        self.execute("cont", json!({})).await.map(drop)
    }

    pub async fn resize(&self, disk: &str, bytes: u64) -> Result<(), Error> {
        let arguments = json!({"node-name": node(disk), "size": bytes});
        self.execute("block_resize", arguments).await.map(drop)
    }

    pub async fn attach(&self, disk: &Disk) -> Result<(), Error> {
        if disk.media != Media::Disk {
            return Err(Error::Invalid("only disks can be added while a machine runs".to_owned()));
        }
        if self.has_device(&device(&disk.name)).await? {
            return Ok(());
        }
        let port = self.free_port().await?;
        // Left from an attempt that was cut short.
        let _ = self.execute("blockdev-del", json!({"node-name": node(&disk.name)})).await;
        self.execute("blockdev-add", contents(disk)).await?;
        let serial: String = disk.name.chars().take(20).collect();
        let added = self.execute(
            "device_add",
            json!({
                "driver": "virtio-blk-pci", "drive": node(&disk.name), "id": device(&disk.name),
                "serial": serial, "bus": port, "werror": "stop", "rerror": "stop",
            }),
        );
        let added = added.await;
        if added.is_err() {
            let _ = self.execute("blockdev-del", json!({"node-name": node(&disk.name)})).await;
        }
        added.map(drop)
    }

    pub async fn detach(&self, disk: &str) -> Result<(), Error> {
        let mut happened = self.happened.subscribe();
        let deadline = Instant::now() + DETACH_MAX;
        while self.has_device(&device(disk)).await? {
            // One that is asked already says so.
            let _ = self.execute("device_del", json!({"id": device(disk)})).await;
            if timeout_at(deadline, happened.changed()).await.is_err() {
                let said = format!("the guest did not let go of the disk {disk}");
                return Err(Error::Refused { command: "device_del".to_owned(), said });
            }
        }
        match self.execute("blockdev-del", json!({"node-name": node(disk)})).await {
            Err(Error::Refused { said, .. }) if said.contains("Failed to find node") => Ok(()),
            done => done.map(drop),
        }
    }

    async fn has_device(&self, id: &str) -> Result<bool, Error> {
        let all = self.execute("qom-list", json!({"path": "/machine/peripheral"})).await?;
        Ok(all.as_array().into_iter().flatten().any(|one| one["name"] == id))
    }

    /// A place on the bus where nothing is.
    async fn free_port(&self) -> Result<String, Error> {
        let buses = self.execute("query-pci", json!({})).await?;
        let devices = buses.as_array().into_iter().flatten();
        let devices = devices.flat_map(|bus| bus["devices"].as_array().into_iter().flatten());
        let free = devices.filter(|one| {
            let behind = one["pci_bridge"]["devices"].as_array();
            one["pci_bridge"].is_object() && behind.is_none_or(Vec::is_empty)
        });
        let mut free = free.filter_map(|one| one["qdev_id"].as_str());
        let port = free.find(|id| id.starts_with("rp"));
        let none = || Error::Invalid("the machine has no place for another device".to_owned());
        port.map(str::to_owned).ok_or_else(none)
    }

    /// Copies disks as they are at one instant.
    pub async fn copy_disks(&self, copies: &[Copied]) -> Result<(), Error> {
        let mut actions = Vec::new();
        let mut targets = Vec::new();
        for copy in copies {
            let found = self.machine.disks.iter().find(|disk| disk.name == copy.disk);
            let size = match found {
                Some(disk) => std::fs::metadata(&disk.file).map(|file| file.len()),
                None => Err(std::io::Error::other("there is no such disk")),
            };
            let doing = || Error::io(format!("copy the disk {}", copy.disk));
            let size = size.map_err(doing())?;
            let file = std::fs::File::create_new(&copy.to).map_err(doing())?;
            file.set_len(size).map_err(doing())?;
            let name = format!("copy-{}", copy.disk);
            let target = Disk {
                name: name.clone(),
                file: copy.to.clone(),
                boot_order: None,
                is_read_only: false,
                media: Media::Disk,
            };
            self.execute("blockdev-add", contents(&target)).await?;
            actions.push(json!({"type": "blockdev-backup", "data": {
                "job-id": node(&name), "device": node(&copy.disk), "target": node(&name),
                "sync": "full", "auto-dismiss": false,
            }}));
            targets.push(node(&name));
        }
        let made = self.execute("transaction", json!({"actions": actions})).await;
        let done = match made {
            Ok(_) => self.wait_for_jobs(&targets).await,
            Err(error) => Err(error),
        };
        for target in targets {
            let _ = self.execute("job-dismiss", json!({"id": target})).await;
            let _ = self.execute("blockdev-del", json!({"node-name": target})).await;
        }
        done
    }

    async fn wait_for_jobs(&self, ids: &[String]) -> Result<(), Error> {
        let mut happened = self.happened.subscribe();
        let deadline = Instant::now() + COPY_MAX;
        loop {
            let jobs = self.execute("query-jobs", json!({})).await?;
            let of_ours = |job: &&Value| ids.iter().any(|id| job["id"] == id.as_str());
            let jobs: Vec<&Value> = jobs.as_array().into_iter().flatten().filter(of_ours).collect();
            if let Some(said) = jobs.iter().find_map(|job| job["error"].as_str()) {
                let (command, said) = ("blockdev-backup".to_owned(), said.to_owned());
                return Err(Error::Refused { command, said });
            }
            if jobs.iter().all(|job| job["status"] == "concluded") {
                return Ok(());
            }
            if timeout_at(deadline, happened.changed()).await.is_err() {
                return Err(Error::NotAnswered { command: "blockdev-backup".to_owned() });
            }
        }
    }

    pub async fn serial(&self) -> Result<Box<dyn Connection>, Error> {
        if !self.machine.has_serial {
            return Err(Error::Invalid("No serial consoles are present.".to_owned()));
        }
        lock(&self.console).abort_all();
        let mut guest = self.connect(SERIAL).await?;
        let (ours, mut theirs) = tokio::io::duplex(CONSOLE_BUFFER_BYTES);
        lock(&self.console).spawn(async move {
            let _ = tokio::io::copy_bidirectional(&mut guest, &mut theirs).await;
        });
        Ok(Box::new(ours))
    }

    pub async fn screen(&self) -> Result<Box<dyn Connection>, Error> {
        if !self.machine.has_screen {
            return Err(Error::Invalid("No graphics devices are present.".to_owned()));
        }
        Ok(Box::new(self.connect(SCREEN).await?))
    }

    async fn connect(&self, socket: &str) -> Result<UnixStream, Error> {
        let path = self.record.socket(socket);
        UnixStream::connect(path).await.map_err(Error::io(format!("reach {socket} of a machine")))
    }

    pub async fn dial(&self, port: u16) -> Result<Box<dyn Connection>, Error> {
        let doing = || Error::io(format!("reach port {port} of a machine"));
        let own = self.machine.interfaces.iter().find(|one| one.network == Network::Own);
        let none = "the machine has no network through which ports can be reached";
        let own = own.ok_or_else(|| Error::Invalid(none.to_owned()))?;
        let mut ports = self.ports.lock().await;
        if !ports.contains_key(&port) {
            if ports.len() >= PORTS_MAX {
                let why = format!("more than {PORTS_MAX} ports of a machine were reached");
                return Err(Error::Invalid(why));
            }
            let free = std::net::TcpListener::bind(("127.0.0.1", 0)).map_err(doing())?;
            let here = free.local_addr().map_err(doing())?.port();
            drop(free);
            let network = arguments::network(&own.name);
            let line = format!("hostfwd_add {network} tcp:127.0.0.1:{here}-:{port}");
            let command = "human-monitor-command";
            let said = self.execute(command, json!({"command-line": line})).await?;
            if let Some(said) = said.as_str().filter(|said| !said.trim().is_empty()) {
                let (command, said) = ("hostfwd_add".to_owned(), said.trim().to_owned());
                return Err(Error::Refused { command, said });
            }
            ports.insert(port, here);
        }
        let here = ports[&port];
        drop(ports);
        let stream = TcpStream::connect(("127.0.0.1", here)).await.map_err(doing())?;
        Ok(Box::new(stream))
    }

    /// What the guest says of itself; `None` where nobody in it answers.
    pub async fn guest(&self) -> Result<Option<Guest>, Error> {
        let mut known = self.guest.lock().await;
        let all = self.execute("query-chardev", json!({})).await?;
        let mut all = all.as_array().into_iter().flatten();
        if !all.any(|one| one["label"] == "qga" && one["frontend-open"] == true) {
            *known = None;
            return Ok(None);
        }
        if let Some((at, guest)) = &*known
            && at.elapsed() < GUEST_FRESH
        {
            return Ok(guest.clone());
        }
        let guest = agent::ask(self.connect(AGENT).await?, self.pid).await;
        *known = Some((Instant::now(), guest.clone()));
        Ok(guest)
    }

    pub async fn figures(&self) -> Result<Figures, Error> {
        let stats = self.execute("query-blockstats", json!({})).await?;
        let sum = |field: &str| {
            let all = stats.as_array().into_iter().flatten();
            all.filter_map(|one| one["stats"][field].as_u64()).sum()
        };
        Ok(Figures {
            processor_milliseconds: system::computed(self.pid).unwrap_or(0),
            memory_bytes: system::resident(self.pid).unwrap_or(0),
            read_bytes: sum("rd_bytes"),
            written_bytes: sum("wr_bytes"),
            pid: self.pid,
        })
    }
}

/// Nobody else waits for a child of ours; without that something would remain of it.
fn reap(child: &Mutex<Option<Child>>) {
    if let Some(child) = &mut *lock(child) {
        let _ = child.try_wait();
    }
}

pub fn lock<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}
