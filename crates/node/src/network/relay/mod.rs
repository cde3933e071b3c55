//! Services without privilege: this process listens where a service is, and passes connections on.
//! TCP only.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::services::{Choice, Protocol, Table};

/// Connections at the same time; more wait.
const CONNECTIONS_MAX: usize = 4_096;
/// How long one of the targets may take to answer before another is asked.
const CONNECT_MAX: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(10);

/// What is listened for.
pub struct Relay {
    places: BTreeMap<SocketAddr, Place>,
    free: Arc<Semaphore>,
    /// Places that could not be had, each told of once.
    refused: BTreeSet<SocketAddr>,
}

struct Place {
    choice: Arc<Mutex<Choice>>,
    /// Dropped, it listens no more; connections that are there go on.
    _listening: JoinSet<()>,
}

impl Default for Relay {
    fn default() -> Relay {
        let free = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        Relay { places: BTreeMap::new(), free, refused: BTreeSet::new() }
    }
}

impl Relay {
    /// Listens for what the table has, and for nothing else.
    pub async fn apply(&mut self, table: &Table) {
        let wanted = wanted(table);
        self.places.retain(|place, _| wanted.contains_key(place));
        for (place, choice) in wanted {
            if let Some(known) = self.places.get(&place) {
                *known.choice.lock().unwrap_or_else(PoisonError::into_inner) = choice;
                continue;
            }
            let listener = match TcpListener::bind(place).await {
                Ok(listener) => listener,
                Err(error) => {
                    if self.refused.insert(place) {
                        tracing::warn!(%place, %error, "a service cannot be reached");
                    }
                    continue;
                }
            };
            self.refused.remove(&place);
            let choice = Arc::new(Mutex::new(choice));
            let mut listening = JoinSet::new();
            listening.spawn(listen(listener, choice.clone(), self.free.clone()));
            self.places.insert(place, Place { choice, _listening: listening });
        }
    }
}

fn wanted(table: &Table) -> BTreeMap<SocketAddr, Choice> {
    let mut wanted = BTreeMap::new();
    let of_tcp = |protocol: Protocol| protocol == Protocol::Tcp;
    let addressed = table.services.iter().chain(&table.host_ports);
    for ((address, protocol, port), choice) in addressed {
        if of_tcp(*protocol) {
            wanted.insert(SocketAddr::new(IpAddr::V4(*address), *port), choice.clone());
        }
    }
    for ((protocol, port), choice) in &table.node_ports {
        // A program that listens on every address is reached there already.
        if of_tcp(*protocol) && !choice.targets.iter().any(|(_, target)| target == port) {
            let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
            wanted.insert(SocketAddr::new(any, *port), choice.clone());
        }
    }
    wanted
}

async fn listen(listener: TcpListener, choice: Arc<Mutex<Choice>>, free: Arc<Semaphore>) {
    let turn = AtomicUsize::new(0);
    loop {
        let Ok(permit) = free.clone().acquire_owned().await else { return };
        let Ok((stream, from)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let choice = choice.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let turn = match (choice.is_sticky, from.ip()) {
            (true, IpAddr::V4(address)) => usize::try_from(address.to_bits()).unwrap_or(0),
            _ => turn.fetch_add(1, Ordering::Relaxed),
        };
        #[expect(clippy::disallowed_methods, reason = "ends with its connection, and is counted")]
        tokio::spawn(async move {
            pass_on(stream, &choice, turn).await;
            drop(permit);
        });
    }
}

/// To the first that answers.
async fn pass_on(mut stream: TcpStream, choice: &Choice, turn: usize) {
    let count = choice.targets.len();
    for step in 0..count {
        let target = choice.targets[turn.wrapping_add(step) % count];
        let connected = tokio::time::timeout(CONNECT_MAX, TcpStream::connect(target)).await;
        if let Ok(Ok(mut other)) = connected {
            let _ = (stream.set_nodelay(true), other.set_nodelay(true));
            let _ = tokio::io::copy_bidirectional(&mut stream, &mut other).await;
            return;
        }
    }
    // With nobody to ask the connection ends at once.
    let _ = stream.set_zero_linger();
}
