//! Flows of UDP that the kernel remembers. They have no end that it could see: as long as a client
//! goes on sending, its packets go where the first one went, also when nobody is there any more.
//! Flows to what is gone are therefore forgotten; the next packet goes to who is there.
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
const UDP: u8 = 17;

type Place = (Ipv4Addr, u16);

/// Where services and ports of the machine led, and lead no more.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Gone {
    services: BTreeMap<Place, BTreeSet<Place>>,
    node_ports: BTreeMap<u16, BTreeSet<Place>>,
}

/// A flow: where it was sent to, and who answers.
#[derive(Debug, PartialEq, Eq)]
struct Flow {
    to: Place,
    answers: Place,
}

impl Gone {
    pub fn between(before: &Table, now: &Table) -> Gone {
        let mut gone = Gone::default();
        let services = before.services.iter().chain(&before.host_ports);
        for ((address, protocol, port), led) in services {
            let key = (*address, *protocol, *port);
            let leads = now.services.get(&key).or_else(|| now.host_ports.get(&key));
            let lost = lost(*protocol, led, leads);
            gone.services.entry((*address, *port)).or_default().extend(lost);
        }
        for ((protocol, port), led) in &before.node_ports {
            let leads = now.node_ports.get(&(*protocol, *port));
            let lost = lost(*protocol, led, leads);
            gone.node_ports.entry(*port).or_default().extend(lost);
        }
        // Who sent before there was anybody was sent nowhere.
        for ((address, protocol, port), leads) in &now.services {
            let was_empty = before
                .services
                .get(&(*address, *protocol, *port))
                .is_none_or(|led| led.targets.is_empty());
            if *protocol == Protocol::Udp && was_empty && !leads.targets.is_empty() {
                let place = (*address, *port);
                gone.services.entry(place).or_default().insert(place);
            }
        }
        gone.services.retain(|_, targets| !targets.is_empty());
        gone.node_ports.retain(|_, targets| !targets.is_empty());
        gone
    }

    fn has(&self, flow: &Flow) -> bool {
        let service = self.services.get(&flow.to);
        let targets = service.or_else(|| self.node_ports.get(&flow.to.1));
        targets.is_some_and(|targets| targets.contains(&flow.answers))
    }
}

fn lost(protocol: Protocol, led: &Choice, leads: Option<&Choice>) -> BTreeSet<Place> {
    let is_left = |target: &&Place| leads.is_some_and(|leads| leads.targets.contains(target));
    match protocol {
        Protocol::Udp => led.targets.iter().filter(|target| !is_left(target)).copied().collect(),
        // The kernel sees how these end.
        Protocol::Tcp | Protocol::Sctp => BTreeSet::new(),
    }
}

/// Has the kernel forget the flows to what is gone.
pub fn forget(gone: &Gone) -> io::Result<()> {
    if *gone == Gone::default() {
        return Ok(());
    }
    let mut stale = Vec::new();
    Socket::open(libc::NETLINK_NETFILTER)?.dump(Message::new(GET, LIST, &HEADER), |answer| {
        if let Some((flow, original)) = read(answer)
            && gone.has(&flow)
        {
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

/// A flow of UDP in an answer of the kernel, and the part that names it.
fn read(answer: &[u8]) -> Option<(Flow, &[u8])> {
    let parts = attributes(answer.get(HEADER.len()..)?);
    let part = |kind| parts.iter().find(|(found, _)| *found == kind).map(|(_, value)| *value);
    let original = part(ORIGINAL)?;
    let (_, to) = ends(original)?;
    let (answers, _) = ends(part(REPLY)?)?;
    Some((Flow { to, answers }, original))
}

/// Whose and where to, of one direction.
fn ends(direction: &[u8]) -> Option<(Place, Place)> {
    const ADDRESSES: u16 = 1;
    const TRANSPORT: u16 = 2;
    let within = |bytes, kind: u16| {
        let found = attributes(bytes).into_iter().find(|(found, _)| *found == kind);
        found.map(|(_, value)| value)
    };
    let (addresses, transport) = (within(direction, ADDRESSES)?, within(direction, TRANSPORT)?);
    if within(transport, 1)? != [UDP] {
        return None;
    }
    let address = |kind| Some(Ipv4Addr::from(<[u8; 4]>::try_from(within(addresses, kind)?).ok()?));
    let port = |kind| Some(u16::from_be_bytes(within(transport, kind)?.try_into().ok()?));
    Some(((address(1)?, port(2)?), (address(2)?, port(3)?)))
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
    fn only_flows_to_what_is_gone_are_forgotten() {
        let udp = |targets: &[Place]| table(Protocol::Udp, targets);
        let between = |before: &Table, now: &Table| {
            let gone = Gone::between(before, now);
            let to = [at(1), (Ipv4Addr::LOCALHOST, 30_053)];
            to.map(|to| {
                let has = |last: &u8| gone.has(&Flow { to, answers: at(*last) });
                (1..5).filter(has).collect::<Vec<u8>>()
            })
        };
        let (two, other) = (udp(&[at(2), at(3)]), udp(&[at(3), at(4)]));
        assert_eq!(between(&two, &other), [[2], [2]]);
        assert_eq!(between(&two, &Table::default()), [[2, 3], [2, 3]]);
        assert_eq!(Gone::between(&two, &two), Gone::default());
        let tcp = table(Protocol::Tcp, &[at(2)]);
        assert_eq!(Gone::between(&tcp, &Table::default()), Gone::default());
        // What was sent when nobody was there went to the address itself.
        assert_eq!(between(&udp(&[]), &two), [vec![1], vec![]]);
    }

    #[test]
    fn what_is_no_flow_is_not_taken_for_one() {
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[2, 0, 0, 0, 4, 0, 1, 0x80]), None);
        assert_eq!(read(&[2, 0, 0, 0, 0xff, 0, 1, 0x80, 1]), None);
    }
}
