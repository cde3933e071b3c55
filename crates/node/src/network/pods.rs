//! The network namespace of a pod and its pair of interfaces to the machine.
//!
//! A namespace is kept by a file in the directory that `ip netns` uses, so that people find it
//! there. The interface of the machine is called after the pod's address.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::links::{Links, Way};
use super::records::Record;
use super::{Marks, Range, system};
use crate::runtimes::process::system::mount;

/// The directory that `ip netns` uses.
pub const DIRECTORY: &str = "/run/netns";
/// What a pod calls its interface.
const INNER: &str = "eth0";
const LOOPBACK: &str = "lo";

/// The file that keeps a pod's namespace.
pub fn namespace(marks: &Marks, uid: &str) -> PathBuf {
    marks.directory.join(format!("{}{uid}", marks.namespaces))
}

/// What the machine calls the interface of a pod.
fn interface(marks: &Marks, address: Ipv4Addr) -> String {
    let [_, _, third, last] = address.octets();
    format!("{}{third:02x}{last:02x}", marks.pods)
}

/// Who made the namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    Ours,
    /// A runtime made it, and may have put an interface into it.
    Runtimes,
}

/// Whether the machine has its side of a pod's pair.
pub fn is_made(marks: &Marks, address: Ipv4Addr) -> bool {
    system::interface(&interface(marks, address)).is_ok()
}

/// Makes what is missing.
pub fn make(
    (marks, range): (&Marks, Range),
    record: &Record,
    (file, whose): (&Path, Whose),
) -> io::Result<()> {
    let name = interface(marks, record.address);
    let gateway = range.gateway();
    let mut outside = Links::open()?;
    let has_pair = system::interface(&name).is_ok();
    if has_pair && is_mounted(file) {
        return Ok(());
    }
    if has_pair {
        // It leads into a namespace that nobody can find any more.
        outside.remove(&name)?;
    }
    // On a thread of its own, which ends in the network of the pod.
    let inner = std::thread::scope(|scope| {
        let begin = || inside((file, whose), &name, (record.address, gateway));
        let made = scope.spawn(begin).join();
        made.unwrap_or_else(|_| Err(io::Error::other("the thread ended")))
    });
    inner?;
    let mut host = || -> io::Result<()> {
        quiet(&name);
        outside.set_up(&name)?;
        if !answers_for_the_anchor(&name) {
            outside.add_address(&name, gateway)?;
        }
        forward(&name)?;
        // The API server may listen on the loopback; rules keep pods from the rest of it.
        set("ipv4", &name, "route_localnet", "1")?;
        let way = Way::Out { interface: &name, from: Some(gateway) };
        outside.add_route((record.address, 32), way)
    };
    host().inspect_err(|_| {
        // The next attempt begins anew.
        let _ = Links::open().and_then(|mut links| links.remove(&name));
    })
}

/// Takes the namespace of a process for that of a pod; what another had goes.
pub fn adopt(marks: &Marks, (uid, address): (&str, Ipv4Addr), process: i32) -> io::Result<()> {
    let (theirs, file) = (format!("/proc/{process}/ns/net"), namespace(marks, uid));
    let number = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
    if is_mounted(&file) {
        if number(&file)? == number(Path::new(&theirs))? {
            return Ok(());
        }
        remove(marks, uid, address)?;
    }
    keep(&file, &std::ffi::CString::new(theirs)?)
}

/// The side of the pod.
fn inside(
    (file, whose): (&Path, Whose),
    name: &str,
    (own, gateway): (Ipv4Addr, Ipv4Addr),
) -> io::Result<()> {
    let mut outside = Links::open()?;
    if is_mounted(file) || whose == Whose::Runtimes {
        system::enter_network(&File::open(file)?)?;
    } else {
        system::own_network()?;
        keep(file, c"/proc/thread-self/ns/net")?;
    }
    let mut links = Links::open()?;
    links.set_up(LOOPBACK)?;
    if whose == Whose::Runtimes {
        links.remove(INNER)?;
    }
    outside.add_pair(name, (INNER, &File::open(file)?))?;
    links.set_up(INNER)?;
    links.add_address(INNER, own)?;
    links.add_route((gateway, 32), Way::Out { interface: INNER, from: None })?;
    let way = Way::By { interface: INNER, gateway };
    links.add_route((Ipv4Addr::UNSPECIFIED, 0), way)?;
    // A pod's ports are its own: no privilege is needed to take one.
    let _ = fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
    let _ = set("ipv4", "all", "accept_redirects", "0");
    let _ = set("ipv4", INNER, "accept_redirects", "0");
    Ok(())
}

/// Lets a namespace outlive those who are in it.
fn keep(file: &Path, namespace: &std::ffi::CStr) -> io::Result<()> {
    fs::create_dir_all(directory(file))?;
    File::create(file)?;
    let target = std::ffi::CString::new(file.as_os_str().as_bytes())?;
    mount(namespace, &target, (None, libc::MS_BIND)).inspect_err(|_| {
        let _ = fs::remove_file(file);
    })
}

fn is_mounted(file: &Path) -> bool {
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
    let (own, around) = (device(file), device(directory(file)));
    own.is_some() && own != around
}

fn directory(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new(DIRECTORY))
}

/// Packets that come in by an interface may go on.
pub fn forward(interface: &str) -> io::Result<()> {
    set("ipv4", interface, "forwarding", "1")
}

/// Nothing of the newer protocol: nobody has an address there.
fn quiet(interface: &str) {
    let _ = set("ipv6", interface, "disable_ipv6", "1");
}

/// Whether the gateway, which is an address of the anchor, is answered for on this interface too.
/// Then it need not be an address of every pod's: browsers take an address that comes or goes for
/// another network, and drop everything that they are asking for.
fn answers_for_the_anchor(interface: &str) -> bool {
    ["all", interface].iter().all(|of| {
        let path = format!("/proc/sys/net/ipv4/conf/{of}/arp_ignore");
        fs::read_to_string(path).is_ok_and(|found| found.trim() == "0")
    })
}

fn set(family: &str, interface: &str, name: &str, value: &str) -> io::Result<()> {
    let path = format!("/proc/sys/net/{family}/conf/{interface}/{name}");
    // What is so already needs no privilege to stay so.
    if fs::read_to_string(&path).is_ok_and(|found| found.trim() == value) {
        return Ok(());
    }
    fs::write(&path, value)
}

/// Takes away what a pod has.
pub fn remove(marks: &Marks, uid: &str, address: Ipv4Addr) -> io::Result<()> {
    Links::open()?.remove(&interface(marks, address))?;
    remove_namespace(&namespace(marks, uid))
}

fn remove_namespace(file: &Path) -> io::Result<()> {
    if is_mounted(file) {
        system::unmount(file)?;
    }
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Takes away what carries our mark and belongs to no pod.
pub fn remove_strays(marks: &Marks, pods: &BTreeMap<String, Record>) {
    for entry in fs::read_dir(&marks.directory).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(uid) = name.strip_prefix(&marks.namespaces) else { continue };
        if !pods.contains_key(uid) {
            tracing::info!(name, "a network namespace of no pod is removed");
            let _ = remove_namespace(&entry.path());
        }
    }
    let known: Vec<String> = pods.values().map(|pod| interface(marks, pod.address)).collect();
    let text = fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let names = text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim()));
    for name in names.filter(|name| name.starts_with(&marks.pods)) {
        if !known.iter().any(|known| known == name) {
            tracing::info!(name, "an interface of no pod is removed");
            let _ = Links::open().and_then(|mut links| links.remove(name));
        }
    }
}
