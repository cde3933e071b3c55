//! One machine that runs: its process, its monitor, and what can be asked of it.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use super::agent;
use super::arguments::{AGENT, SCREEN, SERIAL};
use super::protocol::{Monitor, OnEvent};
use super::record::Record;
use crate::error::Error;
use crate::machine::{End, Figures, Guest, Machine, Pause, State};
use crate::{Connection, Listener, Others, system};

/// How often the power button is pressed: a guest that boots does not notice.
const PRESS: Duration = Duration::from_secs(5);
/// How long QEMU may take to end once it is told to.
const QUIT_MAX: Duration = Duration::from_secs(5);
/// How old what a guest says of itself may be: it is asked no more often, whatever it does.
const GUEST_FRESH: Duration = Duration::from_secs(30);
/// The same for one that did not answer: it may have been about to.
const GUEST_SILENT: Duration = Duration::from_secs(4);
const CONSOLE_BUFFER_BYTES: usize = 64 << 10;

pub struct Running {
    pub machine: Machine,
    pub record: Record,
    pub pid: u32,
    process: OwnedFd,
    child: Arc<Mutex<Option<Child>>>,
    monitor: Monitor,
    /// Counts what happened.
    pub happened: watch::Sender<u64>,
    /// Whoever opens or closes ports of the guest does so alone.
    pub ports: tokio::sync::Mutex<()>,
    /// What the guest said of itself, and when.
    guest: tokio::sync::Mutex<Option<(Instant, Option<Guest>)>>,
    /// Who has the serial console.
    console: Mutex<JoinSet<()>>,
    /// Who looks at the screen.
    viewers: Mutex<JoinSet<()>>,
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
            viewers: Mutex::default(),
            _watch: watch,
        }))
    }

    pub async fn execute(&self, command: &str, arguments: Value) -> Result<Value, Error> {
        self.monitor.execute(command, arguments).await
    }

    /// A command that a file goes along with.
    pub async fn execute_with(
        &self,
        command: &str,
        arguments: Value,
        file: File,
    ) -> Result<Value, Error> {
        self.monitor.execute_with(command, arguments, Some(file)).await
    }

    /// Gives a file to the process, and says by which set it knows it.
    pub async fn give(&self, file: File, named: &str) -> Result<usize, Error> {
        let arguments = json!({"opaque": named});
        let given = self.monitor.execute_with("add-fd", arguments, Some(file)).await?;
        let set = given["fdset-id"].as_u64().and_then(|set| usize::try_from(set).ok());
        set.ok_or_else(|| Error::NotAnswered { command: "add-fd".to_owned() })
    }

    /// Has the process close what it was given under a name.
    pub async fn take_back(&self, named: &str) {
        let Ok(sets) = self.execute("query-fdsets", json!({})).await else { return };
        for set in sets.as_array().into_iter().flatten() {
            let mut files = set["fds"].as_array().into_iter().flatten();
            if files.any(|file| file["opaque"] == named) {
                let _ = self.execute("remove-fd", json!({"fdset-id": set["fdset-id"]})).await;
            }
        }
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

    pub async fn serial(&self) -> Result<Box<dyn Connection>, Error> {
        if !self.machine.has_serial {
            return Err(Error::Invalid("No serial consoles are present.".to_owned()));
        }
        lock(&self.console).abort_all();
        let guest = self.connect(SERIAL).await?;
        Ok(join(guest, &self.console))
    }

    pub async fn screen(&self, others: Others) -> Result<Box<dyn Connection>, Error> {
        if !self.machine.has_screen {
            return Err(Error::Invalid("No graphics devices are present.".to_owned()));
        }
        if others == Others::Leave {
            lock(&self.viewers).abort_all();
        }
        let guest = self.connect(SCREEN).await?;
        Ok(join(guest, &self.viewers))
    }

    /// Connects to what the process of the machine listens on. Whose word it is follows from who
    /// listens: the directory is that process's, and could lead elsewhere.
    async fn connect(&self, socket: &str) -> Result<UnixStream, Error> {
        let doing = || Error::io(format!("reach {socket} of a machine"));
        let stream = UnixStream::connect(self.record.made_socket(socket)).await.map_err(doing())?;
        let peer = stream.peer_cred().map_err(doing())?;
        match peer.pid().and_then(|pid| u32::try_from(pid).ok()) == Some(self.pid) {
            true => Ok(stream),
            false => Err(Error::Invalid(format!("{socket} of the machine is not its own"))),
        }
    }

    /// Whether an agent in the guest listens.
    async fn has_agent(&self) -> Result<bool, Error> {
        let all = self.execute("query-chardev", json!({})).await?;
        let mut all = all.as_array().into_iter().flatten();
        Ok(all.any(|one| one["label"] == "qga" && one["frontend-open"] == true))
    }

    /// What the guest says of itself; `None` where there is no agent in it.
    pub async fn guest(&self) -> Result<Option<Guest>, Error> {
        let mut known = self.guest.lock().await;
        if !self.has_agent().await? {
            *known = None;
            return Ok(None);
        }
        let silent = || Error::NotAnswered { command: "the agent of the guest".to_owned() };
        if let Some((at, guest)) = &*known
            && at.elapsed() < guest.as_ref().map_or(GUEST_SILENT, |_| GUEST_FRESH)
        {
            return guest.clone().map(Some).ok_or_else(silent);
        }
        let guest = agent::ask(self.connect(AGENT).await?, self.pid).await;
        *known = Some((Instant::now(), guest.clone()));
        guest.map(Some).ok_or_else(silent)
    }

    /// Has the guest use the processors that it got: some wait to be told. One that has no agent
    /// does so by itself, or not at all.
    pub async fn use_processors(&self) {
        let _turn = self.guest.lock().await;
        if self.has_agent().await.unwrap_or(false)
            && let Ok(stream) = self.connect(AGENT).await
        {
            agent::use_processors(stream, self.pid).await;
        }
    }

    /// Has the guest write what it holds back, and hold its file systems still until they are
    /// thawed. Says whether it did.
    pub async fn freeze(&self) -> bool {
        // Nobody else is heard meanwhile: there is one conversation at a time.
        let _turn = self.guest.lock().await;
        if !self.has_agent().await.unwrap_or(false) {
            return false;
        }
        match self.connect(AGENT).await {
            Ok(stream) => agent::freeze(stream, self.pid).await,
            Err(_) => false,
        }
    }

    pub async fn thaw(&self) {
        let _turn = self.guest.lock().await;
        if let Ok(stream) = self.connect(AGENT).await
            && !agent::thaw(stream, self.pid).await
        {
            tracing::warn!(machine = self.machine.id, "the file systems of a guest stay frozen");
        }
    }

    /// What the guest last said that went over its interfaces. Nobody waits for it to say so.
    fn network_bytes(&self) -> Option<(u64, u64)> {
        let known = self.guest.try_lock().ok()?;
        let (_, guest) = known.as_ref()?;
        let interfaces = &guest.as_ref()?.interfaces;
        // What it says to itself goes nowhere.
        let outward = interfaces.iter().filter(|one| one.name != "lo");
        Some(outward.fold((0, 0), |(received, sent): (u64, u64), one| {
            (received.saturating_add(one.received_bytes), sent.saturating_add(one.sent_bytes))
        }))
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
            network_bytes: self.network_bytes(),
            pid: self.pid,
        })
    }
}

/// One of those who have something of a machine, until they are told to leave.
fn join(mut guest: UnixStream, those: &Mutex<JoinSet<()>>) -> Box<dyn Connection> {
    let (ours, mut theirs) = tokio::io::duplex(CONSOLE_BUFFER_BYTES);
    let mut those = lock(those);
    // Those who left by themselves are counted no more.
    while those.try_join_next().is_some() {}
    those.spawn(async move {
        let _ = tokio::io::copy_bidirectional(&mut guest, &mut theirs).await;
    });
    Box::new(ours)
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
