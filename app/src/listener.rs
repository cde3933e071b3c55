//! Takes addresses, and answers on the socket of this machine's own commands.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result};
use apiserver::serve::{Limits, serve_plain};
use tokio::net::{TcpListener, UnixListener};

use crate::activation;
use crate::health::Health;
use crate::shutdown::Stop;

/// Connections at once; the next one waits in the system's queue.
const CONNECTIONS_MAX: usize = 64;

/// Where to listen when nobody says.
pub const USUAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 6443);

/// Where the API is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// There, or not at all.
    At(SocketAddr),
    /// Where systemd listens for us, else at the usual address, or on a free port when that is
    /// taken.
    Usual,
    /// To this process alone.
    Nowhere,
}

/// Takes an address; says besides what people should know of it.
pub async fn take(listen: Listen) -> Result<Option<(TcpListener, &'static str)>> {
    match listen {
        Listen::At(address) => Ok(Some((bind(address, "--listen").await?, ""))),
        Listen::Usual => {
            if let Some(listener) = activation::take()? {
                let listener = TcpListener::from_std(listener);
                let listener = listener.context("could not use the socket of systemd")?;
                return Ok(Some((listener, "   (systemd listens)")));
            }
            match TcpListener::bind(USUAL).await {
                Ok(listener) => Ok(Some((listener, ""))),
                Err(_) => {
                    let free = SocketAddr::new(USUAL.ip(), 0);
                    let listener = bind(free, "--listen").await?;
                    Ok(Some((listener, "   (the usual port is taken)")))
                }
            }
        }
        Listen::Nowhere => Ok(None),
    }
}

/// Takes the address, or says how to choose another.
pub async fn bind(address: SocketAddr, option: &str) -> Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| {
        format!(
            "could not listen on {address}; choose another address with {option} ADDR:PORT \
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
