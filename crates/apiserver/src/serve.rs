//! Serves over TLS: accepts, learns who is there from the certificate, hands requests on.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};

use crate::identity::User;
use crate::identity::tls::user_of_certificate;
use crate::server::Server;

/// Connections at once; the next one waits in the system's queue.
const CONNECTIONS_MAX: usize = 4_096;
/// Streams of one HTTP/2 connection; clients open hundreds of watches on one.
const STREAMS_MAX: u32 = 250;
/// How long a handshake may take.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// How long a client may take to send a request's head.
const HEAD_MAX: Duration = Duration::from_secs(10);
/// The largest head of a request.
const HEAD_BYTES_MAX: u32 = 32 << 10;
/// How long to wait when the system has no more descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until the server is told to stop.
pub async fn serve(server: Arc<Server>, listener: TcpListener, config: Arc<ServerConfig>) {
    let acceptor = TlsAcceptor::from(config);
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let accept = async {
            let permit = room.clone().acquire_owned().await;
            listener.accept().await.map(|(stream, _)| (stream, permit))
        };
        let (stream, permit) = tokio::select! {
            () = server.stopping() => break,
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
        let connection = serve_connection(server.clone(), acceptor.clone(), stream);
        connections.spawn(async move {
            let _permit = permit;
            connection.await;
        });
    }
    // Watches end by themselves when the server stops; whatever is left is cut off.
    let drain = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(Duration::from_secs(5), drain).await;
}

async fn serve_connection(server: Arc<Server>, acceptor: TlsAcceptor, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let handshake = tokio::time::timeout(HANDSHAKE_MAX, acceptor.accept(stream));
    let handshake = tokio::select! {
        handshake = handshake => handshake,
        () = server.stopping() => return,
    };
    let stream = match handshake {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return debug!(%error, "a handshake failed"),
        Err(_) => return debug!("a handshake took too long"),
    };
    let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let certificate = certificate.map(|certificate| certificate.to_vec());
    let answer = {
        let server = server.clone();
        move |request| {
            let server = server.clone();
            let user = user(&server, certificate.as_deref());
            async move { Ok::<_, Infallible>(server.handle(request, user).await) }
        }
    };
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX);
    let connection =
        builder.serve_connection_with_upgrades(TokioIo::new(stream), service_fn(answer));
    tokio::pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = server.stopping() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        debug!(%error, "a connection ended early");
    }
}

/// The holder of the certificate, if there is one.
fn user(server: &Server, certificate: Option<&[u8]>) -> Option<Arc<User>> {
    user_of_certificate(certificate?, server.now()).map(Arc::new)
}
