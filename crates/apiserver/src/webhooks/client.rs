//! One question, one answer, over HTTPS.
//!
//! A connection is driven by whoever uses it and rests when nobody does, so that nothing runs in
//! the background. Redirects are not followed, and an answer has a largest size.
//!
//! Upstream: apiserver/pkg/util/webhook/client.go

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::target::Target;
use super::within::{self, Within};
use super::{addresses, trust};
use crate::decode::json;
use crate::server::Server;

/// The largest answer that is read.
pub const ANSWER_BYTES_MAX: usize = 16 << 20;
/// How long one address may take to answer the telephone before the next is tried.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Connections that rest, for each target.
const IDLE_MAX: usize = 8;
/// Targets with connections that rest.
const TARGETS_MAX: usize = 256;
/// How long a connection may rest.
const IDLE_AGE_MAX: Duration = Duration::from_secs(60);
/// How much of an answer that is not understood an error shows.
const SHOWN_CHARACTERS_MAX: usize = 256;

/// Connections that may be used again.
#[derive(Default)]
pub struct Client {
    idle: Mutex<BTreeMap<Peer, Vec<Idle>>>,
    /// Parts of this program that answer themselves.
    pub within: Within,
}

/// What must be the same for a connection to be used again.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Peer {
    address: SocketAddr,
    host: String,
    bundle: Arc<[u8]>,
}

struct Idle {
    open: Open,
    since: Instant,
}

type Driven = Connection<TokioIo<TlsStream<TcpStream>>, Full<Bytes>>;

struct Open {
    sender: SendRequest<Full<Bytes>>,
    connection: Pin<Box<Driven>>,
    is_over: bool,
}

/// Why an exchange over an open connection gave nothing.
enum Failure {
    /// The other end had hung up before it read anything.
    HungUp(String),
    Broken(String),
}

impl Client {
    /// Sends JSON and reads JSON. Errors: what follows `failed to call webhook: `.
    pub async fn post(
        &self,
        server: &Server,
        target: &Target,
        body: &Value,
        timeout_seconds: u64,
    ) -> Result<Value, String> {
        let failed = |why: String| format!("Post {:?}: {why}", target.url(timeout_seconds));
        let limit = Duration::from_secs(timeout_seconds);
        if let Some(part) = self.within.find(target) {
            let answer = tokio::time::timeout(limit, within::ask(&*part, &target.path, body)).await;
            let answer = answer.map_err(|_| failed("context deadline exceeded".to_owned()))?;
            return answer.ok_or_else(|| "the server could not find the requested resource".into());
        }
        let body = Bytes::from(body.to_string());
        let exchange = self.exchange(server, target, body, timeout_seconds);
        let (code, answer) = match tokio::time::timeout(limit, exchange).await {
            Ok(answer) => answer.map_err(failed)?,
            Err(_) => return Err(failed("context deadline exceeded".to_owned())),
        };
        read(code, &answer)
    }

    async fn exchange(
        &self,
        server: &Server,
        target: &Target,
        body: Bytes,
        timeout_seconds: u64,
    ) -> Result<(StatusCode, Bytes), String> {
        let request = || {
            Request::post(target.path_and_query(timeout_seconds))
                .header(HOST, target.place.to_string())
                .header(USER_AGENT, "setpoint")
                .header(ACCEPT, "application/json, */*")
                .header(CONTENT_TYPE, "application/json")
                .body(Full::new(body.clone()))
                .map_err(|error| error.to_string())
        };
        let addresses = addresses::resolve(server, target).await?;
        let host = target.place.host();
        let peer = |address| Peer { address, host: host.clone(), bundle: target.bundle.clone() };
        for address in &addresses {
            let peer = peer(*address);
            while let Some(mut open) = self.take(&peer) {
                match open.exchange(request()?).await {
                    Ok(answer) => {
                        self.keep(peer, open).await;
                        return Ok(answer);
                    }
                    // It rested for too long; another one is asked.
                    Err(Failure::HungUp(_)) => {}
                    Err(Failure::Broken(why)) => return Err(why),
                }
            }
        }
        let (address, mut open) = connect(target, &addresses).await?;
        match open.exchange(request()?).await {
            Ok(answer) => {
                self.keep(peer(address), open).await;
                Ok(answer)
            }
            Err(Failure::HungUp(why) | Failure::Broken(why)) => Err(why),
        }
    }

    fn take(&self, peer: &Peer) -> Option<Open> {
        let mut all = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let resting = all.get_mut(peer)?;
        while let Some(Idle { mut open, since }) = resting.pop() {
            // One look tells whether the other end has hung up.
            let is_over = (&mut open.connection).now_or_never().is_some();
            if !is_over && since.elapsed() < IDLE_AGE_MAX {
                return Some(open);
            }
        }
        all.remove(peer);
        None
    }

    async fn keep(&self, peer: Peer, mut open: Open) {
        if !open.rests().await {
            return;
        }
        let mut all = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.contains_key(&peer) && all.len() >= TARGETS_MAX {
            all.clear();
        }
        let resting = all.entry(peer).or_default();
        if resting.len() < IDLE_MAX {
            resting.push(Idle { open, since: Instant::now() });
        }
    }
}

impl Open {
    /// Sends a request and reads its answer, while the connection is driven.
    async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<(StatusCode, Bytes), Failure> {
        let Open { sender, connection, is_over } = self;
        let answer = async {
            let response = sender.send_request(request).await.map_err(|error| {
                let text = error_text(&error);
                match error.is_canceled() || error.is_closed() || error.is_incomplete_message() {
                    true => Failure::HungUp(text),
                    false => Failure::Broken(text),
                }
            })?;
            let code = response.status();
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|error| {
                let is_long = error.is::<http_body_util::LengthLimitError>();
                Failure::Broken(match is_long {
                    true => format!("the answer is larger than {ANSWER_BYTES_MAX} bytes"),
                    false => error.to_string(),
                })
            })?;
            Ok((code, body.to_bytes()))
        };
        tokio::pin!(answer);
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => return answer,
                _ = &mut *connection, if !*is_over => *is_over = true,
            }
        }
    }

    /// Whether another request may follow, once the connection has had time to see so.
    async fn rests(&mut self) -> bool {
        if self.is_over {
            return false;
        }
        let Open { sender, connection, .. } = self;
        tokio::select! {
            biased;
            ready = sender.ready() => ready.is_ok(),
            _ = connection => false,
        }
    }
}

fn error_text(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => source.to_string(),
        None if error.is_incomplete_message() => "EOF".to_owned(),
        None => error.to_string(),
    }
}

/// Connects to the first address that answers.
async fn connect(target: &Target, addresses: &[SocketAddr]) -> Result<(SocketAddr, Open), String> {
    let mut why = String::new();
    for address in addresses {
        let stream = match tokio::time::timeout(CONNECT_MAX, link::dial::connect(*address)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                why = format!("dial tcp {address}: connect: {}", refusal(&error));
                continue;
            }
            Err(_) => {
                why = format!("dial tcp {address}: i/o timeout");
                continue;
            }
        };
        return Ok((*address, secure(target, stream).await?));
    }
    Err(why)
}

async fn secure(target: &Target, stream: TcpStream) -> Result<Open, String> {
    // A question is one small write; waiting for more of it only costs time.
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let host = target.place.host();
    let name = ServerName::try_from(host.clone());
    let name = name.map_err(|_| format!("{host:?} is not the name of a host"))?;
    let stream = TlsConnector::from(target.tls.clone()).connect(name, stream).await;
    let stream = stream.map_err(|error| {
        let source = error.get_ref().and_then(|source| source.downcast_ref::<rustls::Error>());
        source.map_or_else(|| error.to_string(), trust::why)
    })?;
    let (sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    Ok(Open { sender, connection: Box::pin(connection), is_over: false })
}

fn refusal(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::NetworkUnreachable => "network is unreachable".to_owned(),
        io::ErrorKind::HostUnreachable => "no route to host".to_owned(),
        _ => error.to_string(),
    }
}

/// What an answer says.
fn read(code: StatusCode, answer: &Bytes) -> Result<Value, String> {
    if code.is_success() {
        let parsed = json::parse(answer)
            .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"));
        return Ok(parsed?.value);
    }
    if code.is_redirection() {
        return Err(format!("the webhook answered {code}, and redirects are not followed"));
    }
    let said = json::parse(answer).ok().map(|parsed| parsed.value).unwrap_or_default();
    if let ("Status", Some(message)) =
        (said["kind"].as_str().unwrap_or_default(), said["message"].as_str())
    {
        return Err(shown(message));
    }
    let text = String::from_utf8_lossy(answer);
    let text = if text.trim().is_empty() { "unknown".to_owned() } else { shown(text.trim()) };
    Err(match code.as_u16() {
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        403 => text,
        404 => "the server could not find the requested resource".to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        500 => {
            format!("an error on the server ({text:?}) has prevented the request from succeeding")
        }
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => "the server was unable to return a response in the time allotted, but may still \
                be processing the request"
            .to_owned(),
        code => format!(
            "the server responded with the status code {code} but did not return more information"
        ),
    })
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARACTERS_MAX).collect()
}
