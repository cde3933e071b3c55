//! Programs beside containers with their streams, the streams of containers themselves, and
//! connections to their ports.

use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use link::{Duplex, Input, Output, Program, Resize, Streams};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::unix::pipe;
use tokio::net::{TcpStream, UnixStream, unix};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::terminal::{self, Pair, Terminal};
use super::{Process, attach, shim, system};
use crate::network::rootless::Rootless;
use crate::runtime::{ContainerId, Refusal};

/// What of a stream waits between the container and who takes part in it.
const STREAM_BYTES_MAX: usize = 64 << 10;
/// Sizes of a terminal that wait to be told.
const SIZES_MAX: usize = 16;
/// How long a connection to a port may take.
const DIAL_MAX: Duration = Duration::from_secs(10);
/// Processes that are looked at when a program is ended with all that it started.
const PROCESSES_MAX: usize = 100_000;

impl Process {
    pub(super) fn open_beside(
        &self,
        id: &ContainerId,
        command: &[String],
        wanted: &Streams,
    ) -> Result<Program, Refusal> {
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
        let first = command.first().map_or("", String::as_str);
        let program = shim::beside(&asked, &started, command);
        let opened = program.and_then(|program| start(program, wanted, asked.host_user()));
        opened.map_err(|error| refused(format!("could not start {first:?}: {error}")))
    }

    pub(super) async fn open_attached(
        &self,
        id: &ContainerId,
        wanted: &Streams,
    ) -> Result<Program, Refusal> {
        let refused = |message: String| Refusal { reason: "AttachError", message };
        let place = {
            let held = self.lock();
            let run = held.runs.get(id).filter(|run| run.container.is_running());
            run.map(|run| run.place.clone())
        };
        let place =
            place.ok_or_else(|| refused(format!("container {:?} does not run", id.name)))?;
        let socket = attach::connect(place.directory()).and_then(|socket| {
            socket.set_nonblocking(true)?;
            UnixStream::from_std(socket)
        });
        let socket =
            socket.map_err(|error| refused(format!("its shim does not answer: {error}")))?;
        Ok(join(socket, wanted))
    }

    pub(super) async fn connect(
        &self,
        pod: &str,
        address: Option<IpAddr>,
        port: u16,
    ) -> Result<Box<dyn Duplex>, Refusal> {
        let refused = |message: String| Refusal { reason: "PortForwardError", message };
        let pid = {
            let held = self.lock();
            let from = ContainerId::new(pod, "", 0);
            let mut runs = held.runs.range(from..).take_while(|(id, _)| id.pod == pod);
            let running = runs.find(|(_, run)| run.container.is_running());
            running.map(|(_, run)| run.started.pid)
        };
        let pid = pid.ok_or_else(|| refused("no container of the pod runs".to_owned()))?;
        let rootless = self.options.network.as_ref().and_then(|network| network.rootless());
        let connected = match rootless {
            Some(rootless) => dial_rootless(rootless, pid, port).await,
            None => dial(pid, address, port).await,
        };
        match connected {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => Err(refused(format!("could not connect to port {port}: {error}"))),
        }
    }
}

/// Type of a terminal, unless the container names another.
const TERM: &str = "xterm";

/// Starts a program with pipes or a terminal.
fn start(mut program: Command, wanted: &Streams, user: Option<u32>) -> io::Result<Program> {
    let either = |is_wanted: bool| if is_wanted { Stdio::piped() } else { Stdio::null() };
    if !wanted.tty {
        program.stdin(either(wanted.stdin));
        program.stdout(either(wanted.stdout)).stderr(either(wanted.stderr));
        terminal::lead_session(&mut program, false);
        let mut running = Running(program.spawn()?);
        let stdin = running.0.stdin.take().map(input).transpose()?;
        let stdout = running.0.stdout.take().map(output).transpose()?;
        let stderr = running.0.stderr.take().map(output).transpose()?;
        return Ok(Program { stdin, stdout, stderr, resize: None, end: end(running)? });
    }
    if !program.get_envs().any(|(name, _)| name == "TERM") {
        program.env("TERM", TERM);
    }
    let ours = Pair::open(user)?.give(&mut program)?;
    let running = Running(program.spawn()?);
    // It holds the program's end of the terminal.
    drop(program);
    let (to_resize, to_write) = (ours.try_clone()?, ours.try_clone()?);
    let resize: Resize = Box::new(move |width, height| {
        terminal::resize(&to_resize, width, height);
    });
    let stdin: Option<Input> = match wanted.stdin {
        true => Some(Box::new(Terminal::new(to_write)?)),
        false => None,
    };
    let stdout: Option<Output> = Some(Box::new(Terminal::new(ours)?));
    Ok(Program { stdin, stdout, stderr: None, resize: Some(resize), end: end(running)? })
}

fn input(pipe: impl Into<OwnedFd>) -> io::Result<Input> {
    Ok(Box::new(pipe::Sender::from_owned_fd(pipe.into())?))
}

fn output(pipe: impl Into<OwnedFd>) -> io::Result<Output> {
    Ok(Box::new(pipe::Receiver::from_owned_fd(pipe.into())?))
}

type End = futures::future::BoxFuture<'static, Result<i32, String>>;

/// Waits for a program; dropped, it ends it.
fn end(mut running: Running) -> io::Result<End> {
    let pid = running.pid();
    let ticks = system::began(pid).unwrap_or(0);
    let process = system::open_process(pid, ticks).ok_or(io::ErrorKind::NotFound)?;
    let process = system::wait_on(process)?;
    Ok(Box::pin(async move {
        let ended = process.readable().await.map(drop);
        ended.map_err(|error| format!("could not wait for it: {error}"))?;
        let status = running.0.wait().map_err(|error| error.to_string())?;
        use std::os::unix::process::ExitStatusExt;
        Ok(status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(137))
    }))
}

/// A program that is ended, with all that it started, when nobody wants it any more.
struct Running(Child);

impl Running {
    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap_or(0)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let family = descendants(self.pid());
            system::kill_group(self.pid());
            family.into_iter().for_each(|(pid, ticks)| {
                if let Some(process) = system::open_process(pid, ticks) {
                    let _ = system::signal(&process, libc::SIGKILL);
                }
            });
            let _ = self.0.wait();
        }
    }
}

/// All processes that a process started, and when each began.
fn descendants(root: i32) -> Vec<(i32, u64)> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten().take(PROCESSES_MAX) {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        let text = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest);
        let mut fields = fields.split_whitespace().skip(1);
        let parent = fields.next().and_then(|parent| parent.parse::<i32>().ok());
        let ticks = fields.nth(17).and_then(|ticks| ticks.parse::<u64>().ok());
        if let (Some(parent), Some(ticks)) = (parent, ticks) {
            parents.push((pid, parent, ticks));
        }
    }
    let mut found: Vec<(i32, u64)> = Vec::new();
    let mut next = vec![root];
    while let Some(parent) = next.pop() {
        for (pid, _, ticks) in parents.iter().filter(|(_, of, _)| *of == parent) {
            next.push(*pid);
            found.push((*pid, *ticks));
        }
    }
    found
}

/// Takes part in a container through its shim. Dropped, the container goes on.
fn join(socket: UnixStream, wanted: &Streams) -> Program {
    let (from_shim, to_shim) = socket.into_split();
    let stream = |is_wanted: bool| is_wanted.then(|| tokio::io::duplex(STREAM_BYTES_MAX)).unzip();
    let (stdin, from_client) = stream(wanted.stdin);
    let (stdout, to_stdout) = stream(wanted.stdout);
    let (stderr, to_stderr) = stream(wanted.stderr);
    let (tell, sizes) = mpsc::channel(SIZES_MAX);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let _ = speak(to_shim, from_client, sizes).await;
        std::future::pending().await
    });
    tasks.spawn(listen(from_shim, to_stdout, to_stderr));
    let resize: Resize = Box::new(move |width, height| {
        // Of many sizes in a short time the last is told by the next that changes.
        let _ = tell.try_send((width, height));
    });
    let boxed = |stream: DuplexStream| -> Output { Box::new(stream) };
    Program {
        stdin: stdin.map(|stream| -> Input { Box::new(stream) }),
        stdout: stdout.map(boxed),
        stderr: stderr.map(boxed),
        resize: wanted.tty.then_some(resize),
        end: Box::pin(async move {
            tasks.join_next().await;
            Ok(0)
        }),
    }
}

/// Hands on what the container wrote, until it ends.
async fn listen(
    mut shim: unix::OwnedReadHalf,
    mut stdout: Option<DuplexStream>,
    mut stderr: Option<DuplexStream>,
) {
    let mut bytes = Vec::new();
    loop {
        let Ok(number) = shim.read_u8().await else { return };
        let Ok(length) = shim.read_u32().await else { return };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > attach::FRAME_BYTES_MAX {
            return;
        }
        bytes.resize(length, 0);
        if shim.read_exact(&mut bytes).await.is_err() {
            return;
        }
        let to = if number == attach::STDERR { &mut stderr } else { &mut stdout };
        if let Some(stream) = to
            && stream.write_all(&bytes).await.is_err()
        {
            return;
        }
    }
}

/// Tells the shim what comes from the client, and how large its terminal is.
async fn speak(
    mut shim: unix::OwnedWriteHalf,
    mut input: Option<DuplexStream>,
    mut sizes: mpsc::Receiver<(u16, u16)>,
) -> io::Result<()> {
    if input.is_some() {
        // Whoever has said so once has the input, even if it says nothing.
        shim.write_all(&attach::frame(attach::STDIN, &[])).await?;
    }
    let mut piece = vec![0; attach::FRAME_BYTES_MAX];
    loop {
        let read = async {
            match &mut input {
                Some(input) => input.read(&mut piece).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            count = read => match count? {
                0 => {
                    input = None;
                    shim.write_all(&attach::frame(attach::CLOSE, &[])).await?;
                }
                count => shim.write_all(&attach::frame(attach::STDIN, &piece[..count])).await?,
            },
            Some((width, height)) = sizes.recv() => {
                let size = [width.to_be_bytes(), height.to_be_bytes()].concat();
                shim.write_all(&attach::frame(attach::RESIZE, &size)).await?;
            }
            else => return Ok(()),
        }
    }
}

/// Connects to a port where a process does: to its loopback, and where it shares the network of the
/// machine, first to the address that the pod has for itself.
pub(crate) async fn dial(pid: i32, address: Option<IpAddr>, port: u16) -> io::Result<TcpStream> {
    let theirs = format!("/proc/{pid}/ns/net");
    let is_own = fs::read_link(&theirs)? != fs::read_link("/proc/self/ns/net")?;
    match is_own {
        true => dial_in(Path::new(&theirs), port).await,
        false => dial_near(address, port).await,
    }
}

/// Connects to a port of the loopback where a process of a rootless network is.
async fn dial_rootless(network: &Arc<Rootless>, pid: i32, port: u16) -> io::Result<TcpStream> {
    let theirs = PathBuf::from(format!("/proc/{pid}/ns/net"));
    if fs::read_link(&theirs)? == fs::read_link("/proc/self/ns/net")? {
        return dial_near(None, port).await;
    }
    let mut failed = None;
    for address in LOOPBACK {
        let address = SocketAddr::new(address, port);
        let connecting = network.connect(address, Some(theirs.clone()));
        match tokio::time::timeout(DIAL_MAX, connecting).await {
            Ok(Ok(stream)) => {
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => failed = failed.or(Some(error)),
            Err(_) => failed = failed.or(Some(io::ErrorKind::TimedOut.into())),
        }
    }
    Err(failed.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into()))
}

const LOOPBACK: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// Connects to a port of the loopback in a network, given by the file of its namespace.
pub(crate) async fn dial_in(network: &Path, port: u16) -> io::Result<TcpStream> {
    dial_from(Some(File::open(network)?), LOOPBACK.to_vec(), port).await
}

/// Connects to a port here: at an address, or at the loopback.
pub(crate) async fn dial_near(address: Option<IpAddr>, port: u16) -> io::Result<TcpStream> {
    let own = address.filter(|address| !LOOPBACK.contains(address));
    dial_from(None, own.into_iter().chain(LOOPBACK).collect(), port).await
}

async fn dial_from(
    network: Option<File>,
    addresses: Vec<IpAddr>,
    port: u16,
) -> io::Result<TcpStream> {
    let (tell, told) = oneshot::channel();
    // A namespace is joined by a thread, and this one ends with it.
    std::thread::Builder::new().name("dial".to_owned()).spawn(move || {
        let connected = network.map_or(Ok(()), |network| system::join_network(&network));
        let connected = connected.and_then(|()| first(&addresses, port));
        let _ = tell.send(connected);
    })?;
    let stream = told.await.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))??;
    stream.set_nonblocking(true)?;
    let _ = stream.set_nodelay(true);
    TcpStream::from_std(stream)
}

/// The first that answers; the error is that of the first.
fn first(addresses: &[IpAddr], port: u16) -> io::Result<std::net::TcpStream> {
    let mut failed = None;
    for address in addresses {
        match std::net::TcpStream::connect_timeout(&SocketAddr::new(*address, port), DIAL_MAX) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    Err(failed.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into()))
}
