//! A runtime that runs nothing, in memory: tests say what becomes of its containers, and what goes
//! wrong.
//!
//! A container does what its variable `BEHAVIOUR` says, words in pairs: `says X`, `complains X`,
//! `exits CODE`, `dies SIGNAL`, `obeys CODE` when it is asked to stop, `ignores` that. Without the
//! variable it runs until `finish` or `stop`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::Environment;
use tokio::sync::watch;

use crate::image::{Credentials, Found, ImageName, ImageStore, Usage};
use crate::runtime::{
    Container, ContainerId, ContainerSpec, Executed, Exit, Listener, PodRuntime, Refusal,
    START_ERROR, START_MAX, Sandbox, SandboxSpec, State,
};

const BEHAVIOUR: &str = "BEHAVIOUR";

/// What goes wrong with a container, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    RefuseStart(Refusal),
    /// The start does nothing until it is given up.
    HangStart,
    /// Nothing ends it.
    HangStop,
    /// The next start is a defect of ours.
    BreakStart,
    /// What its pod had goes late.
    Linger,
}

/// How late.
const LINGER: Duration = Duration::from_millis(50);

/// Containers run from when they are started until `finish` or `stop`.
#[derive(Default)]
pub struct Fake {
    /// What goes on without us: it is found again by `again`.
    world: Arc<World>,
    listener: RwLock<Option<Listener>>,
    /// What was started, in order.
    pub started: Mutex<Vec<ContainerSpec>>,
    /// Every start request and its time, refused ones included.
    pub requested: Mutex<Vec<(ContainerId, Timestamp)>>,
    /// Clock of the runs; without one they start and end at the Unix epoch.
    clock: Option<Arc<dyn Environment>>,
    pub faults: Mutex<BTreeMap<String, Fault>>,
    /// The images that are here, if containers are made of any; none can be pulled.
    pub images: Option<Mutex<BTreeSet<String>>>,
}

#[derive(Default)]
struct World {
    held: Mutex<BTreeMap<ContainerId, Played>>,
    sandboxes: Mutex<BTreeSet<String>>,
    changed: watch::Sender<()>,
    /// Where output is kept; it is dropped without.
    directory: Option<PathBuf>,
}

/// A container that is played.
struct Played {
    container: Container,
    spec: ContainerSpec,
    obeys: Option<i32>,
    ignores: bool,
}

impl Fake {
    /// One that keeps output.
    pub fn at(directory: PathBuf) -> Fake {
        let world = World { directory: Some(directory), ..World::default() };
        Fake { world: Arc::new(world), ..Fake::default() }
    }

    /// One whose containers are made of images; none is here.
    pub fn with_images() -> Fake {
        Fake { images: Some(Mutex::default()), ..Fake::default() }
    }

    /// One whose runs start and end by a clock.
    pub fn with_clock(clock: Arc<dyn Environment>) -> Fake {
        Fake { clock: Some(clock), ..Fake::default() }
    }

    /// As after a restart of whoever uses it.
    pub fn again(&self) -> Fake {
        Fake { world: self.world.clone(), ..Fake::default() }
    }

    /// Lets a container end.
    pub fn finish(&self, id: &ContainerId, code: i32) {
        self.end(id, (code, None));
    }

    fn end(&self, id: &ContainerId, (code, signal): (i32, Option<i32>)) {
        if let Some(played) = self.lock().get_mut(id) {
            let ended = self.now();
            let began = match &played.container.state {
                State::Running { since } => *since,
                State::Exited(exit) => exit.began,
            };
            played.container.state =
                State::Exited(Exit { began, ended, code, signal, reason: None });
        }
        self.world.changed.send_replace(());
        let listener = self.listener.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(listener) = &*listener {
            listener(&id.pod);
        }
    }

    fn now(&self) -> Timestamp {
        self.clock.as_ref().map_or(Timestamp::UNIX_EPOCH, |clock| clock.now())
    }

    /// Plays what a container does by itself; how it ended, if it did.
    fn play(&self, spec: &ContainerSpec, played: &mut Played) -> Option<(i32, Option<i32>)> {
        let behaviour = value(spec, BEHAVIOUR)?;
        let words: Vec<&str> = behaviour.split_whitespace().collect();
        for pair in words.chunks_exact(2) {
            let number = pair[1].parse().unwrap_or(0);
            match pair[0] {
                "says" => self.write(&spec.id, "stdout", pair[1]),
                "complains" => self.write(&spec.id, "stderr", pair[1]),
                "exits" => return Some((number, None)),
                "dies" => return Some((128 + number, Some(number))),
                "obeys" => played.obeys = Some(number),
                "ignores" => played.ignores = true,
                "waits" => return None,
                other => panic!("no container behaves as {other:?}"),
            }
        }
        Some((0, None))
    }

    fn write(&self, id: &ContainerId, stream: &str, text: &str) {
        let path = self.log(id);
        let line = format!("{} {stream} F {text}\n", Timestamp::UNIX_EPOCH);
        let folder = path.parent().map(fs::create_dir_all);
        if folder.is_some_and(|made| made.is_ok()) {
            let file = fs::File::options().create(true).append(true).open(path);
            let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
        }
    }

    fn fault(&self, id: &ContainerId) -> Option<Fault> {
        let faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.get(&id.name).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ContainerId, Played>> {
        self.world.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sandboxes(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.world.sandboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_running(&self, id: &ContainerId) -> bool {
        self.lock().get(id).is_some_and(|played| played.container.is_running())
    }
}

fn value(spec: &ContainerSpec, name: &str) -> Option<String> {
    let found = spec.env.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value.clone())
}

#[async_trait::async_trait]
impl ImageStore for Mutex<BTreeSet<String>> {
    async fn find(&self, name: &ImageName) -> Result<Option<Found>, String> {
        let is_here = self.lock().unwrap_or_else(PoisonError::into_inner).contains(&name.written);
        Ok(is_here.then(Found::default))
    }

    async fn pull(&self, _: &ImageName, _: Option<&Credentials>) -> Result<(), String> {
        Err("no registry answers".to_owned())
    }

    async fn load(&self, _: &Path) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }

    async fn remove(&self, _: &ImageName) -> Result<(), String> {
        Ok(())
    }

    async fn usage(&self) -> Option<Usage> {
        None
    }
}

#[async_trait::async_trait]
impl PodRuntime for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn version(&self) -> String {
        "1".to_owned()
    }

    fn image_store(&self) -> Option<&dyn ImageStore> {
        self.images.as_ref().map(|images| images as &dyn ImageStore)
    }

    fn listen(&self, listener: Listener) {
        *self.listener.write().unwrap_or_else(PoisonError::into_inner) = Some(listener);
    }

    async fn sandbox(&self, spec: &SandboxSpec) -> Result<Sandbox, Refusal> {
        self.sandboxes().insert(spec.pod.clone());
        Ok(Sandbox::default())
    }

    fn sandbox_of(&self, pod: &str) -> Option<Sandbox> {
        self.sandboxes().contains(pod).then(Sandbox::default)
    }

    fn containers(&self) -> BTreeMap<String, Vec<Container>> {
        let mut all: BTreeMap<String, Vec<Container>> = BTreeMap::new();
        for (id, played) in self.lock().iter() {
            all.entry(id.pod.clone()).or_default().push(played.container.clone());
        }
        all
    }

    fn of_pod(&self, pod: &str) -> Vec<Container> {
        self.containers().remove(pod).unwrap_or_default()
    }

    async fn start(&self, spec: &ContainerSpec) -> Result<(), Refusal> {
        let request = (spec.id.clone(), self.now());
        self.requested.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        match self.fault(&spec.id) {
            Some(Fault::RefuseStart(refusal)) => return Err(refusal),
            Some(Fault::HangStart) => {
                tokio::time::sleep(START_MAX).await;
                let message = format!("it did not start within {} s", START_MAX.as_secs());
                return Err(Refusal { reason: "RunContainerError", message });
            }
            Some(Fault::BreakStart) => {
                self.faults.lock().unwrap_or_else(PoisonError::into_inner).clear();
                panic!("a start that a test asked to break");
            }
            Some(Fault::HangStop | Fault::Linger) | None => {}
        }
        let program = spec.command.first().cloned().unwrap_or_default();
        if program.starts_with('/') && !fs::exists(&program).unwrap_or(false) {
            let message = format!("there is no {program:?}");
            return Err(Refusal { reason: START_ERROR, message });
        }
        if self.lock().contains_key(&spec.id) {
            return Ok(());
        }
        let state = State::Running { since: self.now() };
        let (id, image) = (spec.id.clone(), spec.image.clone());
        let container = Container {
            id,
            image,
            image_id: String::new(),
            native_id: None,
            failures: spec.failures,
            state,
        };
        let mut played = Played { container, spec: spec.clone(), obeys: None, ignores: false };
        let ended = self.play(spec, &mut played);
        self.lock().insert(spec.id.clone(), played);
        self.started.lock().unwrap_or_else(PoisonError::into_inner).push(spec.clone());
        if let Some(ended) = ended {
            self.end(&spec.id, ended);
        }
        Ok(())
    }

    async fn stop(&self, id: &ContainerId, grace: Duration) -> Result<(), Refusal> {
        let found = self
            .lock()
            .get(id)
            .map(|played| (played.container.is_running(), played.obeys, played.ignores));
        let Some((true, obeys, ignores)) = found else { return Ok(()) };
        if self.fault(id) == Some(Fault::HangStop) {
            let message = format!("{:?} does not end", id.name);
            tokio::time::sleep(grace).await;
            return Err(Refusal { reason: "KillContainerError", message });
        }
        let ended = match obeys {
            _ if ignores || grace.is_zero() => {
                tokio::time::sleep(grace).await;
                (128 + libc::SIGKILL, Some(libc::SIGKILL))
            }
            Some(code) => (code, None),
            None => (128 + libc::SIGTERM, Some(libc::SIGTERM)),
        };
        if self.is_running(id) {
            self.end(id, ended);
        }
        Ok(())
    }

    async fn ended(&self, id: &ContainerId) {
        let mut changed = self.world.changed.subscribe();
        while self.is_running(id) {
            let _ = changed.changed().await;
        }
    }

    async fn remove(&self, id: &ContainerId) {
        if !self.is_running(id) {
            let _ = fs::remove_file(self.log(id));
            self.lock().remove(id);
        }
    }

    async fn remove_pod(&self, pod: &str) {
        for container in self.of_pod(pod) {
            if self.fault(&container.id) == Some(Fault::Linger) {
                tokio::time::sleep(LINGER).await;
            }
            let _ = fs::remove_file(self.log(&container.id));
        }
        self.lock().retain(|id, _| id.pod != pod);
        self.sandboxes().remove(pod);
    }

    fn log(&self, id: &ContainerId) -> PathBuf {
        let file = format!("{}_{}_{}.log", id.pod, id.name, id.attempt);
        self.world.directory.as_ref().map_or_else(PathBuf::new, |directory| directory.join(file))
    }

    /// Of a shell's words `echo $NAME` and `exit CODE` are understood; all else does nothing.
    async fn exec(&self, id: &ContainerId, command: &[String]) -> Result<Executed, Refusal> {
        let spec = self.lock().get(id).map(|played| played.spec.clone());
        let Some(spec) = spec.filter(|_| self.is_running(id)) else {
            let message = format!("container {:?} does not run", id.name);
            return Err(Refusal { reason: "ExecError", message });
        };
        let mut executed = Executed { code: 0, output: Vec::new() };
        let script = command.last().filter(|_| command.len() == 3 && command[0] == "sh");
        for step in script.into_iter().flat_map(|script| script.split(';')) {
            if let Some(name) = step.trim().strip_prefix("echo $") {
                executed.output.extend(value(&spec, name).unwrap_or_default().into_bytes());
                executed.output.push(b'\n');
            }
            if let Some(code) = step.trim().strip_prefix("exit ") {
                executed.code = code.parse().unwrap_or(0);
            }
        }
        Ok(executed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract;

    #[tokio::test]
    async fn what_runs_nothing_fulfils_the_contract() {
        let name = format!("setpoint-fake-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let fake = Fake::at(directory.clone());
        contract::check(&|| contract::at_once(Arc::new(fake.again()))).await;
        let runtime: Arc<dyn PodRuntime> = Arc::new(fake);
        contract::a_pod_has_a_sandbox_from_when_it_is_made(&runtime).await;
        let _ = fs::remove_dir_all(directory);
    }

    #[tokio::test]
    async fn what_is_to_go_wrong_goes_wrong() {
        let fake = Fake::default();
        let spec = contract::shell("faults", "");
        let refusal = Refusal { reason: "RunContainerError", message: "no".to_owned() };
        let set = |fault| fake.faults.lock().unwrap().insert("main".to_owned(), fault);
        set(Fault::RefuseStart(refusal.clone()));
        assert_eq!(fake.start(&spec).await, Err(refusal));
        set(Fault::HangStart);
        assert!(tokio::time::timeout(Duration::from_millis(5), fake.start(&spec)).await.is_err());
        set(Fault::HangStop);
        fake.start(&spec).await.expect("it starts");
        let stopped = fake.stop(&spec.id, Duration::ZERO).await;
        assert_eq!(stopped.map_err(|refusal| refusal.reason), Err("KillContainerError"));
    }
}
