//! Flows in the kernel's connection tracking table that lead to removed endpoints.
//!
//! A flow keeps the target that its first packet was given. UDP flows do not end while the client
//! sends, and a TCP client whose SYN was not answered repeats it in the same flow. Both are deleted
//! when their target is no longer an endpoint, so that the next packet goes to another one.
//! Established TCP connections stay: they end with their server.
//!
//! Upstream: pkg/proxy/conntrack, and include/uapi/linux/netfilter/nfnetlink_conntrack.h of Linux

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::Ipv4Addr;

use super::netlink::{LIST, Message, Socket, attributes};
use super::services::{Choice, Protocol, Table};

const SUBSYSTEM: u16 = 1;
const GET: u16 = SUBSYSTEM << 8 | 1;
const DELETE: u16 = SUBSYSTEM << 8 | 2;
/// Family of addresses, version, and a number that is not used.
const HEADER: [u8; 4] = [2, 0, 0, 0];
const ORIGINAL: u16 = 1;
const REPLY: u16 = 2;
const STATUS: u16 = 3;
/// Bit of the status of a flow whose target has sent a packet.
const SEEN_REPLY: u32 = 1 << 1;

type Place = (Ipv4Addr, u16);

/// Targets that Services and ports of the host had, and no longer have.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RemovedTargets {
    services: BTreeMap<(Protocol, Place), BTreeSet<Place>>,
    node_ports: BTreeMap<(Protocol, u16), BTreeSet<Place>>,
}

/// A flow: its destination before translation, and the target that answers.
#[derive(Debug, PartialEq, Eq)]
pub struct Flow {
    protocol: Protocol,
    pub destination: Place,
    target: Place,
    pub has_reply: bool,
}

impl RemovedTargets {
    pub fn between(before: &Table, now: &Table) -> RemovedTargets {
        let mut removed = RemovedTargets::default();
        let services = before.services.iter().chain(&before.host_ports);
        for ((address, protocol, port), old) in services {
            let key = (*address, *protocol, *port);
            let new = now.services.get(&key).or_else(|| now.host_ports.get(&key));
            let place = (*protocol, (*address, *port));
            removed.services.entry(place).or_default().extend(missing_targets(old, new));
        }
        for ((protocol, port), old) in &before.node_ports {
            let new = now.node_ports.get(&(*protocol, *port));
            let place = (*protocol, *port);
            removed.node_ports.entry(place).or_default().extend(missing_targets(old, new));
        }
        // Datagrams for a Service without endpoints made a flow to the Service's own address.
        for ((address, protocol, port), new) in &now.services {
            let was_empty = before
                .services
                .get(&(*address, *protocol, *port))
                .is_none_or(|old| old.targets.is_empty());
            if *protocol == Protocol::Udp && was_empty && !new.targets.is_empty() {
                let place = (*address, *port);
                removed.services.entry((*protocol, place)).or_default().insert(place);
            }
        }
        removed.services.retain(|_, targets| !targets.is_empty());
        removed.node_ports.retain(|_, targets| !targets.is_empty());
        removed
    }

    fn concerns(&self, flow: &Flow) -> bool {
        if flow.protocol != Protocol::Udp && flow.has_reply {
            return false;
        }
        let service = self.services.get(&(flow.protocol, flow.destination));
        let node_port = || self.node_ports.get(&(flow.protocol, flow.destination.1));
        let targets = service.or_else(node_port);
        targets.is_some_and(|targets| targets.contains(&flow.target))
    }
}

fn missing_targets(old: &Choice, new: Option<&Choice>) -> BTreeSet<Place> {
    let is_left = |target: &&Place| new.is_some_and(|new| new.targets.contains(target));
    old.targets.iter().filter(|target| !is_left(target)).copied().collect()
}

/// Deletes the flows that lead to removed targets.
pub fn delete_flows(removed: &RemovedTargets) -> io::Result<()> {
    if *removed == RemovedTargets::default() {
        return Ok(());
    }
    let mut stale = Vec::new();
    visit_flows(|flow, original| {
        if removed.concerns(&flow) {
            stale.push(original.to_vec());
        }
    })?;
    for original in stale {
        let mut message = Message::new(DELETE, 0, &HEADER);
        message.nested(ORIGINAL, &original);
        match Socket::open(libc::NETLINK_NETFILTER)?.request(message) {
            // It has ended meanwhile.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
            other => other?,
        }
    }
    Ok(())
}

/// Calls `visit` with each flow and the attribute that names it.
fn visit_flows(mut visit: impl FnMut(Flow, &[u8])) -> io::Result<()> {
    Socket::open(libc::NETLINK_NETFILTER)?.dump(Message::new(GET, LIST, &HEADER), |answer| {
        if let Some((flow, original)) = read(answer) {
            visit(flow, original);
        }
    })
}

/// Returns all flows that the kernel tracks.
#[cfg(test)]
pub fn list() -> io::Result<Vec<Flow>> {
    let mut flows = Vec::new();
    visit_flows(|flow, _| flows.push(flow))?;
    Ok(flows)
}

/// Reads a flow from an answer of the kernel, with the attribute that names it.
fn read(answer: &[u8]) -> Option<(Flow, &[u8])> {
    let parts = attributes(answer.get(HEADER.len()..)?);
    let part = |kind| parts.iter().find(|(found, _)| *found == kind).map(|(_, value)| *value);
    let original = part(ORIGINAL)?;
    let (protocol, _, destination) = read_direction(original)?;
    let (_, target, _) = read_direction(part(REPLY)?)?;
    let status = u32::from_be_bytes(part(STATUS)?.try_into().ok()?);
    let has_reply = status & SEEN_REPLY != 0;
    Some((Flow { protocol, destination, target, has_reply }, original))
}

/// Reads the protocol, the source and the destination of one direction of a flow.
fn read_direction(direction: &[u8]) -> Option<(Protocol, Place, Place)> {
    const ADDRESSES: u16 = 1;
    const TRANSPORT: u16 = 2;
    let within = |bytes, kind: u16| {
        let found = attributes(bytes).into_iter().find(|(found, _)| *found == kind);
        found.map(|(_, value)| value)
    };
    let (addresses, transport) = (within(direction, ADDRESSES)?, within(direction, TRANSPORT)?);
    let protocol = match *within(transport, 1)? {
        [6] => Protocol::Tcp,
        [17] => Protocol::Udp,
        [132] => Protocol::Sctp,
        _ => return None,
    };
    let address = |kind| Some(Ipv4Addr::from(<[u8; 4]>::try_from(within(addresses, kind)?).ok()?));
    let port = |kind| Some(u16::from_be_bytes(within(transport, kind)?.try_into().ok()?));
    Some((protocol, (address(1)?, port(2)?), (address(2)?, port(3)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(last: u8) -> Place {
        (Ipv4Addr::new(10, 0, 0, last), 53)
    }

    fn table(protocol: Protocol, targets: &[Place]) -> Table {
        let choice = Choice { targets: targets.to_vec(), is_sticky: false };
        let mut table = Table::default();
        table.services.insert((at(1).0, protocol, 53), choice.clone());
        table.node_ports.insert((protocol, 30_053), choice);
        table
    }

    #[test]
    fn only_flows_to_removed_targets_are_deleted() {
        let udp = |targets: &[Place]| table(Protocol::Udp, targets);
        let between = |before: &Table, now: &Table| {
            let removed = RemovedTargets::between(before, now);
            let destinations = [at(1), (Ipv4Addr::LOCALHOST, 30_053)];
            destinations.map(|destination| {
                let concerns = |last: &u8| {
                    let (protocol, target) = (Protocol::Udp, at(*last));
                    removed.concerns(&Flow { protocol, destination, target, has_reply: true })
                };
                (1..5).filter(concerns).collect::<Vec<u8>>()
            })
        };
        let (two, other) = (udp(&[at(2), at(3)]), udp(&[at(3), at(4)]));
        assert_eq!(between(&two, &other), [[2], [2]]);
        assert_eq!(between(&two, &Table::default()), [[2, 3], [2, 3]]);
        assert_eq!(RemovedTargets::between(&two, &two), RemovedTargets::default());
        // Datagrams for a Service without endpoints went to the address itself.
        assert_eq!(between(&udp(&[]), &two), [vec![1], vec![]]);
    }

    #[test]
    fn a_tcp_flow_is_deleted_only_before_its_target_answered() {
        let before = table(Protocol::Tcp, &[at(2)]);
        let removed = RemovedTargets::between(&before, &Table::default());
        let concerns = |protocol, has_reply| {
            let (destination, target) = (at(1), at(2));
            removed.concerns(&Flow { protocol, destination, target, has_reply })
        };
        assert!(concerns(Protocol::Tcp, false));
        assert!(!concerns(Protocol::Tcp, true));
        assert!(!concerns(Protocol::Udp, false));
    }

    #[test]
    fn what_is_no_flow_is_not_taken_for_one() {
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[2, 0, 0, 0, 4, 0, 1, 0x80]), None);
        assert_eq!(read(&[2, 0, 0, 0, 0xff, 0, 1, 0x80, 1]), None);
    }
}
