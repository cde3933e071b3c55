//! The interfaces of this machine as they are, with their addresses and routes, and how those are
//! put where they were before.

use std::io;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use super::links::Links;
use super::netlink::{CREATE, LIST, Message, REPLACE, attributes};
use super::system;

const LIST_LINKS: u16 = 18;
const NEW_ADDRESS: u16 = 20;
const DELETE_ADDRESS: u16 = 21;
const LIST_ADDRESSES: u16 = 22;
const NEW_ROUTE: u16 = 24;
const LIST_ROUTES: u16 = 26;
const MAIN_TABLE: u8 = 254;
/// Routes that go with an address, and come back with it.
const BY_KERNEL: u8 = 2;
const UNICAST: u8 = 1;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    pub index: u32,
    pub name: String,
    /// `bridge`, `vlan` and so on; empty for what is a device.
    pub kind: String,
    /// The bridge that it is in.
    pub bridge: Option<u32>,
    /// What it is a part of, by which tag.
    pub base: Option<u32>,
    pub tag: Option<u16>,
}

/// An address with the length of its network.
pub type Address = (Ipv4Addr, u8);

/// A way that somebody set up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    to: Address,
    gateway: Option<Ipv4Addr>,
    from: Option<Ipv4Addr>,
    metric: u32,
    scope: u8,
    origin: u8,
}

/// Of the fourth or the sixth version.
#[derive(Clone, Copy)]
enum Family {
    Four = 2,
    Six = 10,
}

impl Links {
    pub fn interfaces(&mut self) -> io::Result<Vec<Interface>> {
        let found = self.0.list(Message::new(LIST_LINKS, LIST, &[0; 16]))?;
        Ok(found.iter().filter_map(|message| interface(message)).collect())
    }

    /// The addresses of an interface.
    pub fn addresses(&mut self, index: u32) -> io::Result<Vec<Address>> {
        let found = self.0.list(Message::new(
            LIST_ADDRESSES,
            LIST,
            &[Family::Four as u8, 0, 0, 0, 0, 0, 0, 0],
        ))?;
        let all = found.iter().filter_map(|message| address(message));
        Ok(all.filter(|(of, _)| *of == index).map(|(_, address)| address).collect())
    }

    /// The routes out of an interface that do not come with its addresses.
    pub fn routes(&mut self, index: u32) -> io::Result<Vec<Route>> {
        let found = self.routes_of(Family::Four)?;
        let all = found.iter().filter_map(|message| route(message));
        let set_up = all.filter(|(of, route)| *of == index && route.origin != BY_KERNEL);
        Ok(set_up.map(|(_, route)| route).collect())
    }

    /// Whether what has no other way goes out of an interface.
    pub fn is_way_out(&mut self, index: u32) -> io::Result<bool> {
        for family in [Family::Four, Family::Six] {
            let found = self.routes_of(family)?;
            let leads_out = |message: &Vec<u8>| {
                message.get(1) == Some(&0)
                    && message.get(7) == Some(&UNICAST)
                    && attribute(message, 12, 4).and_then(number) == Some(index)
            };
            if found.iter().any(leads_out) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn routes_of(&mut self, family: Family) -> io::Result<Vec<Vec<u8>>> {
        let mut header = [0; 12];
        header[0] = family as u8;
        self.0.list(Message::new(LIST_ROUTES, LIST, &header))
    }

    /// Gives an interface an address of a network; one that it has is fine.
    pub fn put_address(&mut self, name: &str, address: Address) -> io::Result<()> {
        self.0.request(address_message(NEW_ADDRESS, CREATE | REPLACE, (name, address))?)
    }

    /// Takes an address away; one that is not there is fine.
    pub fn take_address(&mut self, name: &str, address: Address) -> io::Result<()> {
        match self.0.request(address_message(DELETE_ADDRESS, 0, (name, address))?) {
            Err(error) if error.raw_os_error() == Some(libc::EADDRNOTAVAIL) => Ok(()),
            done => done,
        }
    }

    /// Has a route lead out of an interface.
    pub fn put_route(&mut self, name: &str, route: &Route) -> io::Result<()> {
        let Route { to, gateway, from, metric, scope, origin } = *route;
        let header =
            [Family::Four as u8, to.1, 0, 0, MAIN_TABLE, origin, scope, UNICAST, 0, 0, 0, 0];
        let mut message = Message::new(NEW_ROUTE, CREATE | REPLACE, &header);
        if to.1 > 0 {
            message.attribute(1, &to.0.octets());
        }
        message.native(4, system::interface(name)?);
        if let Some(gateway) = gateway {
            message.attribute(5, &gateway.octets());
        }
        if metric > 0 {
            message.native(6, metric);
        }
        if let Some(from) = from {
            message.attribute(7, &from.octets());
        }
        self.0.request(message)
    }
}

fn address_message(
    kind: u16,
    flags: u16,
    (name, (address, length)): (&str, Address),
) -> io::Result<Message> {
    let [a, b, c, d] = system::interface(name)?.to_ne_bytes();
    let header = [Family::Four as u8, length, 0, 0, a, b, c, d];
    let mut message = Message::new(kind, flags, &header);
    message.attribute(1, &address.octets()).attribute(2, &address.octets());
    Ok(message)
}

fn interface(message: &[u8]) -> Option<Interface> {
    let mut found = Interface { index: number(message.get(4..8)?)?, ..Interface::default() };
    for (kind, value) in attributes(message.get(16..)?) {
        match kind {
            3 => found.name = text(value),
            5 => found.base = number(value),
            10 => found.bridge = number(value),
            18 => {
                let info = attributes(value);
                let of = |wanted: u16| info.iter().find(|(kind, _)| *kind == wanted);
                found.kind = of(1).map(|(_, value)| text(value)).unwrap_or_default();
                let data = of(2).filter(|_| found.kind == "vlan");
                let tag = data.and_then(|(_, data)| {
                    attributes(data).into_iter().find(|(kind, _)| *kind == 1)
                });
                found.tag = tag.and_then(|(_, tag)| tag.try_into().ok()).map(u16::from_ne_bytes);
            }
            _ => {}
        }
    }
    Some(found)
}

fn address(message: &[u8]) -> Option<(u32, Address)> {
    let index = number(message.get(4..8)?)?;
    let own = attribute(message, 8, 2).or(attribute(message, 8, 1)).and_then(address_of)?;
    Some((index, (own, *message.get(1)?)))
}

fn route(message: &[u8]) -> Option<(u32, Route)> {
    let at = |at: usize| message.get(at).copied();
    if at(4)? != MAIN_TABLE || at(7)? != UNICAST {
        return None;
    }
    let of = |kind: u16| attribute(message, 12, kind);
    let to = of(1).and_then(address_of).unwrap_or(Ipv4Addr::UNSPECIFIED);
    let route = Route {
        to: (to, at(1)?),
        gateway: of(5).and_then(address_of),
        from: of(7).and_then(address_of),
        metric: of(6).and_then(number).unwrap_or(0),
        scope: at(6)?,
        origin: at(5)?,
    };
    Some((number(of(4)?)?, route))
}

/// An attribute of a message whose own header is so long.
fn attribute(message: &[u8], header: usize, wanted: u16) -> Option<&[u8]> {
    let all = attributes(message.get(header..)?);
    all.into_iter().find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

fn number(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_ne_bytes)
}

fn address_of(value: &[u8]) -> Option<Ipv4Addr> {
    <[u8; 4]>::try_from(value).ok().map(Ipv4Addr::from)
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}
