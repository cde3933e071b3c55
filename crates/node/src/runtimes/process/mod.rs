//! Containers as processes on the host's file system, without any daemon.
//!
//! Every run has a shim (`shim.rs`), a small process that outlives us: it starts the program, keeps
//! its output, and records how it ended. What runs is therefore known after a restart, with the
//! exit codes of what ended meanwhile. A shim is watched by its pidfd.
//!
//! Images are names only: nothing is pulled, so a container needs a command. Containers have
//! namespaces (`world.rs`), control groups (`cgroups/`) and few rights (`credentials.rs`) as far as
//! we may give them: root with `CAP_SYS_ADMIN` everything, others what the kernel lets users do.
//! They see the files and the devices of the host but for what is hidden (`hidden.rs`).

mod attach;
pub(crate) mod capabilities;
pub(crate) mod cgroups;
mod credentials;
mod filter;
mod hidden;
mod ids;
mod isolated;
mod launch;
pub(crate) mod mounts;
pub(crate) mod namespaces;
mod nursery;
mod propagation;
mod record;
mod root;
mod sandbox;
mod shifted;
pub mod shim;
pub(crate) mod streams;
pub(crate) mod system;
mod terminal;
mod world;

#[cfg(test)]
mod confined;
#[cfg(test)]
mod crash;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use link::{Duplex, Program, Streams};
use tokio::sync::watch;

use crate::confinement::Processes;
use crate::failpoints::reached;
use crate::network::Network;
use crate::runtime::{
    Container, ContainerId, ContainerSpec, Executed, Exit, Listener, PodRuntime, PodUsage, Refusal,
    Sandbox, SandboxSpec, State,
};
use cgroups::{Cgroups, Group};
pub(crate) use launch::remove_logs;
use nursery::Nursery;
use record::{Asked, Ended, Place, Started};

/// How long after its program a shim may take to end.
const SHIM_END_MAX: Duration = Duration::from_secs(2);
/// How much of the output of a program beside a container is kept.
const OUTPUT_BYTES_MAX: u64 = 10 << 10;

/// How the runtime is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where records and logs are kept.
    pub directory: PathBuf,
    /// What runs `shim::main`: this program and its arguments.
    pub shim: Vec<OsString>,
    /// How long a start may take: `START_MAX`.
    pub start_max: Duration,
    /// What gives pods addresses; without it they share the machine's.
    pub network: Option<Arc<Network>>,
    /// Paths of the host that no container sees.
    pub hidden: Vec<PathBuf>,
}

/// The runtime. It must be made and used inside a tokio runtime.
pub struct Process {
    options: Options,
    cgroups: Cgroups,
    /// Started with the first container, and again when it is gone.
    nursery: Mutex<Option<Nursery>>,
    held: Arc<Mutex<Held>>,
    listener: Arc<RwLock<Option<Listener>>>,
}

#[derive(Default)]
struct Held {
    runs: BTreeMap<ContainerId, Run>,
    /// Not yet among the runs.
    starting: BTreeSet<ContainerId>,
    /// The pods that were told to share the network of the machine.
    sharing: BTreeSet<String>,
    watchers: tokio::task::JoinSet<()>,
}

struct Run {
    container: Container,
    place: Place,
    log: PathBuf,
    group: Option<Group>,
    stop_signal: i32,
    started: Started,
    /// True when it ended.
    ended: watch::Sender<bool>,
}

/// How a run came to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Started,
    Again,
}

impl Process {
    /// Finds what runs already, and ends what runs without a record.
    pub fn open(options: Options) -> io::Result<Process> {
        fs::create_dir_all(options.directory.join("pods"))?;
        fs::create_dir_all(options.directory.join("logs"))?;
        let cgroups = Cgroups::open(&options.directory);
        let process = Process {
            options,
            cgroups,
            nursery: Mutex::default(),
            held: Arc::default(),
            listener: Arc::default(),
        };
        for place in Place::all(&process.options.directory)? {
            process.find_again(place)?;
        }
        let known: BTreeSet<String> = process.containers().into_keys().collect();
        for pod in process.cgroups.pods().iter().filter(|pod| !known.contains(*pod)) {
            process.cgroups.remove_pod(pod);
        }
        Ok(process)
    }

    /// Takes up a run whose record was found.
    fn find_again(&self, place: Place) -> io::Result<()> {
        let Some(started) = place.find_start() else { return Ok(()) };
        let Some(asked) = place.asked() else { return place.remove() };
        self.take_up(&asked, place, started, Found::Again);
        Ok(())
    }

    /// From here on the run is known, and its end is waited for.
    fn take_up(&self, asked: &Asked, place: Place, started: Started, found: Found) {
        let Asked { spec, log, group, .. } = asked;
        // What ended while nobody looked is not running, not even for a moment.
        let has_ended = found == Found::Again && place.ended().is_some();
        let state = match has_ended {
            true => State::Exited(how_it_ended(&place, &started, group.as_ref())),
            false => State::Running { since: started.at },
        };
        let container = Container {
            id: spec.id.clone(),
            image: spec.image.clone(),
            image_id: String::new(),
            native_id: None,
            failures: spec.failures,
            state,
        };
        let run = Run {
            container,
            place,
            log: log.clone(),
            group: group.clone(),
            stop_signal: spec.stop_signal.unwrap_or(libc::SIGTERM),
            started: started.clone(),
            ended: watch::Sender::new(has_ended),
        };
        self.lock().runs.insert(spec.id.clone(), run);
        if !has_ended {
            self.watch(spec.id.clone(), &started);
        }
    }

    fn log_path(&self, spec: &ContainerSpec) -> PathBuf {
        let ContainerId { pod, name, attempt } = &spec.id;
        let folder = format!("{}_{}_{pod}", spec.namespace, spec.pod_name);
        self.options.directory.join("logs").join(folder).join(name).join(format!("{attempt}.log"))
    }

    /// Waits for the end of a shim, without polling.
    fn watch(&self, id: ContainerId, started: &Started) {
        let (held, listener, started) = (self.held.clone(), self.listener.clone(), started.clone());
        let watcher = async move {
            if let Some(shim) = started.shim()
                && let Ok(shim) = system::wait_on(shim)
            {
                let _ = shim.readable().await;
            }
            let found = {
                let held = held.lock().unwrap_or_else(PoisonError::into_inner);
                held.runs.get(&id).map(|run| (run.place.clone(), run.group.clone()))
            };
            let Some((place, group)) = found else { return };
            let look = move || how_it_ended(&place, &started, group.as_ref());
            let Ok(exit) = tokio::task::spawn_blocking(look).await else { return };
            let ended = {
                let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(run) = held.runs.get_mut(&id) else { return };
                run.container.state = State::Exited(exit);
                run.ended.clone()
            };
            ended.send_replace(true);
            let listener = listener.read().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(listener) = listener {
                listener(&id.pod);
            }
        };
        self.lock().watchers.spawn(watcher);
    }

    /// Whether containers of a pod can enter each other's namespaces.
    fn is_mighty(&self) -> bool {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        capabilities::has(capabilities::effective(&status), capabilities::SYS_ADMIN)
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the shim recorded; without a record it was killed, and what it left is ended.
fn how_it_ended(place: &Place, started: &Started, group: Option<&Group>) -> Exit {
    if let Some(Ended { at, code, signal, is_short_of_memory }) = place.ended() {
        let reason = is_short_of_memory.then_some("OOMKilled");
        return Exit { began: started.at, ended: at, code, signal, reason };
    }
    for left in [started.first(), started.program(group)].into_iter().flatten() {
        let _ = system::signal(&left, libc::SIGKILL);
    }
    if let Some(group) = group {
        group.end();
        group.remove();
    }
    let at = record::now();
    let signal = Some(libc::SIGKILL);
    let ended = Ended { at, code: 137, signal, is_short_of_memory: false };
    let _ = place.write("ended.json", &ended);
    let reason = Some("ContainerStatusUnknown");
    Exit { began: started.at, ended: at, code: 137, signal, reason }
}

#[async_trait::async_trait]
impl PodRuntime for Process {
    fn name(&self) -> &'static str {
        "process"
    }

    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").to_owned()
    }

    fn usage(&self, pod: &str) -> Option<PodUsage> {
        self.cgroups.usage(pod)
    }

    fn listen(&self, listener: Listener) {
        *self.listener.write().unwrap_or_else(PoisonError::into_inner) = Some(listener);
    }

    async fn sandbox(&self, spec: &SandboxSpec) -> Result<Sandbox, Refusal> {
        self.make_sandbox(spec).await
    }

    fn sandbox_of(&self, pod: &str) -> Option<Sandbox> {
        self.find_sandbox(pod)
    }

    fn containers(&self) -> BTreeMap<String, Vec<Container>> {
        let mut all: BTreeMap<String, Vec<Container>> =
            self.sandboxes().into_iter().map(|pod| (pod, Vec::new())).collect();
        for (id, run) in &self.lock().runs {
            let of_pod = all.entry(id.pod.clone()).or_default();
            if id.name != world::HOLDER {
                of_pod.push(run.container.clone());
            }
        }
        all
    }

    fn of_pod(&self, pod: &str) -> Vec<Container> {
        let held = self.lock();
        let from = ContainerId::new(pod, "", 0);
        let runs = held.runs.range(from..).take_while(|(id, _)| id.pod == pod);
        let own = runs.filter(|(id, _)| id.name != world::HOLDER);
        own.map(|(_, run)| run.container.clone()).collect()
    }

    async fn start(&self, spec: &ContainerSpec) -> Result<(), Refusal> {
        let mut shell = spec.clone();
        let spec = match spec.command.is_empty() && spec.input.is_terminal {
            // Who sits at a terminal and names no program wants a shell, as images have it.
            true => {
                shell.command = vec!["sh".to_owned()];
                &shell
            }
            false => spec,
        };
        if spec.command.is_empty() {
            let message = format!(
                "images are not supported by the process runtime: set `command` for container \
                 {:?}, or start with `--runtime docker`",
                spec.id.name
            );
            return Err(Refusal { reason: "CreateContainerConfigError", message });
        }
        if self.lock().runs.contains_key(&spec.id) {
            return Ok(());
        }
        if spec.security.processes == Processes::OfPod && self.is_mighty() {
            self.hold_processes(spec).await?;
        }
        self.launch(spec).await
    }

    async fn stop(&self, id: &ContainerId, grace: Duration) -> Result<(), Refusal> {
        let (started, group, stop_signal, mut ended) = {
            let held = self.lock();
            let Some(run) = held.runs.get(id) else { return Ok(()) };
            (run.started.clone(), run.group.clone(), run.stop_signal, run.ended.subscribe())
        };
        if *ended.borrow() {
            return Ok(());
        }
        if let Some(program) = started.program(group.as_ref()) {
            if !grace.is_zero() {
                let _ = system::signal(&program, stop_signal);
                reached("stop:asked");
                if tokio::time::timeout(grace, ended.wait_for(|it| *it)).await.is_ok() {
                    reached("stop:ended");
                    return Ok(());
                }
            }
            let _ = system::signal(&program, libc::SIGKILL);
        }
        if tokio::time::timeout(SHIM_END_MAX, ended.wait_for(|it| *it)).await.is_ok() {
            return Ok(());
        }
        // The shim holds on to something that does not die; with it goes its record.
        for left in [started.shim(), started.first()].into_iter().flatten() {
            let _ = system::signal(&left, libc::SIGKILL);
        }
        match tokio::time::timeout(SHIM_END_MAX, ended.wait_for(|it| *it)).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Refusal {
                reason: "KillContainerError",
                message: format!("process {} of {:?} does not end", started.pid, id.name),
            }),
        }
    }

    async fn ended(&self, id: &ContainerId) {
        let ended = self.lock().runs.get(id).map(|run| run.ended.subscribe());
        if let Some(mut ended) = ended {
            let _ = ended.wait_for(|ended| *ended).await;
        }
    }

    async fn remove(&self, id: &ContainerId) {
        let removed = {
            let mut held = self.lock();
            while held.watchers.try_join_next().is_some() {}
            match held.runs.get(id) {
                Some(run) if !run.container.is_running() => held.runs.remove(id),
                _ => None,
            }
        };
        if let Some(run) = removed {
            reached("remove:forgotten");
            let _ = run.place.remove();
            reached("remove:container");
            launch::remove_logs(&run.log);
        }
    }

    async fn remove_pod(&self, pod: &str) {
        let mut ids: Vec<ContainerId> = self.of_pod(pod).into_iter().map(|one| one.id).collect();
        let log = ids.first().map(|id| self.log(id));
        let holder = ContainerId::new(pod, world::HOLDER, 0);
        if let Err(refusal) = self.stop(&holder, Duration::ZERO).await {
            tracing::warn!(pod, %refusal, "the pod's processes are still held");
        }
        ids.push(holder);
        for id in ids {
            self.remove(&id).await;
        }
        // The folder of the pod's logs is two above a log.
        if let Some(folder) = log.as_deref().and_then(Path::parent).and_then(Path::parent) {
            let _ = fs::remove_dir_all(folder);
        }
        reached("remove:logs");
        let (cgroups, of) = (self.cgroups.clone(), pod.to_owned());
        let _ = tokio::task::spawn_blocking(move || cgroups.remove_pod(&of)).await;
        reached("remove:groups");
        let _ = fs::remove_dir_all(self.options.directory.join("pods").join(pod));
        self.remove_sandbox(pod).await;
    }

    fn log(&self, id: &ContainerId) -> PathBuf {
        self.lock().runs.get(id).map(|run| run.log.clone()).unwrap_or_default()
    }

    async fn exec(&self, id: &ContainerId, command: &[String]) -> Result<Executed, Refusal> {
        let refused = |message: String| Refusal { reason: "ExecError", message };
        let found = {
            let held = self.lock();
            let run = held.runs.get(id).filter(|run| run.container.is_running());
            run.and_then(|run| {
                let asked = run.place.asked_while_running(&run.started)?;
                Some((asked, run.started.clone()))
            })
        };
        let (asked, started) =
            found.ok_or_else(|| refused(format!("container {:?} does not run", id.name)))?;
        let mut program =
            shim::beside(&asked, &started, command).map_err(|error| refused(error.to_string()))?;
        program.stdin(Stdio::null());
        let ran = shim::collect(program, OUTPUT_BYTES_MAX).await;
        let (code, output) = ran.map_err(|error| refused(error.to_string()))?;
        Ok(Executed { code, output })
    }

    async fn run_beside(
        &self,
        id: &ContainerId,
        command: &[String],
        wanted: &Streams,
    ) -> Result<Program, Refusal> {
        self.open_beside(id, command, wanted)
    }

    async fn attach(&self, id: &ContainerId, wanted: &Streams) -> Result<Program, Refusal> {
        self.open_attached(id, wanted).await
    }

    async fn dial(
        &self,
        pod: &str,
        address: Option<IpAddr>,
        port: u16,
    ) -> Result<Box<dyn Duplex>, Refusal> {
        self.connect(pod, address, port).await
    }
}

/// How many runs of a place of records go on. Nothing is changed.
pub fn count_running(directory: &Path) -> usize {
    let goes_on = |place: &Place| {
        let started = place.started().filter(|_| place.ended().is_none());
        started.is_some_and(|it| it.shim().is_some())
    };
    Place::all(directory).unwrap_or_default().iter().filter(|place| goes_on(place)).count()
}
