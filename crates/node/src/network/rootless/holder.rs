//! The process that owns the namespaces of the pod network. It does nothing and outlives this
//! process, as the shims of containers do. `slirp4netns` connects its network to the host's.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::network::Range;
use crate::network::links::Links;
use crate::network::range;
use crate::runtimes::process::{mounts, namespaces, system};

/// The argument that makes this program one of the processes of the pod network.
pub const ARGUMENT: &str = "network-helper";
pub const HOLDER: &str = "holder";
pub const HELPER: &str = "helper";
/// Connects the pod network to the host's.
pub const SLIRP: &str = "slirp4netns";
const TUNNEL: &str = "/dev/net/tun";
const INTERFACE: &str = "tap0";
/// Large packets: each one costs a system call on its way.
const MTU: &str = "65520";
/// Networks between the pod network and slirp4netns; the first that the host does not use.
const NETWORKS: [&str; 4] =
    ["10.0.2.0/24", "10.41.254.0/24", "172.31.254.0/24", "192.168.254.0/24"];
const READY: &str = "ready ";
const ANSWER_BYTES_MAX: u64 = 4 << 10;

/// A process, told apart from later ones with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub pid: i32,
    ticks: u64,
}

impl Process {
    fn from_pid(pid: i32) -> io::Result<Process> {
        let ticks = system::began(pid).ok_or(io::ErrorKind::NotFound)?;
        Ok(Process { pid, ticks })
    }

    pub fn is_alive(&self) -> bool {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        let state = text.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().next());
        system::began(self.pid) == Some(self.ticks) && state.is_some_and(|state| state != "Z")
    }

    pub fn kill(&self) {
        if let Some(process) = system::open_process(self.pid, self.ticks) {
            let _ = system::signal(&process, libc::SIGKILL);
        }
    }
}

/// The processes of a pod network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processes {
    pub holder: Process,
    pub slirp: Option<Process>,
}

impl Processes {
    /// Reads the record; `None` if the holder does not run.
    pub fn find(record: &Path) -> Option<Processes> {
        let bytes = fs::read(record).ok()?;
        let found: Processes = serde_json::from_slice(&bytes).ok()?;
        found.holder.is_alive().then_some(found)
    }

    pub fn write(&self, record: &Path) -> io::Result<()> {
        let draft = record.with_extension("draft");
        fs::write(&draft, serde_json::to_vec(self)?)?;
        fs::rename(draft, record)
    }

    pub fn has_slirp(&self) -> bool {
        self.slirp.is_some_and(|slirp| slirp.is_alive())
    }

    pub fn kill(&self) {
        self.slirp.iter().for_each(Process::kill);
        self.holder.kill();
    }
}

/// Starts the holder; `directory` is where it mounts a file system for files of namespaces.
pub fn start(program: &[OsString], directory: &Path) -> io::Result<Process> {
    let (first, rest) = program.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    fs::create_dir_all(directory)?;
    let mut command = Command::new(first);
    command.args(rest).args([ARGUMENT, HOLDER]).arg(directory).env_clear();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.process_group(0).current_dir("/").spawn()?;
    let mut answer = String::new();
    if let Some(output) = child.stdout.take() {
        output.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
    }
    child.wait()?;
    let pid = answer.strip_prefix(READY).and_then(|pid| pid.trim().parse().ok());
    let pid = pid.ok_or_else(|| io::Error::other(answer.trim().to_owned()))?;
    Process::from_pid(pid)
}

/// Returns the path of slirp4netns.
pub fn find_slirp() -> Option<PathBuf> {
    const USUAL: &str = "/usr/local/bin:/usr/bin:/bin";
    // A service may have no search path.
    let path = std::env::var_os("PATH").unwrap_or_else(|| USUAL.into());
    std::env::split_paths(&path).map(|directory| directory.join(SLIRP)).find(|it| it.is_file())
}

/// Starts slirp4netns for the network of a holder, and waits until it has set up its interface.
pub fn start_slirp(program: &Path, holder: Process) -> io::Result<Process> {
    check_tunnel()?;
    let (mut ready, says) = io::pipe()?;
    let namespace = |kind: &str| format!("/proc/{}/ns/{kind}", holder.pid);
    let mut command = Command::new(program);
    command.args(["--configure", "--disable-host-loopback", "--ready-fd=0", "--mtu", MTU]);
    command.arg(format!("--cidr={}", free_network()));
    command.arg(format!("--userns-path={}", namespace("user")));
    command.args(["--netns-type=path", &namespace("net"), INTERFACE]);
    command.stdin(Stdio::from(OwnedFd::from(says))).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.process_group(0).current_dir("/").spawn()?;
    // The pipe must have no other writer, or its end would not be seen.
    drop(command);
    let mut answer = [0];
    if !matches!(ready.read(&mut answer), Ok(1)) {
        let status = child.wait()?;
        return Err(io::Error::other(format!("{} failed: {status}", program.display())));
    }
    Process::from_pid(i32::try_from(child.id()).unwrap_or(0))
}

/// Fails if slirp4netns could not open the device it needs; it reports that nowhere else.
fn check_tunnel() -> io::Result<()> {
    let opened = fs::OpenOptions::new().read(true).write(true).open(TUNNEL);
    let explain = |error| {
        let remedy = format!("allow it as root with `chmod 0666 {TUNNEL}`");
        io::Error::other(format!("{SLIRP} needs {TUNNEL}: {error}; {remedy}"))
    };
    opened.map(|_| ()).map_err(explain)
}

fn free_network() -> &'static str {
    let routes = range::routes(&fs::read_to_string("/proc/net/route").unwrap_or_default());
    let is_free = |text: &&&str| {
        let network: Option<Range> = text.parse().ok();
        network.is_some_and(|network| !routes.iter().any(|route| route.overlaps(network)))
    };
    NETWORKS.iter().find(is_free).unwrap_or(&NETWORKS[0])
}

/// The holder's own code: makes the namespaces, and then sleeps in a process of its own.
pub fn hold(directory: &Path) -> io::Result<()> {
    system::new_session();
    namespaces::own_user_and(libc::CLONE_NEWNET | libc::CLONE_NEWNS)?;
    mounts::mount(Path::new("none"), Path::new("/"), libc::MS_REC | libc::MS_SLAVE)?;
    mounts::memory(directory)?;
    Links::open()?.set_up("lo")?;
    if namespaces::fork_into(0)?.is_some() {
        return Ok(());
    }
    let mut output = io::stdout();
    write!(output, "{READY}{}", std::process::id())?;
    output.flush()?;
    namespaces::reap_forever()
}
