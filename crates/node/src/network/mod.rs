//! The network of pods: each pod its own address, services, and names.
//!
//! With privilege a pod has a network namespace with a pair of interfaces to the machine. Nothing
//! is bridged: all packets are routed, so that rules and connection tracking see both directions,
//! and a pod reaches itself through a service like any other. An interface without ends (the
//! anchor) holds the node's own address in the range of its pods. Without privilege the same is
//! done in namespaces of a helper process (`rootless/`). Where that is not possible either, a pod
//! has an address of its own in 127.0.0.0/8 and shares everything else with the machine; names of
//! the cluster are in its `/etc/hosts` (`hosts.rs`).
//!
//! Everything made here carries the node's mark (`Marks`), is found again by it, and goes when the
//! last pod has. What does not carry it is never touched.

mod claim;
pub mod dial;
pub mod dns;
mod firewall;
mod flows;
pub mod hosts;
pub mod install;
pub mod interfaces;
mod kernel;
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
pub mod rootless;
mod ruleset;
pub mod services;
pub(crate) mod system;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};

use crate::runtime::{HostPort, Refusal, Sandbox, SandboxSpec};
use claim::{claim_any, loopback};
use kernel::Kernel;
use pods::Whose;
pub use range::Range;
use records::{Record, Records};
use rootless::Rootless;
use services::MetadataAccess;

/// Of the names that DNS answers for, when nothing else is said.
pub const DOMAIN: &str = "cluster.local";

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
    pub metadata: MetadataAccess,
    /// Options of a rootless network, which is used where privileges are missing.
    pub rootless: Option<rootless::Options>,
}

/// What the things of this node are called.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Marks {
    /// Begins every name of an interface.
    pub anchor: String,
    /// Begins the name of every pod's interface.
    pub pods: String,
    /// Of the rules.
    pub table: String,
    /// Begins the name of every namespace.
    pub namespaces: String,
    /// The directory of namespace files.
    pub directory: PathBuf,
}

impl Marks {
    fn of(id: &str) -> Marks {
        Marks {
            anchor: format!("sp{id}"),
            pods: format!("sp{id}-"),
            table: format!("setpoint-{id}"),
            namespaces: format!("setpoint-{id}-"),
            directory: PathBuf::from(pods::DIRECTORY),
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
    /// The reason why pods have no network of their own, if so.
    pub limitation: Option<String>,
    kernel: Kernel,
    records: Records,
    held: Mutex<Held>,
    /// The ports of the machine that lead to pods changed.
    changed: Notify,
    /// UIDs of this node's pods that are ready endpoints in the rules in effect.
    endpoints: watch::Sender<BTreeSet<String>>,
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
        let wanted = options.range.or(stored);
        let mut marks = Marks::of(&id);
        let claimed = claim_any(&mut marks, (&options, &records), (wanted, begin(&id)));
        let (mode, (kernel, range), limitation) = match claimed {
            Ok(claimed) => (Mode::Namespaces, claimed, None),
            Err(error) => {
                let reason = error.to_string();
                tracing::info!(reason, "no pod network; pods get loopback addresses");
                (Mode::Loopback, (Kernel::Direct, loopback(begin(&id))), Some(reason))
            }
        };
        if let Kernel::Rootless(rootless) = &kernel {
            dial::add_route(range, rootless);
        }
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
            limitation,
            kernel,
            records,
            held: Mutex::new(held),
            changed: Notify::new(),
            endpoints: watch::Sender::default(),
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
        let make = move || {
            let place = (&network.marks, network.range);
            network.kernel.make_pod(place, &record, (&file, whose))
        };
        let made = tokio::task::spawn_blocking(make).await;
        made.unwrap_or_else(|error| Err(io::Error::other(error)))
    }

    /// Whether a pod is connected.
    pub fn is_made(&self, uid: &str) -> bool {
        let record = self.lock().pods.get(uid).cloned();
        record.is_some_and(|record| self.kernel.has_pod(&self.marks, record.address))
    }

    /// The network of a pod that was made.
    pub fn find(&self, uid: &str) -> Option<Sandbox> {
        let record = self.lock().pods.get(uid).cloned()?;
        Some(self.sandbox(uid, &record))
    }

    fn sandbox(&self, uid: &str, record: &Record) -> Sandbox {
        let network = match self.mode {
            Mode::Namespaces => Some(self.namespace(uid)),
            Mode::Loopback => None,
        };
        Sandbox { addresses: vec![record.address.into()], network }
    }

    /// Returns the path of a pod's namespace file, as this process finds it.
    fn namespace(&self, uid: &str) -> PathBuf {
        let file = pods::namespace(&self.marks, uid);
        match &self.kernel {
            Kernel::Direct => file,
            Kernel::Rootless(rootless) => rootless.outside(&file),
        }
    }

    /// The rootless network of this node, if it has one.
    pub fn rootless(&self) -> Option<&Arc<Rootless>> {
        match &self.kernel {
            Kernel::Direct => None,
            Kernel::Rootless(rootless) => Some(rootless),
        }
    }

    /// The pods that have an address.
    pub fn pods(&self) -> Vec<String> {
        self.lock().pods.keys().cloned().collect()
    }

    /// Takes the network of a pod away.
    pub fn remove(&self, uid: &str) {
        let Some(record) = self.lock().pods.get(uid).cloned() else { return };
        if self.mode == Mode::Namespaces
            && let Err(error) = self.kernel.remove_pod(&self.marks, uid, record.address)
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

    /// Waits until the rules in effect no longer have a pod as a ready endpoint of a Service, at
    /// most for `limit`.
    pub async fn wait_until_withdrawn(&self, uid: &str, limit: Duration) {
        let mut endpoints = self.endpoints.subscribe();
        let withdrawn = endpoints.wait_for(|endpoints| !endpoints.contains(uid));
        if tokio::time::timeout(limit, withdrawn).await.is_err() {
            tracing::debug!(pod = uid, "stopping a pod that is still an endpoint");
        }
    }

    /// The address of the node among its pods.
    pub fn gateway(&self) -> IpAddr {
        self.range.gateway().into()
    }

    /// Returns the address at which programs of the host offer something to pods.
    pub fn host_gateway(&self) -> IpAddr {
        match self.kernel {
            Kernel::Direct => self.gateway(),
            Kernel::Rootless(_) => loopback(begin(&self.marks.anchor)).gateway().into(),
        }
    }

    /// What carries our mark and belongs to no pod is from a crash.
    fn remove_strays(&self) {
        if self.mode == Mode::Namespaces {
            let pods = self.lock().pods.clone();
            self.kernel.remove_strays(&self.marks, &pods);
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
        match &self.kernel {
            Kernel::Direct => firewall::close(&self.marks),
            Kernel::Rootless(_) => dial::remove_route(self.range),
        }
        if let Err(error) = self.kernel.close(&self.marks, self.range) {
            tracing::warn!(%error, "pod network not removed");
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
        let rootless = async {
            if let Some(rootless) = self.network.rootless() {
                rootless.keep_connected().await;
            }
        };
        tokio::join!(proxy, self.dns.run(), firewall::keep_open(&self.network), rootless);
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
