//! The process between us and a container: it starts the program, keeps its output, takes in its
//! orphans, and records how it ended. It knows nothing but the records of its run.
//!
//! It leads a session of its own and outlives us. The program dies with it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use super::attach::{self, Ends, Hub};
use super::record::{self, Asked, Ended, Place, Started};
use super::{mounts, sandbox, system};
use crate::runtime::ContainerSpec;

/// Names the directory of the run.
pub const VARIABLE: &str = "SETPOINT_CONTAINER";
/// Before the reason why the program does not run.
pub const REFUSED: &str = "refused: ";
/// A longer line is kept in pieces.
const LINE_BYTES_MAX: usize = 16 << 10;
/// A log that would become larger is set aside, and as many are kept beside it.
const LOG_BYTES_MAX: u64 = 10 << 20;
const LOGS_ASIDE: u32 = 4;

/// Runs a container if this process was started for that; it then never returns to the rest.
pub fn main_if_asked() -> Option<ExitCode> {
    let directory = std::env::var_os(VARIABLE)?;
    let begin = sandbox::join_if_asked();
    Some(match begin.and_then(|()| run(&Place::at(PathBuf::from(directory)))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{REFUSED}{error}");
            ExitCode::FAILURE
        }
    })
}

fn run(place: &Place) -> io::Result<()> {
    let asked = place.asked();
    let Asked { spec, log } = asked.ok_or_else(|| io::Error::other("there is no record"))?;
    let _held = place.hold()?;
    system::new_session();
    system::adopt_orphans()?;
    let root = mounts::make(&spec.mounts, place.directory())?;
    let log = Log::open(log)?;
    let (mut child, ends) = start(&spec, root)?;
    let pid = i32::try_from(child.id()).unwrap_or(0);
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let ticks = |pid| system::began(pid).ok_or_else(|| io::Error::other("/proc is not mounted"));
    let at = record::now();
    let started = Started { at, pid, ticks: ticks(pid)?, shim: own, shim_ticks: ticks(own)? };
    place.write("started.json", &started)?;
    let hub = Hub::open(place, &spec.input, ends.held_by(&mut child));
    let copies = keep_output(&mut child, log, &hub);
    // Whoever started us reads until here.
    system::close_output()?;
    let (code, signal) = wait(pid);
    copies.into_iter().for_each(|copy| drop(copy.join()));
    place.write("ended.json", &Ended { at: record::now(), code, signal })
}

fn start(spec: &ContainerSpec, root: Option<PathBuf>) -> io::Result<(Child, Ends)> {
    let (first, rest) = spec.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(first);
    command.args(rest).env_clear().envs(spec.env.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let ends = Ends::prepare(&mut command, spec)?;
    let directory = spec.working_directory.as_deref().unwrap_or("/");
    if let Some(root) = root {
        system::change_root(&mut command, &File::open(root)?, None)?;
    }
    system::change_directory(&mut command, directory)?;
    system::become_user(&mut command, spec.user, spec.group);
    system::die_with_parent(&mut command);
    let child = command.spawn().map_err(|error| {
        io::Error::other(format!(
            "could not start {first:?} of container {:?} in {directory:?}: {error}",
            spec.id.name
        ))
    })?;
    Ok((child, ends))
}

/// One thread for each stream.
fn keep_output(child: &mut Child, log: Log, hub: &Arc<Hub>) -> Vec<std::thread::JoinHandle<()>> {
    let log = Arc::new(Mutex::new(log));
    let mut copies = Vec::new();
    if let Some(stdout) = hub.terminal().or_else(|| child.stdout.take().map(file)) {
        let (log, hub) = (log.clone(), hub.clone());
        copies.push(std::thread::spawn(move || copy(stdout, attach::STDOUT, &log, &hub)));
    }
    if let Some(stderr) = child.stderr.take().map(file) {
        let hub = hub.clone();
        copies.push(std::thread::spawn(move || copy(stderr, attach::STDERR, &log, &hub)));
    }
    copies
}

fn file(stream: impl Into<OwnedFd>) -> File {
    File::from(stream.into())
}

/// Tells whoever attached at once; keeps every line with the time it came, as CRI has it.
fn copy(mut stream: File, number: u8, log: &Mutex<Log>, hub: &Hub) {
    let mut piece = vec![0; LINE_BYTES_MAX];
    let mut line: Vec<u8> = Vec::new();
    // A terminal whose last user is gone answers with an error.
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        hub.tell(number, &piece[..count]);
        for part in piece[..count].split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(part);
            if line.len() >= LINE_BYTES_MAX || part.ends_with(b"\n") {
                keep(&mut line, number, log);
            }
        }
    }
    if !line.is_empty() {
        line.push(b'\n');
        keep(&mut line, number, log);
    }
}

/// Writes a line, or what has come of one that is too long.
fn keep(line: &mut Vec<u8>, number: u8, log: &Mutex<Log>) {
    let name = if number == attach::STDERR { "stderr" } else { "stdout" };
    let at = record::now().strftime("%Y-%m-%dT%H:%M:%S.%9fZ").to_string();
    let tag = if line.ends_with(b"\n") { "F" } else { "P" };
    let mut entry = format!("{at} {name} {tag} ").into_bytes();
    entry.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
    entry.push(b'\n');
    line.clear();
    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
    // A full disk must not end the program: what cannot be kept is dropped.
    let _ = log.write(&entry);
}

/// The output that is kept: the newest of it, so that a program that floods it fills no disk.
struct Log {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl Log {
    fn open(path: PathBuf) -> io::Result<Log> {
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        let bytes = file.metadata()?.len();
        Ok(Log { path, file, bytes })
    }

    fn write(&mut self, entry: &[u8]) -> io::Result<()> {
        let size = u64::try_from(entry.len()).unwrap_or(0);
        if self.bytes > 0 && self.bytes + size > LOG_BYTES_MAX {
            self.rotate()?;
        }
        self.file.write_all(entry)?;
        self.bytes += size;
        Ok(())
    }

    /// Sets the file aside under a number; the oldest goes. Whoever follows the old file finds the
    /// new one in its place before the old one is closed.
    fn rotate(&mut self) -> io::Result<()> {
        let aside = |number: u32| self.path.with_extension(format!("log.{number}"));
        for number in (1..LOGS_ASIDE).rev() {
            let _ = fs::rename(aside(number), aside(number + 1));
        }
        fs::rename(&self.path, aside(1))?;
        *self = Log::open(self.path.clone())?;
        Ok(())
    }
}

/// Waits for the program, then ends what it left behind.
fn wait(program: i32) -> (i32, Option<i32>) {
    let mut ended = (137, Some(libc::SIGKILL));
    while let Some((pid, status)) = system::wait_for_any() {
        if pid == program {
            ended = system::how(status);
            break;
        }
    }
    loop {
        let left = children();
        if left.is_empty() {
            break;
        }
        left.iter().for_each(|pid| system::kill_group(*pid));
        if system::wait_for_any().is_none() {
            break;
        }
    }
    ended
}

/// The processes whose parent we are.
fn children() -> Vec<i32> {
    let own = std::process::id().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        let text = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = text.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
        if parent == Some(own.as_str()) {
            found.push(pid);
        }
    }
    found
}

/// A program with the environment and the mounts of a container that runs.
pub fn beside(spec: &ContainerSpec, pid: i32, command: &[String]) -> io::Result<Command> {
    let (first, rest) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut program = Command::new(first);
    program.args(rest).env_clear().envs(spec.env.iter().map(|(name, value)| (name, value)));
    sandbox::join_that_of(&mut program, pid)?;
    if !spec.mounts.is_empty() {
        let namespace = File::open(format!("/proc/{pid}/ns/mnt"))?;
        let root = File::open(format!("/proc/{pid}/root"))?;
        system::change_root(&mut program, &root, Some(namespace))?;
    }
    system::change_directory(&mut program, spec.working_directory.as_deref().unwrap_or("/"))?;
    system::become_user(&mut program, spec.user, spec.group);
    Ok(program)
}

/// Runs a program to its end; its code and what it wrote. Dropped, it kills the program.
pub async fn collect(mut program: Command, bytes_max: u64) -> io::Result<(i32, Vec<u8>)> {
    program.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut running = Running(program.spawn()?);
    let pipes = (running.0.stdout.take(), running.0.stderr.take());
    let (Some(stdout), Some(stderr)) = pipes else { return Err(io::ErrorKind::BrokenPipe.into()) };
    let stdout = File::from(std::os::fd::OwnedFd::from(stdout));
    let stderr = File::from(std::os::fd::OwnedFd::from(stderr));
    let pid = i32::try_from(running.0.id()).unwrap_or(0);
    let ticks = system::began(pid).unwrap_or(0);
    let end = system::open_process(pid, ticks).ok_or(io::ErrorKind::NotFound)?;
    let end = system::wait_on(end)?;
    let (written, complaints, _) = tokio::try_join!(
        system::read_all(stdout, bytes_max),
        system::read_all(stderr, bytes_max),
        async { end.readable().await.map(drop) },
    )?;
    let status = running.0.wait()?;
    let code = status.code().unwrap_or(137);
    Ok((code, [written, complaints].concat()))
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            system::kill_group(i32::try_from(self.0.id()).unwrap_or(0));
            let _ = self.0.wait();
        }
    }
}
