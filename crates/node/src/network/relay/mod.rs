//! Services without privilege: this process listens where a service is, and passes on what comes:
//! connections (`connections.rs`) and datagrams (`datagrams.rs`).

mod connections;
mod datagrams;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::rootless::Rootless;
use super::services::{Choice, Protocol, Table};

/// Connections at the same time; more wait.
const CONNECTIONS_MAX: usize = 4_096;
/// Clients whose datagrams have a target at the same time; those of more are dropped.
const ASSOCIATIONS_MAX: usize = 1_024;

/// A network in which sockets are made.
#[derive(Clone)]
pub enum Side {
    Host,
    /// A rootless pod network.
    Pods(Arc<Rootless>),
}

impl Side {
    pub async fn listen(&self, address: SocketAddr) -> io::Result<TcpListener> {
        match self {
            Side::Host => TcpListener::bind(address).await,
            Side::Pods(network) => network.listen(address).await,
        }
    }

    pub async fn bind_udp(&self, address: SocketAddr) -> io::Result<UdpSocket> {
        match self {
            Side::Host => UdpSocket::bind(address).await,
            Side::Pods(network) => network.bind_udp(address).await,
        }
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        match self {
            Side::Host => TcpStream::connect(address).await,
            Side::Pods(network) => network.connect(address, None).await,
        }
    }
}

/// What is listened for.
pub struct Relay {
    listens: Side,
    connects: Side,
    places: BTreeMap<At, Place>,
    connections: Arc<Semaphore>,
    associations: Arc<Semaphore>,
    /// Places that could not be had, each told of once.
    refused: BTreeSet<At>,
}

type At = (Protocol, SocketAddr);
/// Who may be chosen at the moment.
type Shared = Arc<Mutex<Choice>>;

struct Place {
    choice: Shared,
    /// Dropped, it listens no more; connections that are there go on.
    _listening: JoinSet<()>,
}

impl Default for Relay {
    fn default() -> Relay {
        Relay::new(Side::Host, Side::Host)
    }
}

impl Relay {
    pub fn new(listens: Side, connects: Side) -> Relay {
        Relay {
            listens,
            connects,
            places: BTreeMap::new(),
            connections: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            associations: Arc::new(Semaphore::new(ASSOCIATIONS_MAX)),
            refused: BTreeSet::new(),
        }
    }

    /// Listens for what the table has, and for nothing else. True if all of it can be reached.
    pub async fn apply(&mut self, table: &Table) -> bool {
        let wanted = self.wanted(table);
        let count = wanted.len();
        self.places.retain(|place, _| wanted.contains_key(place));
        self.refused.retain(|place| wanted.contains_key(place));
        for (at, choice) in wanted {
            if let Some(known) = self.places.get(&at) {
                *known.choice.lock().unwrap_or_else(PoisonError::into_inner) = choice;
                continue;
            }
            let is_near = self.is_shared() && choice.targets.iter().any(|it| it.1 == at.1.port());
            let choice = Arc::new(Mutex::new(choice));
            let listening = match is_near {
                true => self.listen_beside(at, &choice).await,
                false => self.listen(at, &choice).await,
            };
            match listening {
                Ok(listening) => {
                    self.refused.remove(&at);
                    self.places.insert(at, Place { choice, _listening: listening });
                }
                Err(error) => {
                    let (protocol, place) = at;
                    if self.refused.insert(at) {
                        tracing::warn!(?protocol, %place, %error, "a service cannot be reached");
                    }
                }
            }
        }
        self.places.len() == count
    }

    fn is_shared(&self) -> bool {
        matches!((&self.listens, &self.connects), (Side::Host, Side::Host))
    }

    /// Listens on the port of a target, which may listen on every address of the host: it must come
    /// first then, or it could not, and is reached at the place already.
    async fn listen_beside(&self, at: At, choice: &Shared) -> io::Result<JoinSet<()>> {
        let target = choice.lock().unwrap_or_else(PoisonError::into_inner).targets.first().copied();
        if let (Protocol::Tcp, Some(target)) = (at.0, target) {
            self.connects.connect(SocketAddr::from(target)).await?;
        }
        match self.listen(at, choice).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(JoinSet::new()),
            listening => listening,
        }
    }

    async fn listen(&self, (protocol, place): At, choice: &Shared) -> io::Result<JoinSet<()>> {
        let mut listening = JoinSet::new();
        if protocol == Protocol::Udp {
            let socket = self.listens.bind_udp(place).await?;
            let ends = (socket, self.connects.clone());
            listening.spawn(datagrams::relay(ends, choice.clone(), self.associations.clone()));
        } else {
            let ends = (self.listens.listen(place).await?, self.connects.clone());
            let free = self.connections.clone();
            listening.spawn(connections::listen(ends, choice.clone(), free));
        }
        Ok(listening)
    }

    fn wanted(&self, table: &Table) -> BTreeMap<At, Choice> {
        // A program that listens on every address of the host is reached there already.
        let is_shared = self.is_shared();
        wanted(table, |choice, port| {
            is_shared && choice.targets.iter().any(|(_, target)| *target == port)
        })
    }
}

fn wanted(table: &Table, is_there: impl Fn(&Choice, u16) -> bool) -> BTreeMap<At, Choice> {
    let mut wanted = BTreeMap::new();
    let is_ours = |protocol: Protocol, choice: &Choice| match protocol {
        // Connections to an address on which no socket listens are refused by the kernel.
        Protocol::Tcp | Protocol::Udp => !choice.targets.is_empty(),
        Protocol::Sctp => false,
    };
    let addressed = table.services.iter().chain(&table.host_ports);
    for ((address, protocol, port), choice) in addressed {
        if is_ours(*protocol, choice) {
            let at = SocketAddr::new(IpAddr::V4(*address), *port);
            wanted.insert((*protocol, at), choice.clone());
        }
    }
    for ((protocol, port), choice) in &table.node_ports {
        if is_ours(*protocol, choice) && !is_there(choice, *port) {
            let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
            wanted.insert((*protocol, SocketAddr::new(any, *port)), choice.clone());
        }
    }
    wanted
}

/// Whose turn it is: always the same for a client where the choice is sticky.
fn turn(choice: &Choice, from: SocketAddr, next: usize) -> usize {
    match (choice.is_sticky, from.ip()) {
        (true, IpAddr::V4(address)) => usize::try_from(address.to_bits()).unwrap_or(0),
        _ => next,
    }
}
