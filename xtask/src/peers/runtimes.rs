//! Container runtimes that Debian does not package in these versions: CRI-O and containerd 2. Each
//! fulfils the contract that all runtimes of the node agent fulfil.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::daemon::{Daemon, check_file};
use super::go::{Cgo, Module, Program};
use super::{Cache, output};
use crate::kubectl;
use crate::workspace::cargo;

const CRI_O: Module = Module {
    name: "crio",
    path: "github.com/cri-o/cri-o",
    version: "v1.36.2",
    staging_version: "",
    link_flags: "-s -w",
    replacements: &[("k8s.io/cri-api", "v0.36.0-rc.0"), ("k8s.io/cri-client", "v0.36.0")],
};
const CRI_O_TAGS: &str =
    "containers_image_ostree_stub containers_image_openpgp exclude_graphdriver_btrfs";
/// CRI-O prefers crun otherwise. Its plugin interface would listen at a path of the host.
const CRI_O_CONFIGURATION: &str = "[crio.runtime]\ndefault_runtime = \"runc\"\n\
                                   [crio.runtime.runtimes.runc]\n[crio.nri]\nenable_nri = false\n";
const CONTAINERD: Module = Module {
    name: "containerd",
    path: "github.com/containerd/containerd/v2",
    version: "v2.3.3",
    staging_version: "",
    link_flags: "-s -w -X github.com/containerd/containerd/v2/version.Version=v2.3.3",
    replacements: &[],
};
/// Image of sandboxes.
pub const SANDBOX: &str = "setpoint.test/sandbox:1";
const START_MAX: Duration = Duration::from_secs(60);
/// Test of the node agent that checks the contract on a running runtime.
const CONTRACT: &str = "runtimes::cri::tests::a_peer_fulfils_the_contract";
/// Tells it the socket of the runtime.
const SOCKET_VARIABLE: &str = "SETPOINT_PEER_CRI";

pub fn run_cri_o(cache: &Cache) -> Result<()> {
    let program = Program { name: "crio", package: "cmd/crio", tags: CRI_O_TAGS, cgo: Cgo::On };
    let program = CRI_O.build(&cache.directory, program)?;
    let pinns = build_pinns(&program)?;
    let directory = Directory::create("crio")?;
    let at = |name: &str| directory.path.join(name).display().to_string();
    for name in ["config", "cni"] {
        fs::create_dir_all(directory.path.join(name)).context("could not create a directory")?;
    }
    let configuration = directory.path.join("crio.conf");
    fs::write(configuration, CRI_O_CONFIGURATION).context("could not write crio.conf")?;
    let policy = r#"{"default": [{"type": "insecureAcceptAnything"}]}"#;
    fs::write(directory.path.join("policy.json"), policy).context("could not write a policy")?;
    let mut command = Command::new(program);
    command.args(["--config", &at("crio.conf"), "--config-dir", &at("config")]);
    command.args(["--root", &at("root"), "--runroot", &at("run"), "--listen", &at("crio.sock")]);
    command.args(["--storage-driver", "vfs", "--signature-policy", &at("policy.json")]);
    command.args(["--cgroup-manager", "cgroupfs", "--conmon-cgroup", "pod"]);
    command.args(["--cni-config-dir", &at("cni"), "--log-dir", &at("logs")]);
    command.args(["--container-exits-dir", &at("exits"), "--namespaces-dir", &at("ns")]);
    command.args([
        "--container-attach-socket-dir",
        &at("attach"),
        "--version-file",
        &at("version"),
    ]);
    command.args(["--clean-shutdown-file", &at("clean"), "--stream-port", "0"]);
    command.arg("--pinns-path").arg(pinns);
    let mut daemon = Daemon::start("CRI-O", command, directory.path.join("crio.log"))?;
    let socket = directory.path.join("crio.sock");
    daemon.wait_for("CRI-O listens", START_MAX, || check_file(&socket))?;
    check_contract(&socket, None).with_context(|| daemon.log_tail())
}

pub fn run_containerd(cache: &Cache) -> Result<()> {
    let containerd = Containerd::start(&cache.directory)?;
    let checked = check_contract(&containerd.socket, Some(&containerd.programs));
    checked.with_context(|| containerd.daemon.log_tail())
}

/// A running containerd 2 with files of its own.
pub struct Containerd {
    pub daemon: Daemon,
    pub socket: PathBuf,
    /// Directory of its programs.
    pub programs: PathBuf,
    // Last, so that the daemon has ended when its files are removed.
    pub directory: Directory,
}

impl Containerd {
    pub fn start(cache: &Path) -> Result<Containerd> {
        let build = |name, package| {
            let program = Program { name, package, tags: "no_btrfs", cgo: Cgo::Off };
            CONTAINERD.build(cache, program)
        };
        let program = build("containerd", "cmd/containerd")?;
        build("ctr", "cmd/ctr")?;
        build("containerd-shim-runc-v2", "cmd/containerd-shim-runc-v2")?;
        let programs = program.parent().context("a program is in a directory")?.to_owned();
        let directory = Directory::create("containerd")?;
        let socket = directory.path.join("containerd.sock");
        let configuration = directory.path.join("config.toml");
        fs::create_dir_all(directory.path.join("cni")).context("could not create a directory")?;
        fs::write(&configuration, containerd_settings(&directory.path)).context("no settings")?;
        let mut command = Command::new(program);
        command.arg("--config").arg(&configuration).env("PATH", kubectl::path_with(&programs)?);
        let mut daemon = Daemon::start("containerd", command, directory.path.join("log"))?;
        daemon.wait_for("containerd listens", START_MAX, || check_file(&socket))?;
        Ok(Containerd { daemon, socket, programs, directory })
    }

    /// Imports an image with a shell, which sleeps if nothing else is said.
    pub fn import_shell(&self, name: &str) -> Result<()> {
        const SLEEP: &str = r#","Cmd":["sleep","1000000"]"#;
        let place = self.directory.path.join("image");
        let archive = servers::shell_archive(&place, (name, SLEEP)).context("no image")?;
        let mut ctr = Command::new(self.programs.join("ctr"));
        ctr.arg("--address").arg(&self.socket).args(["--namespace", "k8s.io", "images", "import"]);
        output(ctr.arg(archive)).map(|_| ())
    }
}

/// Settings for a host without a registry, on which scores below the own cannot be set.
fn containerd_settings(directory: &Path) -> String {
    let place = directory.display();
    format!(
        r#"version = 3
root = "{place}/root"
state = "{place}/state"
[grpc]
address = "{place}/containerd.sock"
[ttrpc]
address = "{place}/containerd.sock.ttrpc"
[plugins."io.containerd.cri.v1.images"]
snapshotter = "native"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{SANDBOX}"
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
disable_apparmor = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{place}/cni"]
conf_dir = "{place}/cni"
[plugins."io.containerd.grpc.v1.cri"]
stream_server_address = "127.0.0.1"
stream_server_port = "0"
"#
    )
}

/// Builds the program by which CRI-O keeps namespaces; it is written in C.
fn build_pinns(program: &Path) -> Result<PathBuf> {
    let pinns = program.with_file_name("pinns");
    if pinns.exists() {
        return Ok(pinns);
    }
    let sources = CRI_O.sources()?.join("pinns/src");
    let files = ["pinns.c", "sysctl.c"].map(|name| sources.join(name));
    let built = program.with_file_name("pinns.new");
    output(Command::new("cc").args(["-std=c99", "-Os", "-static", "-o"]).arg(&built).args(files))?;
    fs::rename(built, &pinns).context("could not keep pinns")?;
    Ok(pinns)
}

/// Runs the test of the contract. Programs of the runtime's version come first on the search path.
fn check_contract(socket: &Path, programs: Option<&Path>) -> Result<()> {
    let mut test =
        cargo(&["test", "--locked", "--package", "node", "--lib", "--features", "peers"]);
    test.args(["--", "--exact", CONTRACT]).env(SOCKET_VARIABLE, socket);
    if let Some(programs) = programs {
        test.env("PATH", kubectl::path_with(programs)?);
    }
    let printed = output(&mut test)?;
    ensure!(printed.contains("1 passed"), "the contract was not checked: {printed}");
    Ok(())
}

/// Files of a daemon, removed with everything that is mounted below.
pub struct Directory {
    pub path: PathBuf,
}

impl Directory {
    pub fn create(name: &str) -> Result<Directory> {
        let path = env::temp_dir().join(format!("setpoint-peer-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).context("could not create a directory")?;
        Ok(Directory { path })
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let places = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        let ours: Vec<&str> = places.filter(|it| Path::new(it).starts_with(&self.path)).collect();
        for place in ours.iter().rev() {
            drop(Command::new("umount").args(["--lazy", place]).status());
        }
        drop(fs::remove_dir_all(&self.path));
    }
}
