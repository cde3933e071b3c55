//! The pod network of an unprivileged node: user, mount and network namespaces of a process that
//! holds them, in which routes, packet rules and DNS are those of a privileged node.
//!
//! | file | |
//! |---|---|
//! | `holder.rs` | the process that holds the namespaces, and slirp4netns beside it |
//! | `inside.rs` | the process that works inside on request |
//! | `wire.rs` | the requests |
//! | `ports.rs` | ports of the host that lead to pods, and the reverse |
//!
//! Holder and slirp4netns outlive this process; the helper ends with it.

mod holder;
mod inside;
pub mod ports;
pub mod wire;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::services::Protocol;
use holder::Processes;
pub use holder::{ARGUMENT, SLIRP, find_slirp};
use wire::{Reply, Request};

/// In the directory of records: the processes, and where files of namespaces are.
const RECORD: &str = "rootless";
const NAMESPACES: &str = "namespaces";
/// Interval between checks that slirp4netns runs.
const CHECK: Duration = Duration::from_secs(5);

/// Options of a rootless network.
#[derive(Clone, Debug)]
pub struct Options {
    /// This program, which also runs as holder and helper (see [`main`]).
    pub program: Vec<OsString>,
    pub start: Start,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    IfMissing,
    /// Only a network that exists is used.
    Never,
}

/// A rootless network that runs.
pub struct Rootless {
    options: Options,
    /// Of records.
    directory: PathBuf,
    processes: Mutex<Processes>,
    helper: Mutex<Option<Helper>>,
}

impl fmt::Debug for Rootless {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Rootless").field("directory", &self.directory).finish()
    }
}

impl Rootless {
    /// Finds the network of a directory, or starts one.
    pub fn open(options: Options, directory: &Path) -> io::Result<Rootless> {
        let record = directory.join(RECORD);
        let processes = match Processes::find(&record) {
            Some(found) => found,
            None if options.start == Start::Never => {
                return Err(io::Error::other("no rootless network runs"));
            }
            None => start(&options.program, directory)?,
        };
        let processes = Mutex::new(processes);
        let directory = directory.to_owned();
        let network = Rootless { options, directory, processes, helper: Mutex::default() };
        network.check_slirp();
        Ok(network)
    }

    /// The directory of namespace files, as processes inside see it.
    pub fn namespaces(directory: &Path) -> PathBuf {
        directory.join(NAMESPACES)
    }

    /// Returns the path by which processes outside find a file of the holder's mount namespace.
    pub fn outside(&self, file: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.lock().holder.pid));
        root.join(file.strip_prefix("/").unwrap_or(file))
    }

    /// Starts slirp4netns if it does not run.
    fn check_slirp(&self) {
        let mut processes = self.lock();
        if processes.has_slirp() || self.options.start == Start::Never {
            return;
        }
        let started = find_slirp()
            .ok_or_else(|| io::Error::other(format!("{SLIRP} is not installed")))
            .and_then(|program| holder::start_slirp(&program, processes.holder));
        match started {
            Ok(slirp) => {
                processes.slirp = Some(slirp);
                if let Err(error) = processes.write(&self.directory.join(RECORD)) {
                    tracing::warn!(%error, "process of slirp4netns not recorded");
                }
            }
            Err(error) => tracing::warn!(%error, "pods cannot reach other machines"),
        }
    }

    /// Restarts slirp4netns whenever it ends, until dropped.
    pub async fn keep_connected(self: &Arc<Rootless>) {
        loop {
            tokio::time::sleep(CHECK).await;
            let network = self.clone();
            let _ = tokio::task::spawn_blocking(move || network.check_slirp()).await;
        }
    }

    pub fn perform(&self, request: &Request) -> io::Result<()> {
        self.request(request).map(drop)
    }

    pub fn request(&self, request: &Request) -> io::Result<Reply> {
        self.exchange(request).map(|(reply, _)| reply)
    }

    /// Sends a request to the helper, which is started if it does not run.
    fn exchange(&self, request: &Request) -> io::Result<(Reply, Option<OwnedFd>)> {
        let mut helper = self.helper.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = helper.as_mut()
            && let Ok(answer) = running.exchange(request)
        {
            return checked(answer);
        }
        let started = Helper::start(&self.options.program, self.lock().holder.pid)?;
        checked(helper.insert(started).exchange(request)?)
    }

    fn descriptor(&self, request: &Request) -> io::Result<OwnedFd> {
        let (_, descriptor) = self.exchange(request)?;
        descriptor.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    async fn descriptor_async(self: &Arc<Rootless>, request: Request) -> io::Result<OwnedFd> {
        let network = self.clone();
        let asked = tokio::task::spawn_blocking(move || network.descriptor(&request)).await;
        asked.unwrap_or_else(|error| Err(io::Error::other(error)))
    }

    /// Listens at an address of the pod network.
    pub async fn listen(
        self: &Arc<Rootless>,
        address: SocketAddr,
    ) -> io::Result<tokio::net::TcpListener> {
        let request = Request::Bind { protocol: Protocol::Tcp, address };
        let listener = std::net::TcpListener::from(self.descriptor_async(request).await?);
        listener.set_nonblocking(true)?;
        tokio::net::TcpListener::from_std(listener)
    }

    /// Binds a UDP socket in the pod network.
    pub async fn bind_udp(
        self: &Arc<Rootless>,
        address: SocketAddr,
    ) -> io::Result<tokio::net::UdpSocket> {
        let request = Request::Bind { protocol: Protocol::Udp, address };
        let socket = std::net::UdpSocket::from(self.descriptor_async(request).await?);
        socket.set_nonblocking(true)?;
        tokio::net::UdpSocket::from_std(socket)
    }

    /// Connects to an address of the pod network, or of the network that the file names.
    pub async fn connect(
        self: &Arc<Rootless>,
        address: SocketAddr,
        network: Option<PathBuf>,
    ) -> io::Result<tokio::net::TcpStream> {
        let is_v6 = matches!(address.ip(), IpAddr::V6(_));
        let socket = self.descriptor_async(Request::Socket { is_v6, network }).await?;
        let socket = std::net::TcpStream::from(socket);
        tokio::net::TcpSocket::from_std_stream(socket).connect(address).await
    }

    /// Ends the processes of the network.
    pub fn close(&self) {
        *self.helper.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.lock().kill();
        let _ = std::fs::remove_file(self.directory.join(RECORD));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Processes> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn start(program: &[OsString], directory: &Path) -> io::Result<Processes> {
    let slirp = find_slirp();
    let slirp = slirp.ok_or_else(|| io::Error::other(format!("{SLIRP} is not installed")))?;
    let holder = holder::start(program, &Rootless::namespaces(directory))?;
    let started = holder::start_slirp(&slirp, holder);
    let started = started.inspect_err(|_| holder.kill())?;
    let processes = Processes { holder, slirp: Some(started) };
    processes.write(&directory.join(RECORD)).inspect_err(|_| processes.kill())?;
    Ok(processes)
}

fn checked((reply, descriptor): (Reply, Option<OwnedFd>)) -> io::Result<(Reply, Option<OwnedFd>)> {
    match reply {
        Reply::Failed { code: Some(code), .. } => Err(io::Error::from_raw_os_error(code)),
        Reply::Failed { message, .. } => Err(io::Error::other(message)),
        reply => Ok((reply, descriptor)),
    }
}

/// Our end of a helper.
struct Helper {
    socket: UnixStream,
    child: Child,
}

impl Helper {
    fn start(program: &[OsString], holder: i32) -> io::Result<Helper> {
        let (first, rest) = program.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = Command::new(first);
        command.args(rest).args([ARGUMENT, holder::HELPER, &holder.to_string()]).env_clear();
        command.stdin(Stdio::from(OwnedFd::from(theirs)));
        command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).current_dir("/");
        Ok(Helper { socket: ours, child: command.spawn()? })
    }

    fn exchange(&mut self, request: &Request) -> io::Result<(Reply, Option<OwnedFd>)> {
        wire::send(&mut self.socket, request, None)?;
        wire::receive(&mut self.socket)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs as holder or helper if the arguments say so. This process must have one thread.
pub fn main_if_asked(arguments: &[OsString]) -> Option<ExitCode> {
    let [first, role, of] = arguments else { return None };
    if first != ARGUMENT {
        return None;
    }
    let ran = if role == holder::HOLDER {
        // The answer goes to the process that waits for it.
        holder::hold(Path::new(of)).inspect_err(|error| print!("{error}"))
    } else {
        serve(of)
    };
    Some(if ran.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn serve(holder: &OsString) -> io::Result<()> {
    let holder = holder.to_str().and_then(|pid| pid.parse().ok());
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    inside::run(holder.ok_or(io::ErrorKind::InvalidInput)?, UnixStream::from(socket))
}
