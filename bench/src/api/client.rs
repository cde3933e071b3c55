//! One connection: raw HTTP over TLS, so that the driver costs little beside the server.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::target::Target;

/// Flow control must not be what is measured.
const WINDOW_BYTES: u32 = 16 << 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Http {
    One,
    Two,
}

pub struct Connection {
    sender: Sender,
    _driver: Arc<JoinSet<()>>,
}

enum Sender {
    One(http1::SendRequest<Full<Bytes>>),
    Two(http2::SendRequest<Full<Bytes>>),
}

pub struct Answer {
    pub status: u16,
    pub body: Bytes,
}

impl Connection {
    pub async fn open(target: &Target, http: Http) -> Result<Connection> {
        let stream = TcpStream::connect(&target.authority)
            .await
            .with_context(|| format!("could not connect to {}", target.authority))?;
        stream.set_nodelay(true)?;
        let host = target.authority.rsplit_once(':').map_or(&*target.authority, |(host, _)| host);
        let name = ServerName::try_from(host.to_owned())?;
        let tls = target.tls[(http == Http::Two) as usize].clone();
        let stream = tokio_rustls::TlsConnector::from(tls).connect(name, stream).await?;
        let stream = TokioIo::new(stream);
        let mut driver = JoinSet::new();
        let sender = match http {
            Http::One => {
                let (sender, connection) = http1::handshake(stream).await?;
                driver.spawn(async move {
                    let _ = connection.await;
                });
                Sender::One(sender)
            }
            Http::Two => {
                let mut builder = http2::Builder::new(TokioExecutor::new());
                builder.initial_stream_window_size(WINDOW_BYTES);
                builder.initial_connection_window_size(WINDOW_BYTES);
                let (sender, connection) = builder.handshake(stream).await?;
                driver.spawn(async move {
                    let _ = connection.await;
                });
                Sender::Two(sender)
            }
        };
        Ok(Connection { sender, _driver: Arc::new(driver) })
    }

    /// Another user of the same connection, which HTTP/2 allows.
    pub fn share(&self) -> Result<Connection> {
        match &self.sender {
            Sender::One(_) => Err(anyhow!("HTTP/1.1 cannot share a connection")),
            Sender::Two(sender) => {
                let sender = Sender::Two(sender.clone());
                Ok(Connection { sender, _driver: self._driver.clone() })
            }
        }
    }

    /// Sends a request and reads the whole answer.
    pub async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Answer> {
        let answer = self.begin(request).await?;
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await?.to_bytes();
        Ok(Answer { status, body })
    }

    /// Sends a request; the body of the answer is still to come.
    pub async fn begin(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>> {
        match &mut self.sender {
            Sender::One(sender) => {
                sender.ready().await?;
                Ok(sender.send_request(request).await?)
            }
            Sender::Two(sender) => {
                sender.ready().await?;
                Ok(sender.send_request(request).await?)
            }
        }
    }
}

impl Target {
    /// A request of JSON.
    pub fn request(&self, method: &str, path: &str, body: String) -> Request<Full<Bytes>> {
        self.request_as(method, path, ("application/json", "application/json"), body)
    }

    pub fn request_as(
        &self,
        method: &str,
        path: &str,
        (content_type, accept): (&str, &str),
        body: String,
    ) -> Request<Full<Bytes>> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("https://{}{path}", self.authority))
            .header("host", &self.authority)
            .header("user-agent", "setpoint-bench")
            .header("accept", accept);
        if !body.is_empty() {
            request = request.header("content-type", content_type);
        }
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        request.body(Full::new(body.into())).expect("a request of ours must be well-formed")
    }
}
