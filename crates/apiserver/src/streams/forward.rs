//! Connections to the ports of a pod, each through a stream of the client's.
//!
//! Over SPDY a connection is a pair of streams with one request ID: `data`, and `error` for why it
//! failed. Over the channels of a WebSocket the ports are named in the URL, and there is one
//! connection for each, on the channels 2n and 2n+1.
//!
//! Upstream: staging/src/k8s.io/kubelet/pkg/cri/streaming/portforward

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;
use link::{DialRequest, Node};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::channels::{self, Inputs};
use super::handshake::Channels;
use super::wire::{Form, Frames, Sink, Source, source};
use super::{CREATION_MAX, PIECE_BYTES_MAX, spdy};

/// Streams that wait to be looked at.
const OPENED_MAX: usize = 64;
/// Streams whose partner has not come.
const ALONE_MAX: usize = 1_024;
/// Ports of one connection, as many as there are channels for.
pub const PORTS_MAX: usize = 100;

/// Whose ports.
#[derive(Clone, Debug)]
pub struct Target {
    /// The pod's UID, name and address.
    pub pod: String,
    pub name: String,
    pub address: String,
    /// Only named for channels.
    pub ports: Vec<u16>,
}

/// A stream whose partner has not come.
struct Alone {
    stream: spdy::Stream,
    since: Instant,
}

pub async fn over_spdy<S>(socket: S, node: Arc<dyn Node>, target: Target)
where
    S: AsyncRead + AsyncWrite + Send + Unpin,
{
    let (from_client, to_client) = tokio::io::split(socket);
    let (frames, writing) = Frames::new(to_client);
    let (opened, waiting) = mpsc::channel(OPENED_MAX);
    let talking = async {
        tokio::select! {
            () = spdy::read(from_client, &frames, opened) => {}
            () = pair_up(waiting, &node, &target) => {}
        }
        let _ = frames.send(spdy::frame::go_away(0, 0)).await;
        frames.end().await;
    };
    tokio::join!(talking, writing);
}

/// Brings the two streams of each connection together.
async fn pair_up(mut opened: mpsc::Receiver<spdy::Stream>, node: &Arc<dyn Node>, target: &Target) {
    // Dropped with the connection, and every connection to a port with it.
    let mut connections = JoinSet::new();
    let mut alone: BTreeMap<String, Alone> = BTreeMap::new();
    loop {
        let oldest = alone.values().map(|one| one.since).min();
        let overdue = async {
            match oldest {
                Some(since) => tokio::time::sleep_until(since + CREATION_MAX).await,
                None => std::future::pending().await,
            }
        };
        let stream = tokio::select! {
            stream = opened.recv() => stream,
            Some(_) = connections.join_next() => continue,
            () = overdue => {
                alone.retain(|_, one| one.since.elapsed() < CREATION_MAX);
                continue;
            }
        };
        let Some(stream) = stream else { return };
        let id = request_id(&stream);
        let Some(Alone { stream: first, .. }) = alone.remove(&id) else {
            if alone.len() < ALONE_MAX {
                alone.insert(id, Alone { stream, since: Instant::now() });
            }
            continue;
        };
        let is_data =
            |one: &spdy::Stream| one.headers.get("streamtype").is_some_and(|it| it == "data");
        let (data, error) = match (is_data(&first), is_data(&stream)) {
            (true, false) => (first, stream),
            (false, true) => (stream, first),
            // Two of a kind belong to nobody.
            _ => continue,
        };
        let (node, target) = (node.clone(), target.clone());
        connections.spawn(async move {
            let port = data.headers.get("port").and_then(|port| port.parse().ok());
            let connection = Connection {
                port: port.unwrap_or(0),
                source: data.source,
                data: data.sink,
                error: error.sink,
                reset: Some(data.reset),
            };
            connect(&node, &target, connection).await;
        });
    }
}

/// Clients that name no request open `error` and then at once `data`.
fn request_id(stream: &spdy::Stream) -> String {
    let kind = stream.headers.get("streamtype").map(String::as_str);
    match (stream.headers.get("requestid"), kind) {
        (Some(id), _) => id.clone(),
        (None, Some("data")) => format!("-{}", stream.id.saturating_sub(2)),
        (None, _) => format!("-{}", stream.id),
    }
}

pub async fn over_channels<S>(socket: S, node: Arc<dyn Node>, target: Target, channels: Channels)
where
    S: AsyncRead + AsyncWrite + Send + Unpin,
{
    let (from_client, to_client) = tokio::io::split(socket);
    let (frames, writing) = Frames::new(to_client);
    let sink = |number| Sink { frames: frames.clone(), form: Form::Channel { number, channels } };
    let mut inputs = Inputs::new();
    let mut connections = Vec::new();
    for (index, port) in (0_u8..).zip(target.ports.iter().take(PORTS_MAX)) {
        let (sender, source) = source();
        inputs.insert(2 * index, sender);
        let (data, error) = (sink(2 * index), sink(2 * index + 1));
        connections.push(Connection { port: *port, source, data, error, reset: None });
    }
    let running = async {
        for connection in &connections {
            let port = connection.port.to_le_bytes();
            let _ = connection.data.send(&port).await;
            let _ = connection.error.send(&port).await;
        }
        join_all(connections.into_iter().map(|one| connect(&node, &target, one))).await;
    };
    let reading = channels::read(from_client, &frames, channels, inputs);
    channels::serve(&frames, running, (reading, writing)).await;
}

/// A connection that a client asks for.
struct Connection {
    port: u16,
    source: Source,
    data: Sink,
    error: Sink,
    /// `None` for channels.
    reset: Option<watch::Receiver<bool>>,
}

async fn connect(node: &Arc<dyn Node>, target: &Target, connection: Connection) {
    let Connection { port, mut source, data, error, reset } = connection;
    let request = DialRequest { pod: target.pod.clone(), address: target.address.clone(), port };
    match node.dial(request).await {
        Ok(dialled) => {
            let (mut from_pod, mut to_pod) = tokio::io::split(dialled);
            let inwards = async {
                while let Some(bytes) = source.recv().await {
                    if to_pod.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
                let _ = to_pod.shutdown().await;
            };
            let outwards = async {
                let mut piece = vec![0; PIECE_BYTES_MAX];
                while let Ok(count @ 1..) = from_pod.read(&mut piece).await {
                    if data.send(&piece[..count]).await.is_err() {
                        return;
                    }
                }
                data.finish().await;
            };
            let Some(reset) = reset else {
                // A channel has no word for its end: with the pod's last one all is said.
                let mut outwards = std::pin::pin!(outwards);
                tokio::select! {
                    () = outwards.as_mut() => {}
                    () = inwards => outwards.await,
                }
                return;
            };
            // Either side may have said everything while the other goes on.
            let both = async { tokio::join!(inwards, outwards) };
            tokio::select! {
                _ = both => {}
                () = is_reset(reset) => {}
            }
        }
        Err(why) => {
            let name = &target.name;
            let text =
                format!("error forwarding port {port} to pod {name}, uid {}: {why}", target.pod);
            let _ = error.send(text.as_bytes()).await;
            data.finish().await;
        }
    }
    error.finish().await;
}

async fn is_reset(mut reset: watch::Receiver<bool>) {
    if reset.wait_for(|is_reset| *is_reset).await.is_err() {
        // The connection is gone, and with it whoever polls this.
        std::future::pending::<()>().await;
    }
}
