//! Keeps what this node knows of services up to date: packet rules or relays, and names.
//!
//! Everything is made anew from the caches when something changed, and replaced at once: nobody
//! sees half of a change.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use reconcile::plan::Notice;
use reconcile::{Context, Object};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::dns::{Teller, Zone};
use super::relay::Relay;
use super::rootless::ports::Ports;
use super::services::{Choice, ENDPOINT_SLICE, Protocol, Table, ready_pods, table};
use super::{Mode, Network, begin};
use crate::agent::SERVICE;
use crate::machine;
use crate::register::MANAGER;

/// Changes that come together are done together.
const GATHER: Duration = Duration::from_millis(5);
const RETRY: Duration = Duration::from_secs(1);
/// Service ports that need privileges are published so much higher.
const SHIFT: u16 = 20_000;
const REMEDY: &str = "Install slirp4netns for a pod network, use a higher port, or lower \
                      net.ipv4.ip_unprivileged_port_start";

/// Runs until it is dropped; the rules stay.
pub async fn run(context: &Context, network: &Arc<Network>, teller: &Teller) {
    let (services, slices) = (context.cache(SERVICE), context.cache(ENDPOINT_SLICE));
    let changed = Arc::new(Notify::new());
    for cache in [&services, &slices] {
        let told = Arc::downgrade(&changed);
        cache.subscribe(move |_| {
            if let Some(changed) = told.upgrade() {
                changed.notify_one();
            }
        });
    }
    services.reaches(1).await;
    slices.reaches(1).await;
    let mut relay = Relays::for_network(network);
    let mut warnings = PortWarnings::default();
    let mut applied: Option<Arc<Table>> = None;
    // By what flows went until now.
    let mut before = Arc::new(Table::default());
    loop {
        let known: Vec<Arc<Object>> =
            services.all().into_iter().map(|service| network.told(&service)).collect();
        let slices = slices.all();
        let zone = Zone::new(&network.options.domain, &known, &slices);
        if network.mode == Mode::Loopback {
            publish_hosts(network, zone.clone()).await;
            warnings.report(context, network, &services.all()).await;
        }
        teller.tell(zone);
        let mut wanted = table(&known, &slices, &network.options.node);
        add_host_ports(&mut wanted, network);
        let wanted = Arc::new(wanted);
        let is_done = applied.as_ref() == Some(&wanted)
            || apply(network, &mut relay, (&before, &wanted)).await;
        if is_done {
            before = wanted.clone();
            network.endpoints.send_replace(ready_pods(&slices, &network.options.node));
        }
        applied = is_done.then_some(wanted);
        tokio::select! {
            () = changed.notified() => {}
            () = network.changed.notified() => {}
            () = tokio::time::sleep(RETRY), if !is_done => {}
        }
        tokio::time::sleep(GATHER).await;
    }
}

async fn publish_hosts(network: &Arc<Network>, zone: Zone) {
    let network = network.clone();
    let publish = move || network.hosts.publish(&network.options.domain, &zone);
    let _ = tokio::task::spawn_blocking(publish).await;
}

/// Warns once about each Service that has a port which this process may not bind.
#[derive(Default)]
struct PortWarnings {
    /// By UID of the Service.
    reported: BTreeSet<String>,
}

impl PortWarnings {
    async fn report(&mut self, context: &Context, network: &Network, services: &[Arc<Object>]) {
        self.reported.retain(|uid| services.iter().any(|service| service.uid == *uid));
        for service in services {
            let Some(message) = self.warning(network, service) else { continue };
            self.reported.insert(service.uid.clone());
            let requests = context.requests(MANAGER, Default::default());
            let (notice, now) =
                (Notice::warning("PortNotBound", message), context.environment.now());
            context.recorder.record(&requests, (SERVICE, service), &notice, now).await;
        }
    }

    fn warning(&self, network: &Network, service: &Object) -> Option<String> {
        // The cluster's own services are found in other ways.
        let is_built_in = matches!(&*service.name.namespace, "kube-system")
            || (&*service.name.namespace, &*service.name.name) == ("default", "kubernetes");
        let spec = &service.value["spec"];
        let address: Option<Ipv4Addr> = spec["clusterIP"].as_str().and_then(|it| it.parse().ok());
        if is_built_in || address.is_none() || self.reported.contains(&service.uid) {
            return None;
        }
        let first = network.unprivileged_port_first;
        let ports = spec["ports"].as_array().into_iter().flatten();
        let numbers = ports.filter_map(|port| port["port"].as_u64());
        let port = numbers.filter(|port| *port < u64::from(first)).min()?;
        let shifted = port + u64::from(SHIFT);
        Some(format!(
            "This node is not privileged and cannot bind port {port} (below {first}); pods reach \
             the service at port {shifted}, which its environment variables name. {REMEDY}"
        ))
    }
}

async fn apply(
    network: &Arc<Network>,
    relay: &mut Relays,
    (before, wanted): (&Arc<Table>, &Arc<Table>),
) -> bool {
    let (network, before) = (network.clone(), before.clone());
    let (wanted, is_published) = match relay {
        Relays::Loopback(relay) => return relay.apply(wanted).await,
        Relays::Rootless(ports) => {
            let (within, is_published) = ports.apply(wanted).await;
            (Arc::new(within), is_published)
        }
        Relays::None => (wanted.clone(), true),
    };
    let done = tokio::task::spawn_blocking(move || replace(&network, &before, &wanted));
    match done.await {
        Ok(Ok(())) => is_published,
        Ok(Err(error)) => {
            tracing::warn!(%error, "the rules of services were not replaced");
            false
        }
        Err(_) => false,
    }
}

/// Replaces the rules, and has flows follow them.
pub(super) fn replace(network: &Network, before: &Table, wanted: &Table) -> io::Result<()> {
    let metadata = network.options.metadata;
    let wanted = match metadata == wanted.metadata {
        true => Cow::Borrowed(wanted),
        false => Cow::Owned(Table { metadata, ..wanted.clone() }),
    };
    network.kernel.replace_rules((&network.marks, network.range), before, &wanted)
}

/// Sockets on which this process listens for services.
enum Relays {
    /// Packet rules of the host do everything.
    None,
    /// Every port of every service.
    Loopback(Relay),
    /// Ports of the host, and ways to programs of the host.
    Rootless(Box<Ports>),
}

impl Relays {
    fn for_network(network: &Network) -> Relays {
        match (network.mode, network.rootless()) {
            (Mode::Loopback, _) => Relays::Loopback(Relay::default()),
            (Mode::Namespaces, None) => Relays::None,
            (Mode::Namespaces, Some(rootless)) => {
                let host = match machine::address() {
                    IpAddr::V4(address) => address,
                    IpAddr::V6(_) => Ipv4Addr::LOCALHOST,
                };
                Relays::Rootless(Box::new(Ports::new(rootless, host, network.range.gateway())))
            }
        }
    }
}

fn add_host_ports(table: &mut Table, network: &Network) {
    for (port, address) in network.host_ports() {
        let Some(protocol) = Protocol::parse(&port.protocol) else { continue };
        let choice = Choice { targets: vec![(address, port.container_port)], is_sticky: false };
        match port.host_address {
            Some(std::net::IpAddr::V4(at)) if !at.is_unspecified() => {
                table.host_ports.insert((at, protocol, port.host_port), choice);
            }
            _ => {
                table.node_ports.insert((protocol, port.host_port), choice);
            }
        }
    }
}

impl Network {
    /// A service as pods are told of it. Without privilege nobody can be reached at an address
    /// that the machine does not have, so that services have others there.
    pub fn told(&self, service: &Arc<Object>) -> Arc<Object> {
        let spec = &service.value["spec"];
        let address: Option<Ipv4Addr> = spec["clusterIP"].as_str().and_then(|it| it.parse().ok());
        let (Mode::Loopback, Some(address)) = (self.mode, address) else {
            return service.clone();
        };
        let [_, _, third, last] = address.octets();
        let second = u8::try_from(128 + begin(&self.marks.anchor[2..]) % 127).unwrap_or(128);
        let own = Ipv4Addr::new(127, second, third, last).to_string();
        let mut value = service.value.clone();
        value["spec"]["clusterIP"] = json!(own);
        value["spec"]["clusterIPs"] = json!([own]);
        for port in value["spec"]["ports"].as_array_mut().into_iter().flatten() {
            if let Some(number) = port["port"].as_u64().and_then(|port| u16::try_from(port).ok())
                && number < self.unprivileged_port_first
            {
                port["port"] = Value::from(number + SHIFT);
            }
        }
        Arc::new(Object::new(value))
    }
}
