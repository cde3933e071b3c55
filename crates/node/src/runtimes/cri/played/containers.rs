//! Containers that are played: processes of this machine, whose output is written as CRI-O's
//! monitor writes it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use tokio::time::Instant;

use super::super::messages::*;
use super::{Failure, IMAGE_ID, NOT_FOUND, State, UNKNOWN, has_all, say};

/// How long it waits for what was killed.
const PATIENCE: Duration = Duration::from_secs(30);

/// One container.
pub struct Played {
    pub id: String,
    pub sandbox: String,
    pub config: ContainerConfig,
    log: PathBuf,
    run: Mutex<Run>,
    changed: Condvar,
}

#[derive(Default)]
struct Run {
    pid: Option<u32>,
    created: i64,
    started: i64,
    finished: i64,
    code: i32,
}

fn now() -> i64 {
    i64::try_from(Timestamp::now().as_nanosecond()).expect("what a test plays must work")
}

impl Run {
    fn state(&self) -> ContainerState {
        match (self.started, self.finished) {
            (0, _) => ContainerState::Created,
            (_, 0) => ContainerState::Running,
            _ => ContainerState::Exited,
        }
    }
}

impl Played {
    fn run<T>(&self, look: impl FnOnce(&mut Run) -> T) -> T {
        look(&mut self.run.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn signal(&self, signal: &str, whole: bool) {
        let pid = self.run(|run| run.pid.filter(|_| run.finished == 0));
        if let Some(pid) = pid {
            let target = if whole { format!("-{pid}") } else { pid.to_string() };
            let _ = Command::new("kill").args(["-s", signal, "--", &target]).output();
        }
    }

    pub fn kill(&self) {
        self.signal("KILL", true);
        self.wait(PATIENCE);
    }

    /// Whether it ended within a time.
    fn wait(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        while run.state() == ContainerState::Running {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.changed.wait_timeout(run, left);
            run = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn command(&self, words: &[String]) -> Command {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env_clear();
        command.envs(self.config.envs.iter().map(|it| (&it.key, &it.value)));
        let directory = &self.config.working_dir;
        command.current_dir(if directory.is_empty() { "/" } else { directory });
        command
    }

    fn words(&self) -> Vec<String> {
        [self.config.command.clone(), self.config.args.clone()].concat()
    }

    /// Waits for the process and for all that it wrote.
    fn follow(self: Arc<Played>, mut child: Child) {
        let log =
            Arc::new(Mutex::new(File::create(&self.log).expect("what a test plays must work")));
        let streams: [(&'static str, Option<Box<dyn Read + Send>>); 2] = [
            ("stdout", child.stdout.take().map(|it| Box::new(it) as _)),
            ("stderr", child.stderr.take().map(|it| Box::new(it) as _)),
        ];
        let mut writers = Vec::new();
        for (name, stream) in streams {
            let (log, stream) = (log.clone(), stream.expect("what a test plays must work"));
            writers.push(std::thread::spawn(move || keep(name, stream, &log)));
        }
        std::thread::spawn(move || {
            let status = child.wait().expect("what a test plays must work");
            // What it left behind goes with it.
            self.signal("KILL", true);
            writers
                .into_iter()
                .for_each(|writer| writer.join().expect("what a test plays must work"));
            self.run(|run| {
                run.code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
                run.finished = now();
            });
            self.changed.notify_all();
        });
    }
}

/// A line is written with when it came, in local time, and a letter: the rest of a line that did
/// not end is `P`.
fn keep(name: &str, stream: Box<dyn Read + Send>, log: &Mutex<File>) {
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    while let Ok(1..) = stream.read_until(b'\n', &mut line) {
        let letter = if line.ends_with(b"\n") { "F" } else { "P" };
        let text = String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned();
        let at = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%9f+00:00");
        let mut log = log.lock().expect("what a test plays must work");
        log.write_all(format!("{at} {name} {letter} {text}\n").as_bytes())
            .expect("what a test plays must work");
        line.clear();
    }
}

impl State {
    fn find(&self, id: &str) -> Result<Arc<Played>, Failure> {
        let found = self.lock().containers.get(id).cloned();
        let why = format!("could not find container {id:?}: container with ID not found");
        found.ok_or((NOT_FOUND, why))
    }

    /// Here already the program is looked for: its runtime makes the process, and holds it.
    pub fn create(&self, request: CreateContainerRequest) -> Result<Vec<u8>, Failure> {
        let config = request.config.unwrap_or_default();
        let metadata = config.metadata.clone().unwrap_or_default();
        if metadata.name.is_empty() {
            return Err((UNKNOWN, "name in metadata is empty".to_owned()));
        }
        let image = config.image.clone().unwrap_or_default().image;
        if !image.contains("shell") {
            return Err((UNKNOWN, format!("reading image {image:?}: image not known")));
        }
        let sandbox = request.pod_sandbox_id;
        let directory = {
            let held = self.lock();
            let found = held.sandboxes.get(&sandbox).filter(|sandbox| sandbox.is_ready);
            let missing = || {
                (UNKNOWN, format!("CreateContainer failed as the sandbox was stopped: {sandbox}"))
            };
            found.ok_or_else(missing)?.config.log_directory.clone()
        };
        let reserved =
            |it: &Arc<Played>| it.sandbox == sandbox && it.config.metadata == config.metadata;
        if self.lock().containers.values().any(reserved) {
            return Err((
                UNKNOWN,
                format!("the container name {:?} is already in use", metadata.name),
            ));
        }
        let log = Path::new(&directory).join(&config.log_path);
        // The monitor makes a file, and no directory.
        if Path::new(&config.log_path).is_absolute() || !log.parent().is_some_and(Path::is_dir) {
            return Err((UNKNOWN, format!("conmon: failed to open {}", log.display())));
        }
        let id = self.name();
        let run = Mutex::new(Run { created: now(), ..Run::default() });
        let changed = Condvar::new();
        let played = Played { id: id.clone(), sandbox, config, log, run, changed };
        let program = played.words().first().cloned().unwrap_or_default();
        if program.starts_with('/') && !fs::exists(&program).unwrap_or(false) {
            let why = format!("exec: {program:?}: stat {program}: no such file or directory");
            let begin =
                "container create failed: runc create failed: unable to start container process";
            return Err((UNKNOWN, format!("{begin}: {why}")));
        }
        self.lock().containers.insert(id.clone(), Arc::new(played));
        say(CreateContainerResponse { container_id: id })
    }

    pub fn start(&self, request: ContainerRequest) -> Result<Vec<u8>, Failure> {
        let played = self.find(&request.container_id)?;
        let mut command = played.command(&played.words());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.process_group(0).spawn().map_err(|it| (UNKNOWN, it.to_string()))?;
        played.run(|run| {
            run.pid = Some(child.id());
            run.started = now();
        });
        played.follow(child);
        say(Empty {})
    }

    pub fn stop(&self, request: StopContainerRequest) -> Result<Vec<u8>, Failure> {
        let played = self.find(&request.container_id)?;
        if request.timeout > 0 {
            played.signal("TERM", false);
        }
        let grace = Duration::from_secs(u64::try_from(request.timeout).unwrap_or(0));
        if !played.wait(grace) {
            played.kill();
        }
        say(Empty {})
    }

    /// What is not there needs no removing.
    pub fn remove(&self, request: ContainerRequest) -> Result<Vec<u8>, Failure> {
        if let Ok(played) = self.find(&request.container_id) {
            played.kill();
        }
        self.lock().containers.remove(&request.container_id);
        say(Empty {})
    }

    pub fn list_containers(&self, request: ListContainersRequest) -> ListContainersResponse {
        let wanted = request.filter.unwrap_or_default().label_selector;
        let held = self.lock();
        let ours = held.containers.values().filter(|it| has_all(&it.config.labels, &wanted));
        let containers = ours.map(|played| Container {
            id: played.id.clone(),
            pod_sandbox_id: played.sandbox.clone(),
            metadata: played.config.metadata.clone(),
            image: played.config.image.clone(),
            image_ref: IMAGE_ID.to_owned(),
            state: played.run(|run| run.state()) as i32,
            labels: played.config.labels.clone(),
            annotations: played.config.annotations.clone(),
        });
        ListContainersResponse { containers: containers.collect() }
    }

    pub fn container_status(&self, request: ContainerStatusRequest) -> Result<Vec<u8>, Failure> {
        let played = self.find(&request.container_id)?;
        let (status, pid) = played.run(|run| {
            let state = run.state();
            let reason = match (state, run.code) {
                (ContainerState::Exited, 0) => "Completed",
                (ContainerState::Exited, _) => "Error",
                _ => "",
            };
            let status = ContainerStatus {
                id: played.id.clone(),
                metadata: played.config.metadata.clone(),
                state: state as i32,
                created_at: run.created,
                started_at: run.started,
                finished_at: run.finished,
                exit_code: run.code,
                image: played.config.image.clone(),
                image_ref: IMAGE_ID.to_owned(),
                reason: reason.to_owned(),
                message: String::new(),
            };
            (status, run.pid)
        });
        let info = json!({"sandboxID": played.sandbox, "pid": pid, "privileged": false});
        let info = Map::from([("info".to_owned(), info.to_string())]);
        let info = if request.verbose { info } else { Map::new() };
        say(ContainerStatusResponse { status: Some(status), info })
    }

    pub fn exec(&self, request: ExecSyncRequest) -> Result<Vec<u8>, Failure> {
        let played = self.find(&request.container_id)?;
        if played.run(|run| run.state()) != ContainerState::Running {
            return Err((UNKNOWN, "container is not created or running".to_owned()));
        }
        let ended =
            played.command(&request.cmd).output().map_err(|it| (UNKNOWN, it.to_string()))?;
        let exit_code = ended.status.code().unwrap_or(-1);
        say(ExecSyncResponse { stdout: ended.stdout, stderr: ended.stderr, exit_code })
    }
}
