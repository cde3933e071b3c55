//! A private engine of containers, Docker or Podman, with a socket and data of its own.
//!
//! No registry is asked for anything: the image that tests run is made of the machine's busybox.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::clock::Look;
use crate::containerd::shell_archive;
use crate::directory::Directory;
use crate::error::Error;
use crate::program;
use crate::server::{Recipe, Server};

/// How long the engine may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// An engine. Dropped, it is stopped, and all that it ran and kept is gone.
pub struct Engine {
    server: Server,
    socket: PathBuf,
    directory: Directory,
}

impl Engine {
    /// Engines with data of their own are root's only.
    pub fn is_possible() -> bool {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let user = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        user.and_then(|numbers| numbers.split_whitespace().nth(1)) == Some("0")
    }

    pub fn docker() -> Result<Engine, Error> {
        Engine::docker_in(Directory::create("docker")?)
    }

    /// A Docker whose data have no more room than that: `96m`.
    pub fn docker_within(room: &str) -> Result<Engine, Error> {
        let directory = Directory::create("docker")?;
        confine(&directory.path().join("data"), room)?;
        Engine::docker_in(directory)
    }

    /// Where a Docker keeps its data.
    pub fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn docker_in(directory: Directory) -> Result<Engine, Error> {
        let below = |name: &str| directory.path().join(name).display().to_string();
        let arguments = vec![
            format!("--host=unix://{}", below("engine.sock")),
            format!("--data-root={}", below("data")),
            format!("--exec-root={}", below("exec")),
            format!("--pidfile={}", below("pid")),
            // Nothing of the machine's network is touched.
            "--bridge=none".to_owned(),
            "--iptables=false".to_owned(),
            "--ip6tables=false".to_owned(),
            "--ip-forward=false".to_owned(),
            "--ip-masq=false".to_owned(),
            "--shutdown-timeout=1".to_owned(),
            "--storage-driver=vfs".to_owned(),
        ];
        Engine::start("docker", ("dockerd", arguments), directory)
    }

    pub fn podman() -> Result<Engine, Error> {
        Engine::podman_trusting("")
    }

    /// A Podman that takes images of a registry without TLS, which it does not by itself.
    pub fn podman_trusting(registry: &str) -> Result<Engine, Error> {
        let directory = Directory::create("podman")?;
        let registries = match registry {
            "" => String::new(),
            named => format!("[[registry]]\nlocation = \"{named}\"\ninsecure = true\n"),
        };
        let configured = fs::write(directory.path().join("registries.conf"), registries);
        configured.map_err(Error::io("tell podman of registries"))?;
        let below = |name: &str| directory.path().join(name).display().to_string();
        let runtime = program::find("runc")?;
        let arguments = vec![
            format!("--root={}", below("root")),
            format!("--runroot={}", below("run")),
            format!("--tmpdir={}", below("tmp")),
            "--storage-driver=vfs".to_owned(),
            "--cgroup-manager=cgroupfs".to_owned(),
            "--events-backend=file".to_owned(),
            format!("--runtime={}", runtime.display()),
            format!("--registries-conf={}", below("registries.conf")),
            "system".to_owned(),
            "service".to_owned(),
            "--time=0".to_owned(),
            format!("unix://{}", below("engine.sock")),
        ];
        Engine::start("podman", ("podman", arguments), directory)
    }

    fn start(
        name: &'static str,
        (program, arguments): (&'static str, Vec<String>),
        directory: Directory,
    ) -> Result<Engine, Error> {
        let socket = directory.path().join("engine.sock");
        let recipe = Recipe {
            name,
            program: program::find(program)?,
            arguments,
            environment: Vec::new(),
            environment_removed_prefix: "DOCKER_",
            log: directory.path().join("engine.log"),
        };
        let server = Server::start(recipe, || is_there(&socket))?;
        Ok(Engine { server, socket, directory })
    }

    /// Starts a stopped or killed engine on the same data and the same socket.
    pub fn start_again(&mut self) -> Result<(), Error> {
        let socket = self.socket.clone();
        self.server.start_again(|| is_there(&socket))
    }

    pub fn stop(&mut self) -> Result<(), Error> {
        self.server.stop()
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Makes an image of busybox, under a name with a tag.
    pub fn make_shell(&self, name: &str) -> Result<(), Error> {
        self.make_image(name, "")
    }

    /// The same with a program and arguments of its own: `echo entry` and `usual`.
    pub fn make_program(&self, name: &str) -> Result<(), Error> {
        // Written as in a Dockerfile, and encoded for a query.
        let entrypoint = "ENTRYPOINT%20%5B%22echo%22%2C%22entry%22%5D";
        let command = "CMD%20%5B%22usual%22%5D";
        self.make_image(name, &format!("&changes={entrypoint}&changes={command}"))
    }

    /// The same, asked to end by a signal of its own: `SIGUSR1`.
    pub fn make_stopped_by(&self, name: &str, signal: &str) -> Result<(), Error> {
        let doing = "make an image of busybox";
        let more = format!(",\"StopSignal\":\"{signal}\"");
        let archive = shell_archive(&self.path().join("image"), (name, &more));
        let bytes = archive.and_then(fs::read).map_err(Error::io(doing))?;
        match self.ask(("POST", "/images/load?quiet=1"), &bytes).map_err(Error::io(doing))? {
            (200, _) => Ok(()),
            (_, answer) => Err(Error::io(doing)(io::Error::other(answer))),
        }
    }

    fn make_image(&self, name: &str, changes: &str) -> Result<(), Error> {
        let root = self.path().join("shell");
        let archive = self.path().join("shell.tar");
        shell_root(&root, &archive).map_err(Error::io("make an image of busybox"))?;
        self.import_root(name, &root, changes)
    }

    /// Where its data are, and what is made for it.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Makes an image of a root, under a name with a tag.
    pub(crate) fn import_root(&self, name: &str, root: &Path, changes: &str) -> Result<(), Error> {
        let doing = "make an image";
        let archive = self.path().join("root.tar");
        pack(root, &archive).map_err(Error::io(doing))?;
        let bytes = fs::read(&archive).map_err(Error::io(doing))?;
        let import = format!("/images/create?fromSrc=-{changes}");
        let (_, answer) = self.ask(("POST", &import), &bytes).map_err(Error::io(doing))?;
        let id = answer.rsplit("sha256:").next().unwrap_or_default();
        let id: String = id.chars().take_while(char::is_ascii_hexdigit).collect();
        let (repository, tag) = name.rsplit_once(':').unwrap_or((name, "latest"));
        let path = format!("/images/sha256:{id}/tag?repo={repository}&tag={tag}");
        match self.ask(("POST", &path), b"").map_err(Error::io(doing))? {
            (201, _) => Ok(()),
            (_, answer) => Err(Error::io(doing)(io::Error::other(answer))),
        }
    }

    /// Asks the engine, as it is: the status and the body of its answer.
    pub fn ask(&self, (method, path): (&str, &str), body: &[u8]) -> io::Result<(u16, String)> {
        ask(&self.socket, (method, path), body)
    }

    fn remove_all(&self) -> io::Result<()> {
        let (_, list) = self.ask(("GET", "/containers/json?all=1"), b"")?;
        for part in list.split("\"Id\":\"").skip(1) {
            let id: String = part.chars().take_while(char::is_ascii_hexdigit).collect();
            self.ask(("DELETE", &format!("/containers/{id}?force=true&v=true")), b"")?;
        }
        Ok(())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Those that share what another has cannot go after it: a second time finds the rest.
        for _ in 0..2 {
            self.remove_all().ok();
        }
        self.server.stop().ok();
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let ours = self.directory.path().display().to_string();
        let places = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        let mut places: Vec<&str> = places.filter(|place| place.starts_with(&ours)).collect();
        places.reverse();
        for place in places {
            Command::new("umount").args(["-l", place]).status().ok();
        }
    }
}

/// Makes a directory that has no more room than that: `96m`.
pub(crate) fn confine(data: &Path, room: &str) -> Result<(), Error> {
    let doing = || "mount a file system of its own".to_owned();
    fs::create_dir_all(data).map_err(Error::io(doing()))?;
    let options = format!("size={room}");
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", &options, "none"]).arg(data);
    let mounted = mount.status().map_err(Error::io(doing()))?;
    match mounted.success() {
        true => Ok(()),
        false => Err(Error::io(doing())(io::Error::other("mount failed"))),
    }
}

/// The root of an image that has a shell and its programs.
pub fn shell_root(root: &Path, archive: &Path) -> io::Result<()> {
    for folder in ["bin", "etc", "tmp", "root"] {
        fs::create_dir_all(root.join(folder))?;
    }
    let busybox = program::find("busybox").map_err(io::Error::other)?;
    fs::copy(&busybox, root.join("bin/busybox"))?;
    let list = Command::new(&busybox).arg("--list").output()?;
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    for name in list.lines().filter(|name| *name != "busybox") {
        let link = root.join("bin").join(name);
        if !link.exists() {
            symlink("busybox", link)?;
        }
    }
    fs::write(root.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n")?;
    fs::write(root.join("etc/group"), "root:x:0:\n")?;
    pack(root, archive)
}

pub(crate) fn pack(root: &Path, archive: &Path) -> io::Result<()> {
    let packed =
        Command::new("tar").arg("-C").arg(root).arg("-cf").arg(archive).arg(".").status()?;
    if packed.success() { Ok(()) } else { Err(io::Error::other("tar failed")) }
}

fn is_there(socket: &Path) -> io::Result<Look<()>> {
    match ask(socket, ("GET", "/_ping"), b"") {
        Ok((200, _)) => Ok(Look::Found(())),
        _ => Ok(Look::NotYet),
    }
}

fn ask(socket: &Path, (method, path): (&str, &str), body: &[u8]) -> io::Result<(u16, String)> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let length = body.len();
    // Of the older version nobody answers in pieces.
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nHost: engine\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n"
    )?;
    stream.write_all(body)?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Ok((status, body.to_owned()))
}
