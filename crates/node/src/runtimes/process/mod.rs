//! Containers as processes on the host's file system, without any daemon.
//!
//! Every run has a shim (`shim.rs`), a small process that outlives us: it starts the program, keeps
//! its output, and records how it ended. What runs is therefore known after a restart, with the
//! exit codes of what ended meanwhile. A shim is watched by its pidfd.
//!
//! Images are names only: nothing is pulled, so a container must say its command. Mounts need a
//! mount namespace (`mounts.rs`); without the right to make one a container with mounts is refused.

mod attach;
mod mounts;
mod record;
mod sandbox;
pub mod shim;
mod streams;
pub(crate) mod system;
mod terminal;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::watch;

use crate::network::Network;
use crate::runtime::{
    Container, ContainerId, ContainerSpec, Executed, Exit, Listener, PodRuntime, Refusal,
    START_MAX, Sandbox, SandboxSpec, State,
};
use crate::server::streams::{Duplex, Streams, Wanted};
use record::{Ended, Place, Started};

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
    /// What gives pods addresses; without it they share the machine's.
    pub network: Option<Arc<Network>>,
}

/// The runtime. It must be made and used inside a tokio runtime.
pub struct Process {
    options: Options,
    held: Arc<Mutex<Held>>,
    listener: Arc<RwLock<Option<Listener>>>,
}

#[derive(Default)]
struct Held {
    runs: BTreeMap<ContainerId, Run>,
    watchers: tokio::task::JoinSet<()>,
}

struct Run {
    container: Container,
    place: Place,
    log: PathBuf,
    started: Option<Started>,
    /// True when it ended.
    ended: watch::Sender<bool>,
}

impl Process {
    /// Finds what runs already.
    pub fn open(options: Options) -> io::Result<Process> {
        fs::create_dir_all(options.directory.join("pods"))?;
        fs::create_dir_all(options.directory.join("logs"))?;
        let process = Process { options, held: Arc::default(), listener: Arc::default() };
        for place in Place::all(&process.options.directory)? {
            process.find_again(place)?;
        }
        Ok(process)
    }

    /// Takes up a run whose record was found.
    fn find_again(&self, place: Place) -> io::Result<()> {
        let Some(spec) = place.spec() else {
            // Its record was never whole, so it never ran.
            return place.remove();
        };
        let log = self.log_path(&spec);
        let started = place.wait_for_start();
        let Some(started) = started else { return place.remove() };
        let container = Container {
            id: spec.id.clone(),
            image: spec.image.clone(),
            failures: spec.failures,
            state: State::Running { since: started.at },
        };
        let run = Run {
            container,
            place,
            log,
            started: Some(started.clone()),
            ended: watch::Sender::new(false),
        };
        self.lock().runs.insert(spec.id.clone(), run);
        self.watch(spec.id, &started, None);
        Ok(())
    }

    fn log_path(&self, spec: &ContainerSpec) -> PathBuf {
        let ContainerId { pod, name, attempt } = &spec.id;
        let folder = format!("{}_{}_{pod}", spec.namespace, spec.pod_name);
        self.options.directory.join("logs").join(folder).join(name).join(format!("{attempt}.log"))
    }

    /// Waits for the end of a shim, without polling.
    fn watch(&self, id: ContainerId, started: &Started, child: Option<Child>) {
        let (held, listener, started) = (self.held.clone(), self.listener.clone(), started.clone());
        let shim = system::open_process(started.shim, started.shim_ticks);
        let watcher = async move {
            if let Some(shim) = shim
                && let Ok(shim) = system::wait_on(shim)
            {
                let _ = shim.readable().await;
            }
            if let Some(mut child) = child {
                // It has ended, so this does not wait; it only lets the kernel forget it.
                let _ = child.wait();
            }
            let ended = {
                let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(run) = held.runs.get_mut(&id) else { return };
                run.container.state = State::Exited(how_it_ended(&run.place, &started));
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

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the shim recorded; without a record it was killed, and its program with it.
fn how_it_ended(place: &Place, started: &Started) -> Exit {
    if let Some(Ended { at, code, signal }) = place.ended() {
        return Exit { began: started.at, ended: at, code, signal, reason: None };
    }
    if let Some(program) = system::open_process(started.pid, started.ticks) {
        let _ = system::signal(&program, libc::SIGKILL);
    }
    let ended = Ended { at: record::now(), code: 137, signal: Some(libc::SIGKILL) };
    let _ = place.write("ended.json", &ended);
    let reason = Some("ContainerStatusUnknown");
    Exit { began: started.at, ended: ended.at, code: 137, signal: ended.signal, reason }
}

#[async_trait::async_trait]
impl PodRuntime for Process {
    fn name(&self) -> &'static str {
        "process"
    }

    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").to_owned()
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
        for run in self.lock().runs.values() {
            all.entry(run.container.id.pod.clone()).or_default().push(run.container.clone());
        }
        all
    }

    fn of_pod(&self, pod: &str) -> Vec<Container> {
        let held = self.lock();
        let from = ContainerId::new(pod, "", 0);
        let runs = held.runs.range(from..).take_while(|(id, _)| id.pod == pod);
        runs.map(|(_, run)| run.container.clone()).collect()
    }

    async fn start(&self, spec: &ContainerSpec) -> Result<(), Refusal> {
        if spec.command.is_empty() {
            let message = format!(
                "the process runtime pulls no images, so container {:?} (image {:?}) must say its \
                 command",
                spec.id.name, spec.image
            );
            return Err(Refusal { reason: "CreateContainerConfigError", message });
        }
        if self.lock().runs.contains_key(&spec.id) {
            return Ok(());
        }
        let place = Place::of(&self.options.directory, &spec.id);
        let log = self.log_path(spec);
        let failed = |error: io::Error| Refusal {
            reason: "CreateContainerError",
            message: format!("could not record container {:?}: {error}", spec.id.name),
        };
        place.prepare(spec, &log).map_err(failed)?;
        let network = self.find_sandbox(&spec.id.pod).and_then(|sandbox| sandbox.network);
        let began = spawn_shim(&self.options.shim, &place, network).map_err(failed)?;
        let (child, started) = tokio::time::timeout(START_MAX, began.wait(&place))
            .await
            .unwrap_or_else(|_| Err("it did not start within two minutes".to_owned()))
            .map_err(|message| {
                let _ = place.remove();
                Refusal { reason: "RunContainerError", message }
            })?;
        let container = Container {
            id: spec.id.clone(),
            image: spec.image.clone(),
            failures: spec.failures,
            state: State::Running { since: started.at },
        };
        let ended = watch::Sender::new(false);
        let run = Run { container, place, log, started: Some(started.clone()), ended };
        self.lock().runs.insert(spec.id.clone(), run);
        self.watch(spec.id.clone(), &started, Some(child));
        Ok(())
    }

    async fn stop(&self, id: &ContainerId, grace: Duration) -> Result<(), Refusal> {
        let (started, mut ended) = {
            let held = self.lock();
            let Some(run) = held.runs.get(id) else { return Ok(()) };
            let Some(started) = run.started.clone() else { return Ok(()) };
            (started, run.ended.subscribe())
        };
        if *ended.borrow() {
            return Ok(());
        }
        if let Some(program) = system::open_process(started.pid, started.ticks) {
            if !grace.is_zero() {
                let _ = system::signal(&program, libc::SIGTERM);
                if tokio::time::timeout(grace, ended.wait_for(|it| *it)).await.is_ok() {
                    return Ok(());
                }
            }
            let _ = system::signal(&program, libc::SIGKILL);
        }
        if tokio::time::timeout(SHIM_END_MAX, ended.wait_for(|it| *it)).await.is_ok() {
            return Ok(());
        }
        // The shim holds on to something that does not die; with it goes its record.
        if let Some(shim) = system::open_process(started.shim, started.shim_ticks) {
            let _ = system::signal(&shim, libc::SIGKILL);
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
            let _ = run.place.remove();
            remove_logs(&run.log);
        }
    }

    async fn remove_pod(&self, pod: &str) {
        let ids: Vec<ContainerId> = self.of_pod(pod).into_iter().map(|one| one.id).collect();
        let log = ids.first().map(|id| self.log(id));
        for id in ids {
            self.remove(&id).await;
        }
        // The folder of the pod's logs is two above a log.
        if let Some(folder) = log.as_deref().and_then(Path::parent).and_then(Path::parent) {
            let _ = fs::remove_dir_all(folder);
        }
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
            run.and_then(|run| Some((run.place.spec()?, run.started.clone()?)))
        };
        let (spec, started) =
            found.ok_or_else(|| refused(format!("container {:?} does not run", id.name)))?;
        let mut program = shim::beside(&spec, started.pid, command)
            .map_err(|error| refused(error.to_string()))?;
        program.stdin(Stdio::null());
        let ran = shim::collect(program, OUTPUT_BYTES_MAX).await;
        let (code, output) = ran.map_err(|error| refused(error.to_string()))?;
        Ok(Executed { code, output })
    }

    async fn run_beside(
        &self,
        id: &ContainerId,
        command: &[String],
        wanted: &Wanted,
    ) -> Result<Streams, Refusal> {
        self.open_beside(id, command, wanted)
    }

    async fn attach(&self, id: &ContainerId, wanted: &Wanted) -> Result<Streams, Refusal> {
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
        started.is_some_and(|it| system::open_process(it.shim, it.shim_ticks).is_some())
    };
    Place::all(directory).unwrap_or_default().iter().filter(|place| goes_on(place)).count()
}

/// Removes a log with what was set aside of it.
fn remove_logs(log: &Path) {
    let (Some(folder), Some(name)) = (log.parent(), log.file_name()) else { return };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let found = entry.file_name();
        if found.to_string_lossy().starts_with(&*name.to_string_lossy()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// A shim that was started but has not said that its program runs.
struct Began {
    child: Child,
    says: File,
}

fn spawn_shim(program: &[OsString], place: &Place, network: Option<PathBuf>) -> io::Result<Began> {
    let (first, rest) = program.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(first);
    command.args(rest).env_clear().env(shim::VARIABLE, place.directory());
    command.envs(network.map(|network| (sandbox::VARIABLE, network)));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    // Not in our group: what a terminal sends to us is not for containers.
    command.process_group(0).current_dir("/");
    let mut child = command.spawn()?;
    let says = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    Ok(Began { child, says: File::from(std::os::fd::OwnedFd::from(says)) })
}

impl Began {
    /// Returns when the shim has recorded that its program runs, or why not.
    async fn wait(self, place: &Place) -> Result<(Child, Started), String> {
        let Began { mut child, says } = self;
        let said = system::read_all(says, OUTPUT_BYTES_MAX).await;
        if let Some(started) = place.started() {
            return Ok((child, started));
        }
        let _ = child.kill();
        let _ = child.wait();
        let said = said.unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let why = said.lines().find_map(|line| line.strip_prefix(shim::REFUSED));
        Err(why.unwrap_or("its shim ended before it started").to_owned())
    }
}
