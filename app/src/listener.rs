//! Takes addresses, and answers on the socket of this machine's own commands.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tracing::{debug, warn};

use crate::health::Health;
use crate::shutdown::Stop;

/// Connections at once; the next one waits in the system's queue.
const CONNECTIONS_MAX: usize = 64;
/// How long a client may take to send a request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait when the system has no more descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long open requests may take when the program stops.
const DRAIN_MAX: Duration = Duration::from_secs(5);

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
pub async fn serve(listener: UnixListener, health: Arc<Health>, mut stop: Stop) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    builder.http2().timer(TokioTimer::new());
    loop {
        let accept = async {
            let permit = room.clone().acquire_owned().await;
            listener.accept().await.map(|(stream, _)| (stream, permit))
        };
        let (stream, permit) = tokio::select! {
            () = stop.requested() => break,
            Some(_) = connections.join_next() => continue,
            accepted = accept => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    warn!(%error, "could not accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
        };
        let health = health.clone();
        let answer = move |request| {
            let health = health.clone();
            async move { Ok::<_, Infallible>(health.answer(&request)) }
        };
        let connection = builder.serve_connection(TokioIo::new(stream), service_fn(answer));
        let connection = graceful.watch(connection.into_owned());
        connections.spawn(async move {
            let _permit = permit;
            if let Err(error) = connection.await {
                debug!(%error, "a connection ended early");
            }
        });
    }
    drop(listener);
    // Whoever is left is cut off when the set is dropped.
    let _ = tokio::time::timeout(DRAIN_MAX, graceful.shutdown()).await;
}
