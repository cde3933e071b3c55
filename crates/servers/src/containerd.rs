//! A private containerd that serves CRI: its own socket, root, state and directories of CNI.

use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::clock::Look;
use crate::directory::Directory;
use crate::engine::{confine, shell_root};
use crate::error::Error;
use crate::port;
use crate::process;
use crate::program;
use crate::server::{Recipe, Server};

/// The image that sandboxes are made of; nobody can pull it.
pub const SANDBOX_IMAGE: &str = "setpoint.test/sandbox:1";
/// Mounts may hide others below them.
const UNMOUNTS_MAX: usize = 1_000;

/// Makes an archive as `docker save` does, of one layer.
const MAKE_IMAGE: &str = r#"
sum=$(sha256sum layer.tar | cut -d' ' -f1)
printf '{"architecture":"%s","os":"linux","config":{"Env":["PATH=/bin"]%s},' \
  "$(uname -m | sed 's/x86_64/amd64/;s/aarch64/arm64/')" "$1" > config.json
printf '"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' "$sum" >> config.json
printf '[{"Config":"config.json","RepoTags":["%s"],"Layers":["layer.tar"]}]' "$0" > manifest.json
tar cf image.tar config.json layer.tar manifest.json
"#;

/// A containerd with data of its own.
///
/// Dropping it kills the daemon, the containers that it started, and removes the data.
pub struct Containerd {
    server: Server,
    socket: PathBuf,
    // Last, so that the server is dead when its files go.
    directory: Directory,
}

impl Containerd {
    pub fn start() -> Result<Containerd, Error> {
        Containerd::start_in(Directory::create("containerd")?)
    }

    /// One whose data have no more room than that: `96m`.
    pub fn start_within(room: &str) -> Result<Containerd, Error> {
        let directory = Directory::create("containerd")?;
        confine(&directory.path().join("root"), room)?;
        Containerd::start_in(directory)
    }

    /// Where it keeps its data.
    pub fn data(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    fn start_in(directory: Directory) -> Result<Containerd, Error> {
        let place = directory.path();
        let socket = place.join("containerd.sock");
        let configuration = place.join("config.toml");
        let doing = || "write the configuration of containerd".to_owned();
        fs::write(&configuration, settings(place)).map_err(Error::io(doing()))?;
        for below in ["cni/bin", "cni/net.d"] {
            fs::create_dir_all(place.join(below)).map_err(Error::io(doing()))?;
        }
        let recipe = Recipe {
            name: "containerd",
            program: program::find("containerd")?,
            arguments: vec!["--config".to_owned(), configuration.display().to_string()],
            environment: Vec::new(),
            environment_removed_prefix: "CONTAINERD_",
            log: place.join("containerd.log"),
        };
        let server = Server::start(recipe, || answers(&socket))?;
        Ok(Containerd { server, socket, directory })
    }

    /// Starts a stopped or killed daemon on the same data. Containers lived on meanwhile.
    pub fn start_again(&mut self) -> Result<(), Error> {
        let socket = self.socket.clone();
        self.server.start_again(|| answers(&socket))
    }

    /// SIGTERM, then waits until the daemon has ended.
    pub fn stop(&mut self) -> Result<(), Error> {
        self.server.stop()
    }

    pub fn kill(&mut self) -> Result<(), Error> {
        self.server.kill()
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// What the daemon wrote, for a test that failed.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("containerd.log")).unwrap_or_default()
    }

    /// Makes an image of busybox, under a name with a tag.
    pub fn make_shell(&self, name: &str) -> Result<(), Error> {
        self.make_image(name, "")
    }

    /// The same with a program and arguments of its own: `echo entry` and `usual`.
    pub fn make_program(&self, name: &str) -> Result<(), Error> {
        self.make_image(name, r#","Entrypoint":["echo","entry"],"Cmd":["usual"]"#)
    }

    fn make_image(&self, name: &str, more: &str) -> Result<(), Error> {
        let doing = || "make an image of busybox".to_owned();
        let place = self.directory.path().join("image");
        let archive = shell_archive(&place, (name, more)).map_err(Error::io(doing()))?;
        let archive = archive.display().to_string();
        let import = self.ctr(&["images", "import", &archive]).output();
        let import = import.map_err(Error::io(doing()))?;
        match import.status.success() {
            true => Ok(()),
            false => {
                let said = String::from_utf8_lossy(&import.stderr).into_owned();
                Err(Error::io(doing())(io::Error::other(said)))
            }
        }
    }

    /// `ctr` for what CRI has made.
    pub fn ctr(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("ctr");
        command.arg("--address").arg(&self.socket).args(["--namespace", "k8s.io"]);
        command.args(arguments);
        command
    }
}

/// Makes an image of busybox as `docker save` writes it, in a directory that is made; `more`
/// follows what its configuration says.
pub fn shell_archive(place: &Path, (name, more): (&str, &str)) -> io::Result<PathBuf> {
    fs::create_dir_all(place)?;
    shell_root(&place.join("root"), &place.join("layer.tar"))?;
    let made =
        Command::new("sh").args(["-ec", MAKE_IMAGE, name, more]).current_dir(place).output()?;
    match made.status.success() {
        true => Ok(place.join("image.tar")),
        false => Err(io::Error::other(String::from_utf8_lossy(&made.stderr).into_owned())),
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        // Without the daemon nothing new begins; what it started is found by its socket.
        self.server.kill().ok();
        end_containers(&self.socket);
        unmount_below(self.directory.path());
    }
}

/// Settings for a machine without a registry, where a score below the own cannot be set.
fn settings(place: &Path) -> String {
    let place = place.display();
    format!(
        r#"version = 2
root = "{place}/root"
state = "{place}/state"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
address = "{place}/containerd.sock"
[ttrpc]
address = "{place}/containerd.sock.ttrpc"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{SANDBOX_IMAGE}"
restrict_oom_score_adj = true
disable_apparmor = true
stream_server_address = "127.0.0.1"
stream_server_port = "0"
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{place}/cni/bin"
conf_dir = "{place}/cni/net.d"
"#
    )
}

fn answers(socket: &Path) -> io::Result<Look<()>> {
    match UnixStream::connect(socket) {
        Ok(_) => Ok(Look::Found(())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Look::NotYet),
        Err(error) if port::is_transient(&error) => Ok(Look::NotYet),
        Err(error) => Err(error),
    }
}

/// Kills the shims of a daemon with the containers that they hold.
fn end_containers(socket: &Path) {
    let socket = socket.display().to_string();
    let processes: Vec<(u32, u32, String)> = processes();
    let is_ours = |line: &str| line.contains("containerd-shim") && line.contains(&socket);
    let shims = processes.iter().filter(|(_, _, line)| is_ours(line)).map(|(pid, ..)| *pid);
    for shim in shims {
        // The first process of a container takes the others of its namespace along.
        let held = processes.iter().filter(|(_, parent, _)| *parent == shim);
        held.for_each(|(pid, ..)| process::kill(*pid));
        process::kill(shim);
    }
}

/// Number, parent and command of every process.
fn processes() -> Vec<(u32, u32, String)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let read = |entry: fs::DirEntry| {
        let pid: u32 = entry.file_name().to_string_lossy().parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        Some((pid, parent, String::from_utf8_lossy(&line).replace('\0', " ")))
    };
    entries.filter_map(read).collect()
}

fn unmount_below(directory: &Path) {
    let directory = directory.display().to_string();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    let ours: Vec<&str> = places.filter(|place| place.starts_with(&directory)).collect();
    for place in ours.iter().rev().take(UNMOUNTS_MAX) {
        process::unmount(Path::new(place));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_daemon_starts_again_with_its_data() {
        let mut containerd = Containerd::start().unwrap();
        let version = |containerd: &Containerd| {
            let out = containerd.ctr(&["version"]).output().unwrap();
            assert!(out.status.success(), "{}", containerd.log());
        };
        version(&containerd);
        containerd.kill().unwrap();
        containerd.start_again().unwrap();
        version(&containerd);
        let place = containerd.directory.path().to_owned();
        drop(containerd);
        assert!(!place.exists());
    }
}
