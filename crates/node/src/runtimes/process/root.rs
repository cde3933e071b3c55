//! The root of a container: the host's files with its volumes (`mounts.rs`), `/proc` and `/sys` of
//! its own namespaces, and what it has no business with hidden.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::hidden::Hidden;
use super::mounts::Layout;
use super::namespaces::Mapping;
use super::record::Asked;
use super::{isolated, mounts, namespaces, propagation, system};
use crate::confinement::{Isolation, Processes};
use crate::runtime::ContainerSpec;

/// Hidden: they tell of the machine, or change it.
const MASKED: [&str; 10] = [
    "proc/acpi",
    "proc/asound",
    "proc/kcore",
    "proc/keys",
    "proc/latency_stats",
    "proc/timer_list",
    "proc/sched_debug",
    "proc/scsi",
    "sys/firmware",
    "sys/devices/virtual/powercap",
];
/// To be read only.
const FIXED: [&str; 5] = ["proc/bus", "proc/fs", "proc/irq", "proc/sys", "proc/sysrq-trigger"];

/// Makes the root and goes there. The mount namespace is new; the network may be.
pub fn make(
    asked: &Asked,
    place: &Path,
    has_network: bool,
    mapping: Option<&Mapping>,
) -> io::Result<()> {
    let spec = &asked.spec;
    let security = &spec.security;
    let mut hidden = asked.hidden.clone();
    if security.isolation != Isolation::Host {
        hidden.extend(isolated::SECRETS.map(PathBuf::from));
    }
    let hidden = Hidden::resolve(&hidden);
    let trees = propagation::take(&spec.mounts)?;
    // What the host unmounts must not live on here; what is mounted here is not for the host.
    mounts::mount(Path::new("none"), Path::new("/"), libc::MS_REC | libc::MS_SLAVE)?;
    let layout = Layout {
        mounts: &spec.mounts,
        trees: &trees,
        hidden: &hidden,
        isolation: &security.isolation,
        mapping,
        is_fixed: security.read_only_root,
    };
    let root = mounts::make(&layout, place)?;
    drop(trees);
    if security.processes != Processes::OfHost {
        let proc = mounts::text(&root.join("proc"))?;
        let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
        // Within another container the kernel may refuse; the host's, bound there, has to do.
        let _ = system::mount(c"proc", &proc, (Some(c"proc"), flags));
    } else if security.isolation != Isolation::Host {
        mounts::mount(Path::new("/proc"), &root.join("proc"), libc::MS_BIND | libc::MS_REC)?;
    }
    if has_network && mapping.is_some() {
        allow_network_use();
    }
    set_sysctls(spec)?;
    if !security.privileged {
        if has_network {
            show_own_network(&root);
        }
        let _ = namespaces::read_only(&root.join("sys"), true);
        if !security.unmasked {
            mask(&root)?;
        }
    }
    namespaces::change_root(&root).map_err(|error| {
        io::Error::other(format!("could not go to its root {}: {error}", root.display()))
    })
}

/// The interfaces in `/sys` are those of whoever mounted it.
fn show_own_network(root: &Path) {
    let (Ok(sys), groups) = (mounts::text(&root.join("sys")), root.join("sys/fs/cgroup")) else {
        return;
    };
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    if system::mount(c"sysfs", &sys, (Some(c"sysfs"), flags)).is_ok() {
        let from = Path::new("/sys/fs/cgroup");
        let _ = mounts::mount(from, &groups, libc::MS_BIND | libc::MS_REC);
    }
}

/// Lets programs use low ports and `ping` in a network that belongs to another user namespace,
/// where their capabilities do not count.
fn allow_network_use() {
    let settings = Path::new("/proc/sys/net/ipv4");
    for (name, value) in [("ip_unprivileged_port_start", "0"), ("ping_group_range", "0 2147483647")]
    {
        // A container runs without, too.
        let _ = fs::write(settings.join(name), value);
    }
}

fn set_sysctls(spec: &ContainerSpec) -> io::Result<()> {
    for (name, value) in &spec.security.sysctls {
        let path = Path::new("/proc/sys").join(name.replace('.', "/"));
        fs::write(&path, value).map_err(|error| {
            io::Error::other(format!("could not set sysctl {name:?} to {value:?}: {error}"))
        })?;
    }
    Ok(())
}

fn mask(root: &Path) -> io::Result<()> {
    for path in MASKED.iter().map(|path| root.join(path)) {
        let Ok(found) = fs::metadata(&path) else { continue };
        let hidden = if found.is_dir() {
            let flags = libc::MS_RDONLY;
            system::mount(c"tmpfs", &mounts::text(&path)?, (Some(c"tmpfs"), flags))
        } else {
            mounts::mount(Path::new("/dev/null"), &path, libc::MS_BIND)
        };
        hidden.map_err(|error| told("hide", &path, &error))?;
    }
    for path in FIXED.iter().map(|path| root.join(path)).filter(|path| path.exists()) {
        let bound = mounts::mount(&path, &path, libc::MS_BIND | libc::MS_REC);
        bound
            .and_then(|()| namespaces::read_only(&path, true))
            .map_err(|error| told("protect", &path, &error))?;
    }
    Ok(())
}

fn told(what: &str, path: &Path, error: &io::Error) -> io::Error {
    io::Error::other(format!("could not {what} {}: {error}", path.display()))
}
