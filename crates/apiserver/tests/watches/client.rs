//! A small client: one connection of one version of HTTP over TLS.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use apiserver::identity::kubeconfig::{Credential, Entry};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Nothing here takes longer, unless something is broken.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    One,
    Two,
}

pub const BOTH: [Version; 2] = [Version::One, Version::Two];

/// How to be the administrator of a server.
#[derive(Clone)]
pub struct Credentials {
    pub address: SocketAddr,
    configuration: ClientConfig,
}

impl Credentials {
    pub fn of(entry: &Entry<'_>, address: SocketAddr) -> Credentials {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(entry.authority_pem.as_bytes()) {
            roots.add(certificate.unwrap()).unwrap();
        }
        let Credential::Certificate { certificate_pem, key_pem } = entry.credential else {
            panic!("an administrator has a certificate");
        };
        let certificate = CertificateDer::from_pem_slice(certificate_pem.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(key_pem.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let configuration = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![certificate], key)
            .unwrap();
        Credentials { address, configuration }
    }

    /// A stream on which nothing was said yet.
    pub async fn stream(&self, version: Version) -> TlsStream<TcpStream> {
        let mut configuration = self.configuration.clone();
        configuration.alpn_protocols = match version {
            Version::One => vec![b"http/1.1".to_vec()],
            Version::Two => vec![b"h2".to_vec()],
        };
        let stream = TcpStream::connect(self.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(configuration)).connect(name, stream).await.unwrap()
    }
}

enum Sender {
    One(http1::SendRequest<Full<Bytes>>),
    Two(http2::SendRequest<Full<Bytes>>),
}

/// An open connection.
pub struct Client {
    sender: Sender,
    _driver: JoinSet<()>,
}

impl Client {
    pub async fn connect(credentials: &Credentials, version: Version) -> Client {
        Client::over(credentials.stream(version).await, version).await
    }

    /// On a stream that is there already.
    pub async fn over(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        version: Version,
    ) -> Client {
        let stream = TokioIo::new(stream);
        let mut driver = JoinSet::new();
        let sender = match version {
            Version::One => {
                let (sender, connection) = http1::handshake(stream).await.unwrap();
                driver.spawn(async move { drop(connection.await) });
                Sender::One(sender)
            }
            Version::Two => {
                let handshake = http2::Builder::new(TokioExecutor::new()).handshake(stream);
                let (sender, connection) = handshake.await.unwrap();
                driver.spawn(async move { drop(connection.await) });
                Sender::Two(sender)
            }
        };
        Client { sender, _driver: driver }
    }

    pub async fn send(
        &mut self,
        mut request: Request<Full<Bytes>>,
    ) -> hyper::Result<Response<Incoming>> {
        let path = request.uri().to_string();
        let send = async {
            match &mut self.sender {
                Sender::One(sender) => {
                    request.headers_mut().insert("host", "localhost".parse().unwrap());
                    sender.ready().await?;
                    sender.send_request(request).await
                }
                Sender::Two(sender) => {
                    let uri = format!("https://localhost{path}");
                    *request.uri_mut() = uri.parse().unwrap();
                    sender.ready().await?;
                    sender.send_request(request).await
                }
            }
        };
        tokio::time::timeout(PATIENCE, send).await.expect("an answer must come in time")
    }

    /// A request with headers; answers the code, the headers and the body.
    pub async fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Response<Bytes> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let response = self.send(request.body(Full::new(body.into())).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = tokio::time::timeout(PATIENCE, body.collect()).await.unwrap().unwrap();
        Response::from_parts(parts, body.to_bytes())
    }

    /// A request and its answer in JSON, whatever it says.
    pub async fn json(&mut self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let response = self.ask(method, path, &[], &body).await;
        let code = response.status().as_u16();
        (code, serde_json::from_slice(response.body()).unwrap_or_default())
    }

    /// A request that must succeed.
    pub async fn done(&mut self, method: &str, path: &str, body: Value) -> Value {
        let (code, answer) = self.json(method, path, body).await;
        assert!(code < 300, "{method} {path}: {answer}");
        answer
    }

    pub async fn watch(&mut self, path: &str) -> Events {
        self.watch_as(path, &[]).await
    }

    pub async fn watch_as(&mut self, path: &str, headers: &[(&str, &str)]) -> Events {
        let mut request = Request::get(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.send(request.body(Full::default()).unwrap()).await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        Events { body: response.into_body(), buffer: Vec::new(), lines: 0 }
    }
}

/// The events of a watch as they come.
pub struct Events {
    body: Incoming,
    buffer: Vec<u8>,
    pub lines: usize,
}

impl Events {
    /// The next event; `None` is a clean end.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                self.lines += 1;
                return Some(serde_json::from_slice(&line).expect("a line is an event"));
            }
            let frame = tokio::time::timeout(PATIENCE, self.body.frame());
            match frame.await.expect("an event must come in time") {
                Some(frame) => {
                    let frame = frame.expect("a watch must end cleanly");
                    self.buffer.extend_from_slice(&frame.into_data().unwrap_or_default());
                }
                None => {
                    assert!(self.buffer.is_empty(), "a line must be whole");
                    return None;
                }
            }
        }
    }

    pub async fn some(&mut self) -> Value {
        self.next().await.expect("the watch must go on")
    }

    /// Events in short until one is about an object of that name.
    pub async fn until(&mut self, name: &str) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let event = self.some().await;
            let is_last = event["object"]["metadata"]["name"] == name;
            events.push(event);
            if is_last {
                return events;
            }
        }
    }
}

/// `ADDED a`.
pub fn brief(event: &Value) -> String {
    let name = event["object"]["metadata"]["name"].as_str().unwrap_or("-");
    format!("{} {name}", event["type"].as_str().unwrap_or("?"))
}

pub fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

pub fn config_map(name: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"value": value}},
        "data": {"value": value},
    })
}
