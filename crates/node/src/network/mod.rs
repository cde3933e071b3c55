//! The network of pods: each pod its own address, services, and names.
//!
//! With privilege a pod has a network namespace with a pair of interfaces to the machine. Nothing
//! is bridged: all packets are routed, so that rules and connection tracking see both directions,
//! and a pod reaches itself through a service like any other. An interface without ends (the
//! anchor) holds the node's own address in the range of its pods. Without privilege a pod has an
//! address of its own in 127.0.0.0/8 and shares everything else with the machine.
//!
//! Everything made here carries the node's mark (`Marks`), is found again by it, and goes when the
//! last pod has. What does not carry it is never touched.

pub mod dns;
mod firewall;
mod flows;
pub mod hosts;
pub mod install;
pub mod interfaces;
pub mod links;
pub mod names;
mod netlink;
mod nftables;
mod pods;
pub mod proxy;
mod published;
mod range;
mod records;
mod relay;
mod ruleset;
pub mod services;
pub(crate) mod system;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::runtime::{HostPort, Refusal, Sandbox, SandboxSpec};
use links::{Links, Way};
use pods::Whose;
pub use range::Range;
use records::{Record, Records};

/// Of the names that DNS answers for, when nothing else is said.
pub const DOMAIN: &str = "cluster.local";
/// Where pods without privilege get their addresses: a part of 127.0.0.0/8 for each node.
const LOOPBACK: Range = Range { network: Ipv4Addr::new(127, 64, 0, 0), length: 10 };
const LOOPBACK_LENGTH: u8 = 24;
/// Only one process at a time looks for a range; the name is a socket's.
const CLAIM: &str = "setpoint-network-claim";
const CLAIM_WAIT: std::time::Duration = std::time::Duration::from_millis(10);
const CLAIM_TRIES_MAX: u32 = 1_000;

/// What the network is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where records are kept.
    pub directory: PathBuf,
    /// The name of the node.
    pub node: String,
    /// The range of the node, where somebody gave it one.
    pub range: Option<Range>,
    /// Of the names that DNS answers for.
    pub domain: String,
}

/// What the things of this node are called.
#[derive(Clone, Debug)]
pub struct Marks {
    /// Begins every name of an interface.
    pub anchor: String,
    /// Begins the name of every pod's interface.
    pub pods: String,
    /// Of the rules.
    pub table: String,
    /// Begins the name of every namespace.
    pub namespaces: String,
}

impl Marks {
    fn of(id: &str) -> Marks {
        Marks {
            anchor: format!("sp{id}"),
            pods: format!("sp{id}-"),
            table: format!("setpoint-{id}"),
            namespaces: format!("setpoint-{id}-"),
        }
    }
}

/// How pods are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Each in a namespace.
    Namespaces,
    /// By addresses of the loopback only.
    Loopback,
}

/// The network of this node.
#[derive(Debug)]
pub struct Network {
    pub options: Options,
    pub marks: Marks,
    pub mode: Mode,
    pub range: Range,
    records: Records,
    held: Mutex<Held>,
    /// The ports of the machine that lead to pods changed.
    changed: Notify,
    /// Names of the cluster for pods in [`Mode::Loopback`].
    pub hosts: hosts::HostsFiles,
    /// The first port that this process may bind without privileges.
    unprivileged_port_first: u16,
}

#[derive(Debug, Default)]
struct Held {
    /// By UID of the pod.
    pods: BTreeMap<String, Record>,
    /// The place in the range that was given last.
    last: u32,
}

impl Network {
    /// Finds again what was there, and takes away what belongs to nobody.
    pub fn open(options: Options) -> io::Result<Network> {
        let records = Records::open(&options.directory)?;
        let (id, stored) = records.settings(&options.node)?;
        let marks = Marks::of(&id);
        let wanted = options.range.or(stored);
        let (mode, range) = match claim(&marks, wanted, begin(&id)) {
            Ok(range) => (Mode::Namespaces, range),
            Err(error) => {
                let why = error.to_string();
                tracing::info!(why, "pods get no network of their own, only addresses");
                (Mode::Loopback, loopback(begin(&id)))
            }
        };
        records.keep_settings(&id, range)?;
        let mut held = Held { pods: records.all(), last: 1 };
        held.pods.retain(|_, record| range.contains(record.address));
        let taken = held.pods.values().map(|record| place(range, record.address));
        held.last = taken.max().unwrap_or(1);
        let network = Network {
            options,
            marks,
            mode,
            range,
            records,
            held: Mutex::new(held),
            changed: Notify::new(),
            hosts: hosts::HostsFiles::default(),
            unprivileged_port_first: unprivileged_port_first(),
        };
        network.remove_strays();
        Ok(network)
    }

    /// Makes the network of a pod in the namespace of a process that somebody else started.
    pub async fn make_in(
        self: &Arc<Network>,
        spec: &SandboxSpec,
        process: i32,
    ) -> Result<Sandbox, Refusal> {
        if self.mode == Mode::Namespaces && !spec.host_network {
            let refused = |error: io::Error| Refusal {
                reason: "CreatePodSandboxError",
                message: format!("could not take up the network of the pod: {error}"),
            };
            let record = self.record(spec).map_err(refused)?;
            let (network, uid) = (self.clone(), spec.pod.clone());
            let adopt = move || pods::adopt(&network.marks, (&uid, record.address), process);
            let adopted = tokio::task::spawn_blocking(adopt).await;
            adopted.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(refused)?;
        }
        self.make(spec).await
    }

    /// Makes the network of a pod, or finds it again.
    pub async fn make(self: &Arc<Network>, spec: &SandboxSpec) -> Result<Sandbox, Refusal> {
        if spec.host_network {
            return Ok(Sandbox::default());
        }
        let refused = |error: io::Error| Refusal {
            reason: "CreatePodSandboxError",
            message: format!("could not make the network of the pod: {error}"),
        };
        let record = self.record(spec).map_err(refused)?;
        if self.mode == Mode::Loopback {
            return Ok(Sandbox { addresses: vec![record.address.into()], network: None });
        }
        let file = pods::namespace(&self.marks, &spec.pod);
        self.make_pair(record.clone(), file, Whose::Ours).await.map_err(refused)?;
        Ok(self.sandbox(&spec.pod, &record))
    }

    /// Makes the network of a pod in a namespace that its runtime made for it, in place of what the
    /// runtime put there.
    pub async fn make_within(
        self: &Arc<Network>,
        spec: &SandboxSpec,
        namespace: &Path,
    ) -> Result<Sandbox, Refusal> {
        let refused = |error: io::Error| Refusal {
            reason: "CreatePodSandboxError",
            message: format!("could not make the network of the pod: {error}"),
        };
        let record = self.record(spec).map_err(refused)?;
        let made = self.make_pair(record.clone(), namespace.to_owned(), Whose::Runtimes).await;
        made.map_err(refused)?;
        let network = Some(namespace.to_owned());
        Ok(Sandbox { addresses: vec![record.address.into()], network })
    }

    async fn make_pair(
        self: &Arc<Network>,
        record: Record,
        file: PathBuf,
        whose: Whose,
    ) -> io::Result<()> {
        let network = self.clone();
        let make = move || pods::make(&network, &record, (&file, whose));
        let made = tokio::task::spawn_blocking(make).await;
        made.unwrap_or_else(|error| Err(io::Error::other(error)))
    }

    /// Whether a pod is connected.
    pub fn is_made(&self, uid: &str) -> bool {
        let record = self.lock().pods.get(uid).cloned();
        record.is_some_and(|record| pods::is_made(&self.marks, record.address))
    }

    /// The network of a pod that was made.
    pub fn find(&self, uid: &str) -> Option<Sandbox> {
        let record = self.lock().pods.get(uid).cloned()?;
        Some(self.sandbox(uid, &record))
    }

    fn sandbox(&self, uid: &str, record: &Record) -> Sandbox {
        let network = match self.mode {
            Mode::Namespaces => Some(pods::namespace(&self.marks, uid)),
            Mode::Loopback => None,
        };
        Sandbox { addresses: vec![record.address.into()], network }
    }

    /// The pods that have an address.
    pub fn pods(&self) -> Vec<String> {
        self.lock().pods.keys().cloned().collect()
    }

    /// Takes the network of a pod away.
    pub fn remove(&self, uid: &str) {
        let Some(record) = self.lock().pods.get(uid).cloned() else { return };
        if self.mode == Mode::Namespaces
            && let Err(error) = pods::remove(&self.marks, uid, record.address)
        {
            tracing::warn!(pod = uid, %error, "the network of a pod was not removed");
        }
        // The address is free when nothing has it any more.
        self.records.remove(uid);
        self.lock().pods.remove(uid);
        if !record.host_ports.is_empty() {
            self.changed.notify_one();
        }
    }

    /// The ports of the machine that lead to pods.
    fn host_ports(&self) -> Vec<(HostPort, Ipv4Addr)> {
        let held = self.lock();
        let ports = held
            .pods
            .values()
            .flat_map(|record| record.host_ports.iter().map(|port| (port.clone(), record.address)));
        ports.collect()
    }

    /// The ports of the machine that lead to a pod.
    pub fn ports_of(&self, uid: &str) -> Vec<HostPort> {
        self.lock().pods.get(uid).map(|record| record.host_ports.clone()).unwrap_or_default()
    }

    /// The ports of the machine that lead to a pod of which nothing runs are free for others.
    pub fn release_ports(&self, uid: &str) {
        let mut held = self.lock();
        let record = held.pods.get_mut(uid).filter(|record| !record.host_ports.is_empty());
        let Some(record) = record else { return };
        record.host_ports.clear();
        if let Err(error) = self.records.write(uid, record) {
            tracing::warn!(pod = uid, %error, "its ports are free, but not for good");
        }
        self.changed.notify_one();
    }

    /// What the pod has, or is given now.
    fn record(&self, spec: &SandboxSpec) -> io::Result<Record> {
        let mut held = self.lock();
        if let Some(record) = held.pods.get(&spec.pod) {
            return Ok(record.clone());
        }
        let places = self.range.places();
        let count = places.end.saturating_sub(places.start).max(1);
        // The next that is free after the last that was given: what was used lately rests.
        let next = (0..count)
            .map(|step| places.start + (held.last.saturating_sub(places.start) + 1 + step) % count)
            .find(|place| {
                let address = self.range.nth(*place);
                !held.pods.values().any(|record| Some(record.address) == address)
            });
        let next = next.ok_or_else(|| {
            io::Error::other(format!("no address is left in the range {}", self.range))
        })?;
        let address = self.range.nth(next).ok_or(io::ErrorKind::InvalidInput)?;
        let held_ports = held.pods.values().flat_map(|record| &record.host_ports);
        let host_ports = published::give(&spec.host_ports, &held_ports.collect::<Vec<_>>())?;
        let record = Record { address, host_ports };
        self.records.write(&spec.pod, &record)?;
        held.last = next;
        held.pods.insert(spec.pod.clone(), record.clone());
        if !record.host_ports.is_empty() {
            self.changed.notify_one();
        }
        Ok(record)
    }

    /// The address of the node among its pods.
    pub fn gateway(&self) -> IpAddr {
        self.range.gateway().into()
    }

    /// What carries our mark and belongs to no pod is from a crash.
    fn remove_strays(&self) {
        if self.mode == Mode::Namespaces {
            let pods = self.lock().pods.clone();
            pods::remove_strays(&self.marks, &pods);
        }
    }

    /// Takes the networks of all pods away, and everything else.
    pub fn remove_all(&self) {
        self.pods().iter().for_each(|uid| self.remove(uid));
        self.close();
    }

    /// Takes everything away, unless there are pods, which need it.
    pub fn close(&self) {
        if self.mode == Mode::Loopback || !self.lock().pods.is_empty() {
            return;
        }
        firewall::close(&self.marks);
        let removed = nftables::remove(&self.marks.table).and_then(|()| {
            let mut links = Links::open()?;
            let range = (self.range.network, self.range.length);
            links.remove_route(range, Way::Nowhere)?;
            links.remove(&self.marks.anchor)
        });
        if let Err(error) = removed {
            tracing::warn!(%error, "something of the network of pods stays");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The network of a node, with who answers for names there.
#[derive(Clone)]
pub struct Connected {
    pub network: Arc<Network>,
    pub dns: Arc<dns::Server>,
    /// Where pods find that server, if they can.
    pub server: Option<String>,
}

impl Connected {
    /// Keeps services and names up to date until it is dropped.
    pub async fn serve(&self, context: &reconcile::Context) {
        let teller = self.dns.teller();
        let proxy = proxy::run(context, &self.network, &teller);
        tokio::join!(proxy, self.dns.run(), firewall::keep_open(&self.network));
    }
}

/// Whether this machine takes rules for services from us. Nothing is changed.
pub fn try_rules() -> io::Result<()> {
    nftables::probe("setpoint-doctor")
}

/// From here on this thread is in that network.
pub fn enter(namespace: &fs::File) -> io::Result<()> {
    system::enter_network(namespace)
}

/// Returns the first port that programs may bind without privileges.
pub fn unprivileged_port_first() -> u16 {
    const PATH: &str = "/proc/sys/net/ipv4/ip_unprivileged_port_start";
    const USUAL: u16 = 1_024;
    let text = fs::read_to_string(PATH).unwrap_or_default();
    text.trim().parse().unwrap_or(USUAL)
}

fn place(range: Range, address: Ipv4Addr) -> u32 {
    address.to_bits().saturating_sub(range.network.to_bits())
}

/// Nodes of one machine look for a range in different places first.
fn begin(id: &str) -> u32 {
    id.bytes().fold(0, |sum: u32, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)))
}

fn loopback(begin: u32) -> Range {
    let count = 1_u32 << (LOOPBACK_LENGTH - LOOPBACK.length);
    let place = (begin % count) << (32 - LOOPBACK_LENGTH);
    let network = LOOPBACK.nth(place).unwrap_or(LOOPBACK.network);
    Range { network, length: LOOPBACK_LENGTH }
}

/// Makes the anchor and takes the range. Fails where we lack the privilege.
fn claim(marks: &Marks, wanted: Option<Range>, begin: u32) -> io::Result<Range> {
    let mut links = Links::open()?;
    let _alone = wait_for_claim()?;
    let is_ours = system::interface(&marks.anchor).is_ok();
    let text = fs::read_to_string("/proc/net/route")?;
    let routes = range::routes(&text);
    let range = match wanted {
        // What is there already has our range in its routes.
        Some(range) if is_ours || !routes.iter().any(|route| range.overlaps(*route)) => range,
        _ => range::choose(&routes, begin).ok_or_else(|| {
            io::Error::other(format!("every range of {} is in use", range::CLUSTER))
        })?,
    };
    if !is_ours {
        links.add_bridge(&marks.anchor)?;
    }
    links.set_up(&marks.anchor)?;
    links.add_address(&marks.anchor, range.gateway())?;
    links.add_route((range.network, range.length), Way::Nowhere)?;
    if let Err(error) = nftables::probe(&marks.table) {
        let _ = links.remove_route((range.network, range.length), Way::Nowhere);
        let _ = links.remove(&marks.anchor);
        return Err(error);
    }
    for interface in range::default_interfaces(&text).iter().chain([&marks.anchor]) {
        pods::forward(interface)?;
    }
    Ok(range)
}

/// Held by whoever looks for a range on this machine.
fn wait_for_claim() -> io::Result<std::os::unix::net::UnixListener> {
    use std::os::linux::net::SocketAddrExt;
    let name = std::os::unix::net::SocketAddr::from_abstract_name(CLAIM)?;
    for _ in 0..CLAIM_TRIES_MAX {
        match std::os::unix::net::UnixListener::bind_addr(&name) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                std::thread::sleep(CLAIM_WAIT);
            }
            bound => return bound,
        }
    }
    Err(io::Error::other("another process holds the claim to a range of addresses"))
}
