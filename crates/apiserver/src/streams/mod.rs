//! Requests that leave HTTP: a program's streams (`exec`, `attach`) and the ports of a pod.
//!
//! ```text
//! handshake.rs   which protocol the client speaks, and the answer that begins it
//! websocket.rs   frames of WebSockets          spdy/       frames and streams of SPDY/3.1
//! channels.rs    streams by their first byte    tunnel.rs   SPDY inside a WebSocket
//! command.rs     a program and its streams      forward.rs  connections to ports
//! wire.rs        what both kinds of frames have in common: a queue of frames, streams in it
//! ```
//!
//! Nothing here knows what a node is made of: it asks `link::Node`. All queues are short, so
//! that whoever is slow makes the other side wait; a client that goes away takes its program along.
//!
//! Upstream: staging/src/k8s.io/streaming/pkg/httpstream, staging/src/k8s.io/cri-streaming

mod channels;
mod command;
mod forward;
pub mod handshake;
mod spdy;
mod tunnel;
pub mod websocket;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use link::{Duplex, Node, ProgramRequest};
use tracing::debug;

use crate::answer::Answer;
use crate::endpoints::Request;
use crate::identity::User;
use crate::server::Server;
use crate::status::Error;
use handshake::{Protocol, Upgrade};

/// How long a client may take to open the streams it asked for.
const CREATION_MAX: Duration = Duration::from_secs(30);
/// How long a connection may be without a byte in either direction.
const IDLE_MAX: Duration = Duration::from_secs(4 * 60 * 60);
/// How long a client may take to hang up when all was said.
const FAREWELL_MAX: Duration = Duration::from_secs(5);
/// The largest piece of a stream that is handed on at once.
const PIECE_BYTES_MAX: usize = 32 << 10;
/// Pieces of a stream that wait to be taken.
const PIECES_MAX: usize = 8;

/// What is done with the connection.
pub enum Deed {
    /// Runs a program, or joins the one of a container.
    Program(ProgramRequest),
    Forward(forward::Target),
}

pub use forward::{PORTS_MAX, Target};

/// Answers with a change of protocol, and does the deed on the connection that is left.
#[expect(clippy::disallowed_methods, reason = "it ends with its connection and with the server")]
pub fn answer(
    server: &Arc<Server>,
    request: &Request,
    (node, deed): (Arc<dyn Node>, Deed),
) -> Result<Answer, Error> {
    let upgrade = request.upgrade.as_ref();
    let upgrade = upgrade.ok_or_else(|| Error::bad_request("Upgrade request required"))?;
    let (protocol, answer) = match &deed {
        Deed::Program(_) => handshake::choose(upgrade, &handshake::FOR_PROGRAMS)?,
        Deed::Forward(_) => handshake::choose(upgrade, &handshake::FOR_PORTS)?,
    };
    let place = server.traffic.streams.enter(&request.user)?;
    let (server, upgrade) = (server.clone(), upgrade.clone());
    tokio::spawn(async move {
        let _place = place;
        tokio::select! {
            () = serve(upgrade, node, deed, protocol) => {}
            () = server.stopping() => {}
        }
    });
    Ok(answer)
}

/// Answers with a change of protocol, and joins the client with a connection.
#[expect(clippy::disallowed_methods, reason = "it ends with its connection and with the server")]
pub fn join(
    server: &Arc<Server>,
    user: &User,
    upgrade: Option<Upgrade>,
    mut connection: Box<dyn Duplex>,
) -> Result<Answer, Error> {
    let upgrade = upgrade.ok_or_else(|| Error::bad_request("Upgrade request required"))?;
    let (protocol, answer) = handshake::choose(&upgrade, &handshake::FOR_CONNECTIONS)?;
    let place = server.traffic.streams.enter(user)?;
    let server = server.clone();
    tokio::spawn(async move {
        let _place = place;
        let joined = async {
            let mut socket = match upgrade.connection.await {
                Ok(upgraded) => TokioIo::new(upgraded),
                Err(error) => return debug!(%error, "a connection did not change its protocol"),
            };
            if protocol == Protocol::Raw {
                let _ = tokio::io::copy_bidirectional(&mut socket, &mut connection).await;
                return;
            }
            let (mut inside, carrying) = tunnel::open(socket);
            let copying = async {
                let _ = tokio::io::copy_bidirectional(&mut inside, &mut connection).await;
                drop(inside);
            };
            tokio::join!(copying, carrying);
        };
        tokio::select! {
            () = joined => {}
            () = server.stopping() => {}
        }
    });
    Ok(answer)
}

async fn serve(upgrade: Upgrade, node: Arc<dyn Node>, deed: Deed, protocol: Protocol) {
    let socket = match upgrade.connection.await {
        Ok(upgraded) => TokioIo::new(upgraded),
        Err(error) => return debug!(%error, "a connection did not change its protocol"),
    };
    match (deed, protocol) {
        (Deed::Program(request), Protocol::Spdy(version)) => {
            command::over_spdy(socket, node, request, version).await;
        }
        (Deed::Program(request), Protocol::Channels(channels)) => {
            command::over_channels(socket, node, request, channels).await;
        }
        (Deed::Forward(target), Protocol::Spdy(_)) => {
            forward::over_spdy(socket, node, target).await;
        }
        (Deed::Forward(target), Protocol::Tunnel) => {
            let (inside, carrying) = tunnel::open(socket);
            tokio::join!(forward::over_spdy(inside, node, target), carrying);
        }
        (Deed::Forward(target), Protocol::Channels(channels)) => {
            forward::over_channels(socket, node, target, channels).await;
        }
        (Deed::Program(_), Protocol::Tunnel) | (_, Protocol::Raw) => {}
    }
}
