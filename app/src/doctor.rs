//! What `setpoint doctor` looks at. Each look is a function that answers with one finding; nothing
//! is changed.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::instance::Instance;
use crate::kvm;
use crate::listener;
use crate::node_name;
use crate::pod_network::{self, PodNetwork};
use crate::{client, health, kubeconfig, output};

/// Below this much free space the store will soon be read-only.
const SPACE_BYTES_MIN: u64 = 1 << 30;
const FILES_MIN: u64 = 4_096;
const INOTIFY_MIN: u64 = 256;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Well,
    /// It works, with less.
    Limited,
    /// It does not work.
    Unwell,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub what: &'static str,
    pub verdict: Verdict,
    pub found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// Looks at everything.
pub async fn examine(data: &Path) -> Vec<Finding> {
    let mut findings = vec![
        look_at_program(data).await,
        look_at_data(data),
        look_at_space(data),
        look_at_port(data),
        look_at_name(),
        look_at_kubectl(),
        look_at_kubeconfig(data),
        check_pod_network(PodNetwork::detect()),
        look_at_cgroups(&read("/proc/self/mountinfo"), can_limit()),
        look_at_limits(&read("/proc/self/limits")),
        look_at_inotify(),
        look_at_kvm(),
        look_at_gpus(),
    ];
    findings.extend(look_at_runtimes());
    findings
}

fn well(what: &'static str, found: impl Into<String>) -> Finding {
    Finding { what, verdict: Verdict::Well, found: found.into(), remedy: None }
}

fn limited(what: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Finding {
    let (found, remedy) = (found.into(), Some(remedy.into()));
    Finding { what, verdict: Verdict::Limited, found, remedy }
}

fn unwell(what: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { verdict: Verdict::Unwell, ..limited(what, found, remedy) }
}

async fn look_at_program(data: &Path) -> Finding {
    let what = "setpoint";
    let instance = match Instance::running(data) {
        Ok(Some(instance)) => instance,
        Ok(None) => return well(what, "not running; start it with `setpoint up`"),
        Err(error) => {
            let remedy = "check who owns the data directory";
            return unwell(what, output::one_line(&error), remedy);
        }
    };
    let pid = instance.pid;
    match client::get(data, "/statusz").await {
        Ok((_, body)) => match serde_json::from_slice::<health::Status>(&body) {
            Ok(told) if told.health == "ok" && told.unwell.is_empty() => {
                well(what, format!("running as process {pid}, all parts well"))
            }
            Ok(told) if told.health == "ok" => {
                let parts: Vec<&str> = told.unwell.iter().map(|(name, _)| name.as_str()).collect();
                let found = format!("running as process {pid}; not well: {}", parts.join(", "));
                limited(what, found, format!("look at {}/setpoint.log", data.display()))
            }
            Ok(told) => {
                let remedy = "free space or repair the store, then `setpoint down; setpoint up`";
                unwell(what, format!("process {pid} cannot write: {}", told.health), remedy)
            }
            Err(_) => limited(what, format!("process {pid} is of another version"), "restart it"),
        },
        Err(error) => {
            let remedy = format!("look at its log; end it with `kill {pid}`");
            unwell(what, format!("process {pid}: {}", output::one_line(&error)), remedy)
        }
    }
}

fn look_at_data(data: &Path) -> Finding {
    let what = "data";
    let Some(existing) = data.ancestors().find(|path| path.exists()) else {
        return unwell(what, format!("{} has no parent", data.display()), "choose another");
    };
    let probe = existing.join(format!(".setpoint-doctor-{}", std::process::id()));
    let written = fs::write(&probe, b"").and_then(|()| fs::remove_file(&probe));
    match written {
        Ok(()) => well(what, format!("{} can be written", data.display())),
        Err(error) => unwell(
            what,
            format!("{} cannot be written: {error}", existing.display()),
            "choose another directory with --data-dir DIR or SETPOINT_DATA_DIR",
        ),
    }
}

fn look_at_space(data: &Path) -> Finding {
    let what = "disk";
    let Some(existing) = data.ancestors().find(|path| path.exists()) else {
        return limited(what, "there is nothing to look at", "choose a data directory");
    };
    match node::machine::free_bytes(existing) {
        Some(free) if free >= SPACE_BYTES_MIN => well(what, format!("{} GiB free", free >> 30)),
        Some(free) => {
            let found = format!("{} MiB free on the file system of the data", free >> 20);
            limited(what, found, "free some, or move the data with --data-dir DIR")
        }
        None => limited(what, "the free space cannot be told", "check that it is mounted"),
    }
}

fn look_at_port(data: &Path) -> Finding {
    let what = "port";
    let usual = listener::USUAL;
    if let Ok(Some(Instance { listen: Some(listen), .. })) = Instance::running(data) {
        return well(what, format!("{listen} is ours"));
    }
    match TcpListener::bind(usual) {
        Ok(_) => well(what, format!("{usual} is free")),
        Err(error) => {
            let is_any_free = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).is_ok();
            let found = format!("{usual} cannot be used: {error}");
            match is_any_free {
                true => {
                    limited(what, found, "nothing: another port is taken, and said; or --listen")
                }
                false => unwell(what, found, "check that the loopback interface is up"),
            }
        }
    }
}

fn look_at_name() -> Finding {
    match node_name::of_this_node() {
        Ok(name) => well("node name", name),
        Err(error) => unwell("node name", output::one_line(&error), "set NODE_NAME to another"),
    }
}

fn look_at_kubectl() -> Finding {
    match on_path("kubectl") {
        Some(path) => well("kubectl", path.display().to_string()),
        None => limited(
            "kubectl",
            "not on PATH",
            "install it to use the cluster by hand: https://kubernetes.io/docs/tasks/tools/",
        ),
    }
}

fn look_at_kubeconfig(data: &Path) -> Finding {
    let what = "kubeconfig";
    let ours = kubeconfig::in_data(data);
    if !ours.exists() {
        return well(what, "none yet; `setpoint up` makes one");
    }
    match fs::metadata(&ours) {
        Ok(metadata) if metadata.mode() & 0o077 != 0 => {
            let remedy = format!("chmod 600 {}", ours.display());
            limited(what, format!("others may read {}", ours.display()), remedy)
        }
        Ok(_) => well(what, ours.display().to_string()),
        Err(error) => limited(what, format!("{}: {error}", ours.display()), "run `setpoint up`"),
    }
}

fn check_pod_network(network: PodNetwork) -> Finding {
    let what = "pod network";
    match network {
        PodNetwork::Privileged => check_rules(what),
        PodNetwork::Rootless => {
            well(what, "not root: pods get namespaces and addresses, through slirp4netns")
        }
        PodNetwork::Loopback { reason, remedy } => {
            let found = format!(
                "not root, and {reason}: pods share this host's ports, at loopback addresses"
            );
            limited(what, found, remedy)
        }
    }
}

/// Returns whether this process can limit what pods use: root can, and users whose control group
/// was delegated to them.
fn can_limit() -> bool {
    let groups = read("/proc/self/cgroup");
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"));
    let own = own.map(|path| format!("/sys/fs/cgroup{path}/cgroup.subtree_control"));
    let is_delegated =
        own.is_some_and(|path| fs::OpenOptions::new().write(true).open(path).is_ok());
    pod_network::is_root() || is_delegated
}

fn look_at_cgroups(mounts: &str, can_limit: bool) -> Finding {
    let what = "cgroups";
    let has = |kind: &str| mounts.lines().any(|line| line.contains(&format!(" - {kind} ")));
    if !can_limit {
        let found = "not root: CPU and memory limits of pods are not enforced";
        return limited(what, found, "run as root, or with `systemd-run --user -p Delegate=yes`");
    }
    match (has("cgroup2"), has("cgroup")) {
        (true, false) => well(what, "version 2"),
        (true, true) => well(what, "versions 1 and 2 (hybrid)"),
        (false, true) => well(what, "version 1"),
        (false, false) => limited(
            what,
            "none mounted: limits of pods are not kept",
            "mount -t cgroup2 none /sys/fs/cgroup",
        ),
    }
}

/// The program `nft` is not needed: we speak to the kernel ourselves, as the node does.
fn check_rules(what: &'static str) -> Finding {
    match node::network::try_rules() {
        Ok(()) => well(what, "root: pods get namespaces, addresses and limits"),
        Err(error) => limited(
            what,
            format!("the kernel accepts no packet rules ({error}): pods share this host's ports"),
            "run as root on a kernel with nf_tables and nft_nat (`modprobe nft_chain_nat`)",
        ),
    }
}

fn look_at_limits(limits: &str) -> Finding {
    let what = "open files";
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let hard = line.and_then(|line| line.split_whitespace().nth(1));
    match hard {
        Some("unlimited") => well(what, "unlimited"),
        Some(hard) if hard.parse().is_ok_and(|hard: u64| hard >= FILES_MIN) => {
            well(what, format!("{hard} at most"))
        }
        Some(hard) => {
            let found = format!("{hard} at most: about a hundred pods");
            limited(what, found, "raise it with `ulimit -Hn` or LimitNOFILE=")
        }
        None => limited(what, "the limit cannot be told", "mount /proc"),
    }
}

fn look_at_inotify() -> Finding {
    let what = "inotify";
    let instances = read("/proc/sys/fs/inotify/max_user_instances");
    match instances.parse::<u64>() {
        Ok(count) if count < INOTIFY_MIN => {
            let found = format!("{count} instances for each user: `kubectl logs -f` may fail");
            limited(what, found, "sysctl fs.inotify.max_user_instances=1024")
        }
        Ok(count) => well(what, format!("{count} instances for each user")),
        Err(_) => limited(what, "cannot be told", "mount /proc"),
    }
}

/// Runs a test guest, as the hypervisor does before the first virtual machine.
fn look_at_kvm() -> Finding {
    let what = "kvm";
    match kvm::probe() {
        kvm::State::Works => well(what, "a test guest ran with KVM: full speed"),
        state => limited(what, state.explanation(), state.remedy()),
    }
}

fn look_at_gpus() -> Finding {
    let what = "gpus";
    match on_path("nvidia-smi") {
        Some(path) => well(what, format!("{} tells of them", path.display())),
        None => well(what, "none found; --node-resources nvidia.com/gpu=N gives a node some"),
    }
}

/// Programs that could run containers, by the socket on which they answer.
fn look_at_runtimes() -> Vec<Finding> {
    const RUNTIMES: [(&str, &str, &str); 4] = [
        ("docker", "/var/run/docker.sock", "docker"),
        ("podman", "/run/podman/podman.sock", "podman"),
        ("containerd", "/run/containerd/containerd.sock", "ctr"),
        ("cri-o", "/var/run/crio/crio.sock", "crio"),
    ];
    let look = |(name, socket, program): (&'static str, &str, &str)| {
        let (has_socket, has_program) = (Path::new(socket).exists(), on_path(program).is_some());
        match (has_socket, has_program) {
            (true, _) => match std::os::unix::net::UnixStream::connect(socket) {
                Ok(_) => well(name, format!("answers on {socket}")),
                Err(error) => {
                    let found = format!("{socket}: {error}");
                    limited(name, found, format!("start {name}, or join its group"))
                }
            },
            (false, true) => {
                let found = "installed, but nothing listens; pods run as processes";
                limited(name, found, format!("start {name} to use it"))
            }
            (false, false) => well(name, "not installed; pods run as processes"),
        }
    };
    RUNTIMES.into_iter().map(look).collect()
}

fn on_path(program: &str) -> Option<PathBuf> {
    if program.starts_with('/') {
        return Some(PathBuf::from(program)).filter(|path| path.exists());
    }
    let list = std::env::var_os("PATH")?;
    std::env::split_paths(&list).map(|folder| folder.join(program)).find(|path| path.is_file())
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_of_cgroups_is_told_from_the_mounts() {
        let v1 = "31 25 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory";
        let v2 = "30 25 0:25 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw";
        for (mounts, found) in [
            (v1.to_owned(), "version 1"),
            (v2.to_owned(), "version 2"),
            (format!("{v1}\n{v2}"), "versions 1 and 2 (hybrid)"),
        ] {
            assert_eq!(look_at_cgroups(&mounts, true), well("cgroups", found));
            assert_eq!(look_at_cgroups(&mounts, false).verdict, Verdict::Limited);
        }
        assert_eq!(look_at_cgroups("", true).verdict, Verdict::Limited);
    }

    #[test]
    fn a_low_limit_of_files_has_a_remedy() {
        let limits = |hard: &str| format!("Max open files            1024   {hard}   files");
        assert_eq!(look_at_limits(&limits("20000")).verdict, Verdict::Well);
        assert_eq!(look_at_limits(&limits("unlimited")).verdict, Verdict::Well);
        let low = look_at_limits(&limits("1024"));
        assert_eq!(low.verdict, Verdict::Limited);
        assert!(low.remedy.is_some());
    }
}
