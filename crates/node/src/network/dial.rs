//! Connections of this process to addresses of pods and services. The host has no route into a
//! rootless network, so this process keeps its own.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock, Weak};

use tokio::net::TcpStream;

use super::Range;
use super::rootless::Rootless;

static ROUTES: RwLock<Vec<(Range, Weak<Rootless>)>> = RwLock::new(Vec::new());

/// Connections to addresses of the range go through the network from here on.
pub fn add_route(range: Range, network: &Arc<Rootless>) {
    let mut routes = ROUTES.write().unwrap_or_else(PoisonError::into_inner);
    routes.retain(|(known, network)| *known != range && network.strong_count() > 0);
    routes.push((range, Arc::downgrade(network)));
}

pub fn remove_route(range: Range) {
    let mut routes = ROUTES.write().unwrap_or_else(PoisonError::into_inner);
    routes.retain(|(known, _)| *known != range);
}

fn route(address: IpAddr) -> Option<Arc<Rootless>> {
    let IpAddr::V4(address) = address else { return None };
    let routes = ROUTES.read().unwrap_or_else(PoisonError::into_inner);
    routes.iter().find(|(range, _)| range.contains(address))?.1.upgrade()
}

/// Connects to an address.
pub async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    match route(address.ip()) {
        Some(network) => network.connect(address, None).await,
        None => TcpStream::connect(address).await,
    }
}

/// Connects to a port of a host that is given as an address or a name.
pub async fn connect_host(host: &str, port: u16) -> io::Result<TcpStream> {
    match host.parse() {
        Ok(address) => connect(SocketAddr::new(address, port)).await,
        Err(_) => TcpStream::connect((host, port)).await,
    }
}
