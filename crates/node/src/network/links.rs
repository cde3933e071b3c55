//! Interfaces, addresses and routes, by messages to the kernel.

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;

use super::netlink::{CREATE, EXCLUSIVE, Message, REPLACE, Socket};
use super::system;

const NEW_LINK: u16 = 16;
const DELETE_LINK: u16 = 17;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;
const DELETE_ROUTE: u16 = 25;
/// By whom a route was made: a number that nobody else uses.
const ROUTE_ORIGIN: u8 = 83;
const MAIN_TABLE: u8 = 254;

/// The interfaces, addresses and routes of the network that the thread is in.
pub struct Links(pub(super) Socket);

/// Where packets go.
#[derive(Clone, Copy)]
pub enum Way<'a> {
    /// Straight out of an interface, from that address of ours.
    Out { interface: &'a str, from: Option<Ipv4Addr> },
    /// By way of another machine.
    By { interface: &'a str, gateway: Ipv4Addr },
    /// Nowhere, which is said at once.
    Nowhere,
}

impl Links {
    pub fn open() -> io::Result<Links> {
        Socket::open(libc::NETLINK_ROUTE).map(Links)
    }

    /// An interface that leads nowhere until others join it.
    pub fn add_bridge(&mut self, name: &str) -> io::Result<()> {
        let mut message = Message::new(NEW_LINK, CREATE | EXCLUSIVE, &link_header(0));
        message.text(IFLA_NAME, name).nest(IFLA_INFO, |info| {
            info.attribute(INFO_KIND, b"bridge");
        });
        self.0.request(message)
    }

    /// An interface for what of another carries a tag.
    pub fn add_tagged(&mut self, name: &str, (base, tag): (&str, u16)) -> io::Result<()> {
        let base = system::interface(base)?;
        let mut message = Message::new(NEW_LINK, CREATE | EXCLUSIVE, &link_header(0));
        message.text(IFLA_NAME, name).native(IFLA_BASE, base).nest(IFLA_INFO, |info| {
            info.attribute(INFO_KIND, b"vlan").nest(INFO_DATA, |data| {
                data.attribute(VLAN_ID, &tag.to_ne_bytes());
            });
        });
        self.0.request(message)
    }

    /// Has an interface join a bridge, or leave the one that it is in.
    pub fn join(&mut self, name: &str, bridge: Option<&str>) -> io::Result<()> {
        let bridge = bridge.map_or(Ok(0), system::interface)?;
        let mut message = Message::new(NEW_LINK, 0, &link_header(system::interface(name)?));
        message.native(IFLA_BRIDGE, bridge);
        self.0.request(message)
    }

    /// A pair of interfaces: one here, one in another network.
    pub fn add_pair(&mut self, name: &str, (inner, network): (&str, &File)) -> io::Result<()> {
        let descriptor = u32::try_from(network.as_raw_fd()).unwrap_or(u32::MAX);
        let mut message = Message::new(NEW_LINK, CREATE | EXCLUSIVE, &link_header(0));
        message.text(IFLA_NAME, name).nest(IFLA_INFO, |info| {
            info.attribute(INFO_KIND, b"veth").nest(INFO_DATA, |data| {
                data.nest_after(VETH_PEER, &link_header(0), |peer| {
                    peer.text(IFLA_NAME, inner).native(IFLA_NETWORK, descriptor);
                });
            });
        });
        self.0.request(message)
    }

    pub fn set_up(&mut self, name: &str) -> io::Result<()> {
        let mut header = link_header(system::interface(name)?);
        let up = u32::try_from(libc::IFF_UP).unwrap_or(1).to_ne_bytes();
        header[8..12].copy_from_slice(&up);
        header[12..16].copy_from_slice(&up);
        self.0.request(Message::new(NEW_LINK, 0, &header))
    }

    /// Removes an interface; one that is not there is fine.
    pub fn remove(&mut self, name: &str) -> io::Result<()> {
        let Ok(index) = system::interface(name) else { return Ok(()) };
        self.0.request(Message::new(DELETE_LINK, 0, &link_header(index)))
    }

    /// Gives an interface an address; one that it has is fine.
    pub fn add_address(&mut self, name: &str, address: Ipv4Addr) -> io::Result<()> {
        let index = system::interface(name)?.to_ne_bytes();
        let [a, b, c, d] = index;
        let header = [FAMILY, 32, 0, 0, a, b, c, d];
        let mut message = Message::new(NEW_ADDRESS, CREATE | REPLACE, &header);
        message.attribute(1, &address.octets()).attribute(2, &address.octets());
        self.0.request(message)
    }

    pub fn add_route(&mut self, to: (Ipv4Addr, u8), way: Way<'_>) -> io::Result<()> {
        self.0.request(route(NEW_ROUTE, CREATE | REPLACE, to, way)?)
    }

    pub fn remove_route(&mut self, to: (Ipv4Addr, u8), way: Way<'_>) -> io::Result<()> {
        match self.0.request(route(DELETE_ROUTE, 0, to, way)?) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
            done => done,
        }
    }
}

const FAMILY: u8 = 2;
const IFLA_NAME: u16 = 3;
const IFLA_BASE: u16 = 5;
const IFLA_BRIDGE: u16 = 10;
const IFLA_INFO: u16 = 18;
const IFLA_NETWORK: u16 = 28;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const VETH_PEER: u16 = 1;
const VLAN_ID: u16 = 1;

fn link_header(index: u32) -> [u8; 16] {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header
}

fn route(kind: u16, flags: u16, (to, length): (Ipv4Addr, u8), way: Way<'_>) -> io::Result<Message> {
    let (universe, link) = (0, 253);
    let (unicast, unreachable) = (1, 7);
    let (scope, kind_of_route) = match way {
        Way::Out { .. } => (link, unicast),
        Way::By { .. } => (universe, unicast),
        Way::Nowhere => (universe, unreachable),
    };
    let header = [FAMILY, length, 0, 0, MAIN_TABLE, ROUTE_ORIGIN, scope, kind_of_route, 0, 0, 0, 0];
    let mut message = Message::new(kind, flags, &header);
    if length > 0 {
        message.attribute(1, &to.octets());
    }
    match way {
        Way::Out { interface, from } => {
            message.native(4, system::interface(interface)?);
            if let Some(from) = from {
                message.attribute(7, &from.octets());
            }
        }
        Way::By { interface, gateway } => {
            message.native(4, system::interface(interface)?).attribute(5, &gateway.octets());
        }
        Way::Nowhere => {}
    }
    Ok(message)
}
