//! Accepts connections, within bounds, and hands their requests on: HTTP/1.1 and HTTP/2, over TLS
//! for everyone and plain on sockets of this machine.
//!
//! Nobody may hold the server up: handshakes, heads of requests and idle connections have time
//! limits, and a connection that opens streams only to cancel them is closed.

mod activity;
mod listen;
mod places;

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_LENGTH;
use http::{Method, Request, Response};
use http_body::Body as _;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{debug, warn};

use crate::answer::{Answer, Body};
use crate::audit::Peer;
use crate::authenticate::bearer_token;
use crate::identity::tls::Holder;
use crate::server::Server;
use crate::status::Error;
use activity::Activity;
pub use listen::Listen;
pub use places::Source;
use places::{Place, Places};

/// Connections at once; the next one waits for a place.
pub const CONNECTIONS_MAX: usize = 4_096;
/// Connections of one source at once.
pub const PER_SOURCE_MAX: usize = CONNECTIONS_MAX / 2;
/// Connections of this host that are served when all other places are taken.
pub const LOCAL_RESERVE: usize = 64;
/// Time for which a connection waits for a place.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// File descriptors that connections leave to the store and to pods.
const DESCRIPTORS_RESERVED: usize = 512;
/// Streams of one HTTP/2 connection; clients open hundreds of watches on one.
pub const STREAMS_MAX: u32 = 250;
/// How long a handshake may take.
pub const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// How long a client may take to send the head of its first request.
pub const HEAD_MAX: Duration = Duration::from_secs(10);
/// The same for later ones, with HTTP/1 from the answer before: how long a connection may rest. It
/// must be longer than people wait who ask again and again, or some ask just as it is closed.
pub const REST_MAX: Duration = Duration::from_secs(90);
/// The largest head of a request.
pub const HEAD_BYTES_MAX: u32 = 32 << 10;
/// How long a connection may be open without a request.
pub const IDLE_MAX: Duration = Duration::from_secs(600);
/// How many requests of a connection a client may give up within a minute.
pub const CANCELLED_PER_MINUTE_MAX: usize = 1_000;
/// Streams that are reset before anybody has seen them, and answers to broken ones.
const RESET_STREAMS_MAX: usize = 100;
/// What of a body may be on its way before it is read, of a stream and of a connection.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;
/// What of an answer waits to be written; a watch that is read slowly is held here.
const SEND_BUFFER_BYTES: usize = 256 << 10;
/// How often a silent HTTP/2 client is asked whether it is there, and how long it may think.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_MAX: Duration = Duration::from_secs(20);
/// How long open requests may take when the server stops.
const DRAIN_MAX: Duration = Duration::from_secs(5);
/// How long to wait when the system has no more descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The bounds of a listener that its owner may choose.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub connections_max: usize,
    pub per_source_max: usize,
    pub local_reserve: usize,
    pub wait_max: Duration,
    pub handshake_max: Duration,
    pub head_max: Duration,
    pub rest_max: Duration,
    pub idle_max: Duration,
    pub cancelled_per_minute_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections_max: CONNECTIONS_MAX,
            per_source_max: PER_SOURCE_MAX,
            local_reserve: LOCAL_RESERVE,
            wait_max: WAIT_MAX,
            handshake_max: HANDSHAKE_MAX,
            head_max: HEAD_MAX,
            rest_max: REST_MAX,
            idle_max: IDLE_MAX,
            cancelled_per_minute_max: CANCELLED_PER_MINUTE_MAX,
        }
    }
}

impl Limits {
    /// Returns the limits that fit the file descriptors of this process.
    pub fn for_process() -> Limits {
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
        let Some(descriptors) = descriptors_max(&limits) else { return Limits::default() };
        let free = descriptors.saturating_sub(DESCRIPTORS_RESERVED).max(descriptors / 2);
        let connections_max = free.min(CONNECTIONS_MAX);
        Limits { connections_max, per_source_max: connections_max / 2, ..Limits::default() }
    }
}

/// Returns the soft limit of open files from the text of `/proc/self/limits`.
fn descriptors_max(limits: &str) -> Option<usize> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Serves the API over TLS until the server is told to stop.
pub async fn serve(server: Arc<Server>, listener: TcpListener, config: Arc<ServerConfig>) {
    serve_within(server, listener, config, Limits::for_process()).await;
}

pub async fn serve_within(
    server: Arc<Server>,
    listener: TcpListener,
    config: Arc<ServerConfig>,
    limits: Limits,
) {
    let acceptor = TlsAcceptor::from(config);
    let stop = server.stop.clone();
    let connect = move |stream: TcpStream| {
        let (server, acceptor) = (server.clone(), acceptor.clone());
        async move {
            let _ = stream.set_nodelay(true);
            let peer = stream.peer_addr().ok().map(|address| Peer(address.ip()));
            let stream = shake_hands(acceptor, stream, limits.handshake_max).await?;
            let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
            // Read once for the connection, not for each of its requests.
            let holder = certificate.and_then(|one| Holder::of_certificate(one));
            let answer = move |mut request: Request<Incoming>| {
                if let Some(peer) = peer {
                    request.extensions_mut().insert(peer);
                }
                let user = holder.as_ref().map(|holder| match server.keys.is_revoked(holder) {
                    true => None,
                    false => holder.user(server.now()),
                });
                let server = server.clone();
                async move {
                    match user {
                        // A certificate that no longer holds is not believed; a token may be.
                        Some(None) if bearer_token(request.headers()).is_none() => {
                            Answer::failure(&Error::unauthorized()).into_response()
                        }
                        user => server.handle(request, user.flatten()).await,
                    }
                }
            };
            Some((stream, answer))
        }
    };
    accept(listener, stop, limits, connect).await;
}

/// Serves something on a socket of this machine, until told to stop.
pub async fn serve_plain<L, A, F>(
    listener: L,
    stop: watch::Receiver<bool>,
    limits: Limits,
    answer: A,
) where
    L: Listen,
    A: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    accept(listener, stop, limits, move |stream| {
        let answer = answer.clone();
        async move { Some((stream, answer)) }
    })
    .await;
}

/// Serves something over TLS to whoever comes, until told to stop.
pub async fn serve_secure<A, F>(
    listener: TcpListener,
    stop: watch::Receiver<bool>,
    (config, limits): (Arc<ServerConfig>, Limits),
    answer: A,
) where
    A: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let acceptor = TlsAcceptor::from(config);
    accept(listener, stop, limits, move |stream: TcpStream| {
        let (answer, acceptor) = (answer.clone(), acceptor.clone());
        async move {
            let _ = stream.set_nodelay(true);
            let stream = shake_hands(acceptor, stream, limits.handshake_max).await?;
            Some((stream, answer))
        }
    })
    .await;
}

/// Takes connections until told to stop, then lets what is under way finish.
async fn accept<L, C, O, I, A, F>(
    listener: L,
    stop: watch::Receiver<bool>,
    limits: Limits,
    connect: C,
) where
    L: Listen,
    C: Fn(L::Stream) -> O,
    O: Future<Output = Option<(I, A)>> + Send + 'static,
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    A: Fn(Request<Incoming>) -> F + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let places = Places::new(limits);
    let mut connections = JoinSet::new();
    let mut stopping = stop.clone();
    loop {
        let (stream, source) = tokio::select! {
            () = stopped(&mut stopping) => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    warn!(%error, "could not accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
        };
        let Some(mut place) = places.enter(source) else {
            debug!(?source, "closed a connection: its source has too many");
            continue;
        };
        let opened = connect(stream);
        let mut stop = stop.clone();
        connections.spawn(async move {
            let has_place = tokio::select! {
                has_place = place.take() => has_place,
                () = stopped(&mut stop) => false,
            };
            if !has_place {
                return;
            }
            let opened = tokio::select! {
                opened = opened => opened,
                () = place.evicted() => None,
                () = stopped(&mut stop) => None,
            };
            if let Some((stream, answer)) = opened {
                serve_connection(stream, answer, place, (stop, limits)).await;
            }
        });
    }
    drop(listener);
    // Watches end by themselves when the server stops; whatever is left is cut off.
    let drain = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(DRAIN_MAX, drain).await;
}

async fn shake_hands(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    limit: Duration,
) -> Option<TlsStream<TcpStream>> {
    match tokio::time::timeout(limit, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => return Some(stream),
        Ok(Err(error)) => debug!(%error, "a handshake failed"),
        Err(_) => debug!("a handshake took too long"),
    }
    None
}

async fn serve_connection<I, A, F>(
    stream: I,
    answer: A,
    place: Place,
    (mut stop, limits): (watch::Receiver<bool>, Limits),
) where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    A: Fn(Request<Incoming>) -> F,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let activity = Arc::new(Activity::new(limits));
    let service = service_fn(|request| {
        let open = activity.open();
        place.speak();
        let is_head = request.method() == Method::HEAD;
        let answer = answer(request);
        async move {
            let response = answer.await;
            let response = if is_head { without_body(response) } else { response };
            Ok::<_, Infallible>(open.until_sent(response))
        }
    });
    let builder = builder(limits);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = activity.is_abused() => return debug!("a connection cancelled too many requests"),
        // What it has sent of its first request is not waited for.
        () = activity.is_silent() => return debug!("a connection asked for nothing"),
        () = place.evicted() => return debug!("closed a silent connection for a newer one"),
        () = activity.is_idle() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        () = stopped(&mut stop) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        debug!(%error, "a connection ended early");
    }
}

/// Returns the answer to a HEAD request: the headers of a GET, with the length of its body.
fn without_body(response: Response<Body>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    if let Some(length) = body.size_hint().exact() {
        parts.headers.entry(CONTENT_LENGTH).or_insert_with(|| length.into());
    }
    Response::from_parts(parts, Empty::new().boxed_unsync())
}

/// Returns when it is time to stop; whoever could say so being gone means the same.
pub async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

fn builder(limits: Limits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.rest_max)
        .max_buf_size(HEAD_BYTES_MAX as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX)
        .max_pending_accept_reset_streams(RESET_STREAMS_MAX)
        .max_local_error_reset_streams(RESET_STREAMS_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_MAX);
    builder
}
