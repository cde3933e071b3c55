//! The process between us and a container: it starts the program, keeps its output, takes in its
//! orphans, and records how it ended. It knows nothing but the records of its run.
//!
//! It leads a session of its own and outlives us. The program dies with it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitCode, Stdio};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::attach::{self, Ends, Hub, Kept};
use super::cgroups::Group;
use super::namespaces::{self, Entrance};
use super::record::{self, Asked, Ended, Invocation, Place, Started};
use super::world::{self, World};
use super::{credentials, nursery, sandbox, system};

/// Says that this process makes shims, and for which runtime: names its directory.
pub const VARIABLE: &str = "SETPOINT_CONTAINER";
/// Before the reason why the program does not run.
pub const REFUSED: &str = "refused: ";
/// A longer line is kept in pieces.
const LINE_BYTES_MAX: usize = 16 << 10;
/// Time between two entries of a line that is redrawn.
const REDRAW_MIN: SignedDuration = SignedDuration::from_millis(200);
/// A log that would become larger is set aside, and as many are kept beside it.
const LOG_BYTES_MAX: u64 = 10 << 20;
const LOGS_ASIDE: u32 = 4;

/// Makes shims if this process was started for that, and is one in its copies; it then never
/// returns to the rest.
pub fn main_if_asked() -> Option<ExitCode> {
    std::env::var_os(VARIABLE)?;
    match nursery::run() {
        Ok(Some(assignment)) => {
            let ran = run(&Place::at(assignment.directory), &assignment.invocation);
            if let Err(error) = &ran {
                println!("{REFUSED}{error}");
            }
            // A copy has nothing of the original to put in order.
            namespaces::leave(i32::from(ran.is_err()))
        }
        Ok(None) => Some(ExitCode::SUCCESS),
        Err(_) => Some(ExitCode::FAILURE),
    }
}

/// Runs a container to its end. The invocation stays open that long, for the agent to read.
fn run(place: &Place, invocation: &OwnedFd) -> io::Result<()> {
    let _held = place.hold_soon()?;
    // Read while it is held: whoever gives up a run takes both away.
    let mut asked = place.asked().ok_or_else(|| io::Error::other("there is no record"))?;
    Invocation::read("self", invocation.as_raw_fd())?.put_into(&mut asked.spec);
    let Asked { log, group, network, .. } = &asked;
    // Where we are tells which run this is.
    std::env::set_current_dir(place.directory())?;
    system::new_session();
    system::adopt_orphans()?;
    let is_mighty = world::is_mighty();
    // Before anything else, so that all that is started is in it.
    network.as_deref().map(sandbox::join).transpose()?;
    let log = Log::open(log.clone())?;
    let made = begin(place, &asked, Beginning { log, is_mighty, invocation });
    let ended = made.map(|(waiter, copying)| {
        let ended = waiter.join().unwrap_or(KILLED);
        drop(copying.join());
        ended
    });
    let is_short = group.as_ref().is_some_and(Group::was_short_of_memory);
    if let Some(group) = group {
        group.end();
        group.remove();
    }
    let (code, signal) = ended?;
    let is_short_of_memory = is_short && code == KILLED.0;
    place.write("ended.json", &Ended { at: record::now(), code, signal, is_short_of_memory })
}

/// Parts of a shim that a container begins with.
struct Beginning<'a> {
    log: Log,
    /// True if namespaces can be made without a user namespace.
    is_mighty: bool,
    invocation: &'a OwnedFd,
}

/// Makes everything the container needs, starts its program, and records that.
fn begin(
    place: &Place,
    asked: &Asked,
    with: Beginning<'_>,
) -> io::Result<(Waiter, JoinHandle<()>)> {
    let Beginning { log, is_mighty, invocation } = with;
    let Asked { spec, group, .. } = asked;
    if let Some(group) = group {
        group.make(&spec.limits)?;
    }
    let alone = place.hold_pod()?;
    let world = world::make(asked, place, is_mighty)?;
    let init = world.as_ref().map_or((0, 0), |world| (world.init, world.ticks));
    let (mut begun, waiter) = spawn(asked, world)?;
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let started = Started {
        at: record::now(),
        pid: begun.pid,
        ticks: begun.ticks,
        shim: own,
        shim_ticks: system::began(own).unwrap_or(0),
        init: init.0,
        init_ticks: init.1,
        boot: system::boot(),
        invocation: invocation.as_raw_fd(),
    };
    place.write("started.json", &started)?;
    drop(alone);
    let hub = Hub::open(place, &spec.input, std::mem::take(&mut begun.kept));
    let copying = keep_output(&mut begun, log, &hub);
    // Whoever started us reads until here.
    system::close_output()?;
    Ok((waiter, copying))
}

/// A program that runs, and its output.
struct Begun {
    pid: i32,
    ticks: u64,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    /// Our end of its input.
    kept: Kept,
}

/// Tells how the program ended, when nothing of the container runs any more.
type Waiter = JoinHandle<(i32, Option<i32>)>;

/// Starts the program from a thread of its own: which namespace of processes children are in is a
/// matter of the thread, and one whose children are elsewhere can start no more threads. The
/// program dies with that thread, so it is the one that waits.
fn spawn(asked: &Asked, world: Option<World>) -> io::Result<(Begun, Waiter)> {
    let (tell, told) = mpsc::channel();
    let (asked, group) = (asked.clone(), asked.group.clone());
    let init = world.as_ref().map(|world| world.init);
    if asked.spec.id.name == world::HOLDER {
        let pid = init.ok_or_else(|| io::Error::other("there are no namespaces here"))?;
        let ticks = system::began(pid).unwrap_or(0);
        let waiter = thread::spawn(move || wait(pid, None, None));
        let kept = Kept::default();
        return Ok((Begun { pid, ticks, stdout: None, stderr: None, kept }, waiter));
    }
    let waiter = thread::spawn(move || {
        let (mut child, ends) = match start(&asked, world.as_ref()) {
            Ok(started) => started,
            Err(error) => {
                let _ = tell.send(Err(error));
                return KILLED;
            }
        };
        let pid = i32::try_from(child.id()).unwrap_or(0);
        let kept = ends.held_by(&mut child);
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        // Once it was waited for its number means nothing, so it is looked at before.
        let ticks = system::began(pid).unwrap_or(0);
        let _ = tell.send(Ok(Begun { pid, ticks, stdout, stderr, kept }));
        wait(pid, init, group.as_ref())
    });
    let begun = told.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))?;
    Ok((begun, waiter))
}

fn start(asked: &Asked, world: Option<&World>) -> io::Result<(Child, Ends)> {
    let (spec, group) = (&asked.spec, asked.group.as_ref());
    let (first, rest) = spec.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(first);
    command.args(rest).env_clear().envs(spec.env.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let ends = Ends::prepare(&mut command, asked)?;
    let directory = spec.working_directory.as_deref().unwrap_or("/");
    let entrance = Entrance {
        doors: group.map(Group::doors).transpose()?.unwrap_or_default(),
        oom_score: spec.limits.oom_score,
        streams_owner: asked.ids.and_then(|_| asked.host_user()),
        spaces: world.map(World::entrance).transpose()?.unwrap_or_default(),
        forks: false,
    };
    if let Some(world) = world {
        world.join_processes()?;
    }
    namespaces::enter(&mut command, entrance);
    system::change_directory(&mut command, directory)?;
    credentials::take(&mut command, asked)?;
    system::die_with_parent(&mut command);
    let child = command.spawn().map_err(|error| {
        io::Error::other(format!(
            "could not start {first:?} of container {:?} in {directory:?}: {error}",
            spec.id.name
        ))
    })?;
    Ok((child, ends))
}

/// One thread for both streams, so that what is written to one after the other is kept in that
/// order, as long as it does not come all at once.
fn keep_output(child: &mut Begun, log: Log, hub: &Arc<Hub>) -> JoinHandle<()> {
    let stdout = hub.terminal().or_else(|| child.stdout.take().map(file));
    let stderr = child.stderr.take().map(file);
    let streams = [(attach::STDOUT, stdout), (attach::STDERR, stderr)].into_iter();
    let kept = Timestamp::UNIX_EPOCH;
    let streams = streams.filter_map(|(number, stream)| {
        Some(Copied { stream: stream?, number, line: Vec::new(), kept })
    });
    let (streams, hub) = (streams.collect(), hub.clone());
    thread::spawn(move || copy(streams, log, &hub))
}

fn file(stream: impl Into<OwnedFd>) -> File {
    File::from(stream.into())
}

/// A stream of the program.
struct Copied {
    stream: File,
    number: u8,
    /// What has come of a line.
    line: Vec<u8>,
    /// Time of the last entry in the log.
    kept: Timestamp,
}

/// Reads whatever there is, until all streams have ended.
fn copy(mut streams: Vec<Copied>, mut log: Log, hub: &Hub) {
    let mut piece = vec![0; LINE_BYTES_MAX];
    while !streams.is_empty() {
        let numbers: Vec<i32> = streams.iter().map(|one| one.stream.as_raw_fd()).collect();
        let Ok(ready) = system::readable(&numbers) else { return };
        let mut ready = ready.into_iter();
        streams.retain_mut(|one| {
            let is_ready = ready.next().unwrap_or(false);
            !is_ready || one.take(&mut piece, &mut log, hub)
        });
    }
}

impl Copied {
    /// Tells whoever attached at once; keeps every line with the time it came, as CRI has it. False
    /// at the end.
    fn take(&mut self, piece: &mut [u8], log: &mut Log, hub: &Hub) -> bool {
        // A terminal whose last user is gone answers with an error.
        let Ok(count @ 1..) = self.stream.read(piece) else {
            if !self.line.is_empty() {
                self.keep(log);
            }
            return false;
        };
        hub.tell(self.number, &piece[..count]);
        for part in piece[..count].split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if self.line.len() >= LINE_BYTES_MAX || part.ends_with(b"\n") {
                self.keep(log);
            }
        }
        self.keep_redrawn(log);
        true
    }

    /// Writes the part of a line that a progress bar has redrawn, as it may never end the line.
    fn keep_redrawn(&mut self, log: &mut Log) {
        let end = self.line.iter().rposition(|byte| *byte == b'\r');
        if let Some(end) = end
            && record::now().duration_since(self.kept) >= REDRAW_MIN
        {
            let rest = self.line.split_off(end + 1);
            self.keep(log);
            self.line = rest;
        }
    }

    /// Writes a line, or what has come of one that is too long or has no end, as a piece (`P`).
    fn keep(&mut self, log: &mut Log) {
        let name = if self.number == attach::STDERR { "stderr" } else { "stdout" };
        self.kept = record::now();
        let at = self.kept.strftime("%Y-%m-%dT%H:%M:%S.%9fZ").to_string();
        let tag = if self.line.ends_with(b"\n") { "F" } else { "P" };
        let mut entry = format!("{at} {name} {tag} ").into_bytes();
        entry.extend_from_slice(self.line.strip_suffix(b"\n").unwrap_or(&self.line));
        entry.push(b'\n');
        self.line.clear();
        // A full disk must not end the program: what cannot be kept is dropped.
        let _ = log.write(&entry);
    }
}

/// The output that is kept: the newest of it, so that a program that floods it fills no disk.
pub(crate) struct Log {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl Log {
    pub(crate) fn open(path: PathBuf) -> io::Result<Log> {
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        let bytes = file.metadata()?.len();
        Ok(Log { path, file, bytes })
    }

    pub(crate) fn write(&mut self, entry: &[u8]) -> io::Result<()> {
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

/// How it is with a program that was killed before anybody saw how it ended.
const KILLED: (i32, Option<i32>) = (137, Some(libc::SIGKILL));

/// Waits for the program, then ends what it left behind.
fn wait(program: i32, init: Option<i32>, group: Option<&Group>) -> (i32, Option<i32>) {
    let mut ended = KILLED;
    while let Some((pid, status)) = system::wait_for_any() {
        if pid == program {
            ended = system::how(status);
            break;
        }
    }
    // With the first process ends everything in its namespace; the group has the rest.
    init.into_iter().for_each(system::kill_group);
    group.map(Group::end);
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

/// A program with the environment, the namespaces and the limits of a container that runs.
pub fn beside(asked: &Asked, started: &Started, command: &[String]) -> io::Result<Command> {
    let spec = &asked.spec;
    let (first, rest) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut program = Command::new(first);
    program.args(rest).env_clear().envs(spec.env.iter().map(|(name, value)| (name, value)));
    let inside = if started.init > 0 { started.init } else { started.pid };
    namespaces::enter(&mut program, world::door(asked, inside)?);
    system::change_directory(&mut program, spec.working_directory.as_deref().unwrap_or("/"))?;
    credentials::take(&mut program, asked)?;
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
