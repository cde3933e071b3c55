//! Takes addresses, and answers on the socket of this machine's own commands.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result};
use apiserver::serve::{Limits, serve_plain};
use tokio::net::{TcpListener, UnixListener};

use crate::health::Health;
use crate::shutdown::Stop;

/// Connections at once; the next one waits in the system's queue.
const CONNECTIONS_MAX: usize = 64;

/// Takes the address, or says how to choose another.
pub async fn bind(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| {
        format!(
            "could not listen on {address}; choose another address with --listen ADDR:PORT \
             (port 0 takes a free one)"
        )
    })
}

/// Where clients on this machine reach a listener of the API.
pub fn url(address: SocketAddr) -> String {
    format!("https://{}", reachable(address))
}

/// The address by which this machine reaches a listener.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Serves until asked to stop, then lets open requests finish.
pub async fn serve(listener: UnixListener, health: Arc<Health>, stop: Stop) {
    let limits = Limits { connections_max: CONNECTIONS_MAX, ..Limits::default() };
    let answer = move |request| {
        let health = health.clone();
        async move { health.answer(&request) }
    };
    serve_plain(listener, stop.into_receiver(), limits, answer).await;
}
