//! The kind of network that pods get on this host, and what is missing for a better one.

use std::fs;

use node::network::rootless;

const TUN: &str = "/dev/net/tun";

/// Detected before a node is started, so a start can still fail for another reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodNetwork {
    /// Root: network namespaces of the host.
    Privileged,
    /// Network namespaces of an unprivileged user, connected by slirp4netns.
    Rootless,
    /// Addresses below 127.64.0.0/10 in the host's network.
    Loopback { reason: &'static str, remedy: &'static str },
}

/// Facts about the host that decide.
struct Host {
    is_root: bool,
    has_user_namespaces: bool,
    restricts_user_namespaces: bool,
    has_slirp: bool,
    has_tun: bool,
}

impl PodNetwork {
    pub fn detect() -> PodNetwork {
        let tun = fs::OpenOptions::new().read(true).write(true).open(TUN);
        PodNetwork::for_host(&Host {
            is_root: is_root(),
            has_user_namespaces: read("/proc/sys/kernel/unprivileged_userns_clone") != "0"
                && read("/proc/sys/user/max_user_namespaces") != "0",
            restricts_user_namespaces: read(
                "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
            ) == "1",
            has_slirp: rootless::find_slirp().is_some(),
            has_tun: tun.is_ok(),
        })
    }

    fn for_host(host: &Host) -> PodNetwork {
        let loopback = |reason, remedy| PodNetwork::Loopback { reason, remedy };
        if host.is_root {
            return PodNetwork::Privileged;
        }
        if !host.has_user_namespaces {
            let remedy = "run as root, or `sysctl kernel.unprivileged_userns_clone=1 \
                          user.max_user_namespaces=10000`";
            return loopback("users may not create namespaces", remedy);
        }
        if !host.has_slirp {
            return loopback(
                "slirp4netns is not installed",
                "install slirp4netns (`apt-get install slirp4netns`), or run as root",
            );
        }
        if !host.has_tun {
            return loopback("/dev/net/tun cannot be opened", "`modprobe tun`, or run as root");
        }
        if host.restricts_user_namespaces {
            return loopback(
                "AppArmor restricts user namespaces",
                "`sysctl kernel.apparmor_restrict_unprivileged_userns=0`, or run as root",
            );
        }
        PodNetwork::Rootless
    }
}

/// Returns whether this process runs as root.
pub fn is_root() -> bool {
    read("/proc/self/status").lines().any(|line| line.starts_with("Uid:\t0\t"))
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_unprivileged_user_lacks_is_named() {
        let whole = Host {
            is_root: false,
            has_user_namespaces: true,
            restricts_user_namespaces: false,
            has_slirp: true,
            has_tun: true,
        };
        assert_eq!(PodNetwork::for_host(&whole), PodNetwork::Rootless);
        let missing = Host { has_slirp: false, ..whole };
        let PodNetwork::Loopback { reason, remedy } = PodNetwork::for_host(&missing) else {
            panic!("it cannot be connected")
        };
        assert!(reason.contains("slirp4netns") && remedy.contains("apt-get install slirp4netns"));
        let root = Host { is_root: true, has_user_namespaces: false, ..missing };
        assert_eq!(PodNetwork::for_host(&root), PodNetwork::Privileged);
    }
}
