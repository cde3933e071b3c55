//! HTTP over the socket of an engine: each request has a connection of its own, which costs next to
//! nothing on a socket of the machine and lets one stream never hold up another.
//!
//! Paths have no version: an engine then speaks its newest, and the few fields that are used here
//! mean the same in all of them.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::sync::mpsc;

use super::tasks;
use crate::image::Archive;
use crate::runtime::START_MAX;

/// The longest answer that is no stream.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// How much of a file is sent at once, and how many such pieces wait.
const PIECE_BYTES: usize = 256 << 10;
const PIECES_MAX: usize = 4;

type Body = UnsyncBoxBody<Bytes, io::Error>;

/// An engine, by its socket.
#[derive(Clone, Debug)]
pub struct Client {
    pub socket: PathBuf,
}

/// Why an engine did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// What it answered; `None` if it did not.
    pub status: Option<u16>,
    pub message: String,
}

impl Error {
    fn silent(error: impl std::fmt::Display) -> Error {
        Error { status: None, message: format!("the engine does not answer: {error}") }
    }

    pub fn is_missing(&self) -> bool {
        self.status == Some(404)
    }

    /// Somebody else has the name. Podman tells it in words only.
    pub fn is_taken(&self) -> bool {
        self.status == Some(409) || self.message.contains("already in use")
    }
}

impl Client {
    pub async fn get(&self, path: &str) -> Result<Value, Error> {
        self.call(Method::GET, path, empty(), &[]).await
    }

    pub async fn post(&self, path: &str, body: Option<&Value>) -> Result<Value, Error> {
        let body = body.map_or_else(empty, |body| full(body.to_string().into()));
        self.call(Method::POST, path, body, &[]).await
    }

    pub async fn delete(&self, path: &str) -> Result<(), Error> {
        self.call(Method::DELETE, path, empty(), &[]).await.map(drop)
    }

    /// Sends bytes as they are.
    pub async fn send(&self, path: &str, bytes: Vec<u8>) -> Result<Incoming, Error> {
        let request = self.send_one(Method::POST, path, full(bytes.into()), &[]);
        accept(limit(request).await?).await
    }

    /// Sends a file.
    pub async fn send_file(&self, path: &str, file: &Path) -> Result<Incoming, Error> {
        let body = pieces(file).map_err(|error| Error {
            status: None,
            message: format!("could not read {}: {error}", file.display()),
        })?;
        accept(self.send_one(Method::POST, path, body, &[]).await?).await
    }

    /// An answer that goes on. The limit is for its beginning.
    pub async fn stream(
        &self,
        (method, path): (Method, &str),
        headers: &[(&str, String)],
    ) -> Result<Incoming, Error> {
        let sent = self.send_one(method, path, empty(), headers);
        accept(limit(sent).await?).await
    }

    /// A connection in both directions.
    pub async fn upgrade(&self, path: &str, body: Option<&Value>) -> Result<Upgraded, Error> {
        let body = body.map_or_else(empty, |body| full(body.to_string().into()));
        let headers = [("connection", "Upgrade".to_owned()), ("upgrade", "tcp".to_owned())];
        let answer = limit(self.send_one(Method::POST, path, body, &headers)).await?;
        match answer.status() {
            StatusCode::SWITCHING_PROTOCOLS | StatusCode::OK => {
                hyper::upgrade::on(answer).await.map_err(Error::silent)
            }
            _ => Err(refused(answer).await),
        }
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        body: Body,
        headers: &[(&str, String)],
    ) -> Result<Value, Error> {
        let called = async {
            let answer = accept(self.send_one(method, path, body, headers).await?).await?;
            let body = Limited::new(answer, ANSWER_BYTES_MAX).collect().await;
            Ok(body.map_err(Error::silent)?.to_bytes())
        };
        let bytes = limit(called).await?;
        Ok(serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    async fn send_one(
        &self,
        method: Method,
        path: &str,
        body: Body,
        headers: &[(&str, String)],
    ) -> Result<Response<Incoming>, Error> {
        let stream = UnixStream::connect(&self.socket).await.map_err(|error| Error {
            status: None,
            message: format!("could not connect to {}: {error}", self.socket.display()),
        })?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(Error::silent)?;
        // It ends with what it carries.
        tasks::spawn(connection.with_upgrades());
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "engine")
            .header(header::CONTENT_TYPE, "application/json");
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let request = request.body(body).map_err(Error::silent)?;
        sender.send_request(request).await.map_err(Error::silent)
    }
}

async fn limit<T>(call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let silent = |limit: Duration| Error {
        status: None,
        message: format!("the engine did not answer within {} s", limit.as_secs()),
    };
    tokio::time::timeout(START_MAX, call).await.unwrap_or_else(|_| Err(silent(START_MAX)))
}

async fn accept(answer: Response<Incoming>) -> Result<Incoming, Error> {
    // That it is so already is as good.
    match answer.status().is_success() || answer.status() == StatusCode::NOT_MODIFIED {
        true => Ok(answer.into_body()),
        false => Err(refused(answer).await),
    }
}

async fn refused(answer: Response<Incoming>) -> Error {
    let status = Some(answer.status().as_u16());
    let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
    let text = body.map(|body| body.to_bytes()).unwrap_or_default();
    let value: Value = serde_json::from_slice(&text).unwrap_or(Value::Null);
    let message = value["message"].as_str().map(str::to_owned);
    let message = message.unwrap_or_else(|| String::from_utf8_lossy(&text).trim().to_owned());
    Error { status, message }
}

fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// A file, read by a thread of its own.
fn pieces(path: &Path) -> io::Result<Body> {
    let mut file = Archive::open(path)?;
    let (give, take) = mpsc::channel::<io::Result<Bytes>>(PIECES_MAX);
    std::thread::Builder::new().name("archive".to_owned()).spawn(move || {
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let read = match file.read(&mut piece) {
                Ok(0) => return,
                Ok(count) => Ok(Bytes::copy_from_slice(&piece[..count])),
                Err(error) => Err(error),
            };
            let is_last = read.is_err();
            if give.blocking_send(read).is_err() || is_last {
                return;
            }
        }
    })?;
    let stream = futures::stream::unfold(take, |mut take| async move {
        let piece = take.recv().await?;
        Some((piece.map(Frame::data), take))
    });
    Ok(BodyExt::boxed_unsync(StreamBody::new(stream)))
}

/// A text as a part of a query.
pub fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}
