//! Ports between the host and a rootless pod network. Node ports and host ports are listened on
//! outside and passed on to pods inside. Services that lead to programs of the host, as the API
//! server is one, are listened on inside, at the node's address, and passed on to the host.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use super::Rootless;
use crate::network::relay::{Relay, Side};
use crate::network::services::{Choice, Protocol, Table};

type Target = (Protocol, Ipv4Addr, u16);

/// The relays in both directions.
pub struct Ports {
    /// The address of the host beside its loopback.
    host: Ipv4Addr,
    /// The node's address inside.
    gateway: Ipv4Addr,
    /// Port at the gateway, by the program of the host that it leads to.
    assigned: BTreeMap<Target, u16>,
    /// From the host to pods.
    inward: Relay,
    /// From pods to the host.
    outward: Relay,
    /// From the host to programs of the host.
    local: Relay,
}

impl Ports {
    pub fn new(network: &Arc<Rootless>, host: Ipv4Addr, gateway: Ipv4Addr) -> Ports {
        let inside = Side::Pods(network.clone());
        Ports {
            host,
            gateway,
            assigned: BTreeMap::new(),
            inward: Relay::new(Side::Host, inside.clone()),
            outward: Relay::new(inside, Side::Host),
            local: Relay::default(),
        }
    }

    /// Listens for what the table has. Returns the table as the rules inside need it, and whether
    /// all ports are listened on.
    pub async fn apply(&mut self, table: &Table) -> (Table, bool) {
        let within = self.rewritten(table);
        let (node_to_host, node_to_pods) = self.split(&table.node_ports);
        let (host_to_host, host_to_pods) = self.split(&table.host_ports);
        let published =
            |node_ports, host_ports| Table { node_ports, host_ports, ..Table::default() };
        let gateway = self.gateway;
        let to_host = self.assigned.iter().map(|((protocol, address, port), at)| {
            let choice = Choice { targets: vec![(*address, *port)], is_sticky: false };
            ((gateway, *protocol, *at), choice)
        });
        let to_host = Table { host_ports: to_host.collect(), ..Table::default() };
        let is_inward_done = self.inward.apply(&published(node_to_pods, host_to_pods)).await;
        let is_local_done = self.local.apply(&published(node_to_host, host_to_host)).await;
        let is_outward_done = self.outward.apply(&to_host).await;
        (within, is_inward_done && is_local_done && is_outward_done)
    }

    fn is_host(&self, address: Ipv4Addr) -> bool {
        address.is_loopback() || address == self.host
    }

    /// Splits ports by their targets: programs of the host, such as virtual machines, and pods.
    fn split<K: Clone + Ord>(
        &self,
        ports: &BTreeMap<K, Choice>,
    ) -> (BTreeMap<K, Choice>, BTreeMap<K, Choice>) {
        let is_host =
            |choice: &Choice| choice.targets.iter().any(|(address, _)| self.is_host(*address));
        ports.clone().into_iter().partition(|(_, choice)| is_host(choice))
    }

    /// Replaces programs of the host by ports at the gateway.
    fn rewritten(&mut self, table: &Table) -> Table {
        let mut within = table.clone();
        let mut used: BTreeMap<Target, u16> = BTreeMap::new();
        let services =
            within.services.iter_mut().map(|((_, protocol, _), choice)| (*protocol, choice));
        let node_ports = within.node_ports.iter_mut().map(|((protocol, _), it)| (*protocol, it));
        let host_ports =
            within.host_ports.iter_mut().map(|((_, protocol, _), choice)| (*protocol, choice));
        for (protocol, choice) in services.chain(node_ports).chain(host_ports) {
            for (address, port) in &mut choice.targets {
                if !(address.is_loopback() || *address == self.host) {
                    continue;
                }
                let target = (protocol, *address, *port);
                let at = self.assigned.get(&target).or(used.get(&target)).copied();
                let at = at.unwrap_or_else(|| free(target, (&self.assigned, &used)));
                used.insert(target, at);
                (*address, *port) = (self.gateway, at);
            }
        }
        self.assigned = used;
        within
    }
}

/// The same port if no other program has it, otherwise the next that is free.
fn free(
    (protocol, _, wanted): Target,
    (assigned, used): (&BTreeMap<Target, u16>, &BTreeMap<Target, u16>),
) -> u16 {
    /// DNS of the node.
    const TAKEN: u16 = 53;
    let is_taken = |port: u16| {
        let mut held = assigned.iter().chain(used);
        port == TAKEN || held.any(|((of, ..), at)| *of == protocol && *at == port)
    };
    let mut ports = (wanted..=u16::MAX).chain(1_024..wanted);
    ports.find(|port| !is_taken(*port)).unwrap_or(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_the_host_get_different_ports() {
        let assigned = BTreeMap::from([((Protocol::Tcp, Ipv4Addr::LOCALHOST, 6443), 6443)]);
        let target = (Protocol::Tcp, Ipv4Addr::new(127, 0, 0, 2), 6443);
        assert_eq!(free(target, (&assigned, &BTreeMap::new())), 6444);
        let udp = (Protocol::Udp, Ipv4Addr::LOCALHOST, 6443);
        assert_eq!(free(udp, (&assigned, &BTreeMap::new())), 6443);
        let dns = (Protocol::Udp, Ipv4Addr::LOCALHOST, 53);
        assert_eq!(free(dns, (&assigned, &BTreeMap::new())), 54);
    }
}
