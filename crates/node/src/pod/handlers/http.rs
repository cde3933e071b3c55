//! Asks a pod over HTTP or HTTPS, once, without trust in its certificate.
//!
//! Upstream: pkg/probe/http

use std::error::Error;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ::http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri, header};
use bytes::Bytes;
use futures::FutureExt;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use super::{Answer, USER_AGENT, named, port, text, why};
use crate::network::dial;

/// How much of an answer is read.
const BODY_BYTES_MAX: usize = 10 << 10;
/// How often an answer may lead elsewhere.
const REDIRECTS_MAX: u32 = 10;
/// How long a hook waits for an answer.
const HOOK_MAX: Duration = Duration::from_secs(30);

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Target {
    uri: Uri,
    headers: HeaderMap,
}

impl Target {
    /// As `httpGet` of a probe or hook says; `own` is the pod's address.
    pub fn of(action: &Value, container: &Value, own: &str) -> Result<Target, String> {
        let scheme = named(&action["scheme"]).unwrap_or("HTTP").to_lowercase();
        let host = named(&action["host"]).unwrap_or(own);
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let port = port(&action["port"], container)?;
        let path = named(&action["path"]).unwrap_or("/");
        let slash = if path.starts_with('/') { "" } else { "/" };
        let url = format!("{scheme}://{host}:{port}{slash}{path}");
        let uri = url.parse().map_err(|error| format!("parse {url:?}: {error}"))?;
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
        for own in action["httpHeaders"].as_array().into_iter().flatten() {
            let name = HeaderName::try_from(text(&own["name"]));
            let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(text(&own["value"]))) else {
                return Err(format!("invalid header {:?}", text(&own["name"])));
            };
            let is_ours = name == header::USER_AGENT || name == header::ACCEPT;
            // An empty value takes away what would be sent.
            if is_ours && value.is_empty() {
                headers.remove(name);
            } else if is_ours {
                headers.insert(name, value);
            } else {
                headers.append(name, value);
            }
        }
        Ok(Target { uri, headers })
    }
}

/// Whether the pod answers as one that is well does.
pub async fn probe(first: &Target, timeout: Duration) -> Answer {
    let asked = async {
        let mut target = first.clone();
        for _ in 0..REDIRECTS_MAX {
            let (status, next) = match get(&target).await {
                Ok(answer) => answer,
                Err(why) => return Answer::Bad(format!("Get \"{}\": {why}", target.uri)),
            };
            let Some(next) = next.filter(|_| status.is_redirection()) else {
                return match status.as_u16() {
                    200..=399 => Answer::Good,
                    code => Answer::Bad(format!("HTTP probe failed with statuscode: {code}")),
                };
            };
            match elsewhere(&target.uri, &next) {
                Next::Same(uri) => target.uri = uri,
                Next::Other => {
                    let what = "Probe terminated redirects";
                    return Answer::Warning(format!("{what}, Response body: "));
                }
            }
        }
        Answer::Bad(format!("Get \"{}\": stopped after {REDIRECTS_MAX} redirects", target.uri))
    };
    let late = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
    let answer = tokio::time::timeout(timeout, asked).await;
    answer.unwrap_or_else(|_| Answer::Bad(format!("Get \"{}\": {late}", first.uri)))
}

/// Asks; whatever the answer says is fine. What does not speak TLS is asked without.
pub async fn hook(target: &Target) -> Result<(), String> {
    let asked = async {
        let Err(first) = get(target).await else { return Ok(()) };
        if target.uri.scheme_str() != Some("https") || !first.contains("TLS") {
            return Err(format!("Get \"{}\": {first}", target.uri));
        }
        let plain = target.uri.to_string().replacen("https", "http", 1);
        let uri = plain.parse().map_err(|_| first.clone())?;
        let plain = Target { uri, headers: target.headers.clone() };
        get(&plain).await.map(drop).map_err(|why| format!("Get \"{}\": {why}", plain.uri))
    };
    let late = format!("Get \"{}\": context deadline exceeded", target.uri);
    tokio::time::timeout(HOOK_MAX, asked).await.unwrap_or(Err(late))
}

enum Next {
    Same(Uri),
    Other,
}

/// Where an answer leads: only the same host is asked again.
fn elsewhere(from: &Uri, to: &str) -> Next {
    let Ok(to) = to.parse::<Uri>() else { return Next::Other };
    let mut parts = from.clone().into_parts();
    if let Some(authority) = to.authority() {
        if Some(authority.host()) != from.host() {
            return Next::Other;
        }
        parts.scheme = to.scheme().cloned().or(parts.scheme);
        parts.authority = Some(authority.clone());
    }
    parts.path_and_query = to.path_and_query().cloned();
    Uri::from_parts(parts).map_or(Next::Other, Next::Same)
}

async fn get(target: &Target) -> Result<(::http::StatusCode, Option<String>), String> {
    let host = target.uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_secret = target.uri.scheme_str() == Some("https");
    let port = target.uri.port_u16().unwrap_or(if is_secret { 443 } else { 80 });
    let stream = dial::connect_host(host, port).await;
    let stream = stream.map_err(|error| format!("dial tcp {host}:{port}: {}", why(&error)))?;
    let (answer, _connection) = if is_secret {
        let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
        let stream = TlsConnector::from(trusting()).connect(name, stream).await;
        let stream = stream.map_err(|error| format!("TLS handshake: {error}"))?;
        match stream.get_ref().1.alpn_protocol() {
            Some(b"h2") => send_multiplexed(stream, target).await,
            _ => send(stream, target).await,
        }
    } else {
        send(stream, target).await
    }?;
    let next = answer.headers().get(header::LOCATION);
    let next = next.and_then(|next| next.to_str().ok()).map(str::to_owned);
    let status = answer.status();
    // Read and thrown away, so that the pod sees a client that listens.
    let _ = Limited::new(answer.into_body(), BODY_BYTES_MAX).collect().await;
    Ok((status, next))
}

async fn send<S>(stream: S, target: &Target) -> Result<(Response<Incoming>, Connection), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = TokioIo::new(stream);
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(stream).await.map_err(|error| chain(&error))?;
    let connection = Connection::carry(connection);
    let mut request = request(target, target.uri.path_and_query().map_or("/", |it| it.as_str()))?;
    let headers = request.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    if !headers.contains_key(header::HOST) {
        let host = target.uri.authority().map_or("", |authority| authority.as_str());
        headers.insert(header::HOST, HeaderValue::from_str(host).map_err(|it| it.to_string())?);
    }
    let answer = sender.send_request(request).await.map_err(|error| chain(&error))?;
    Ok((answer, connection))
}

async fn send_multiplexed<S>(
    stream: S,
    target: &Target,
) -> Result<(Response<Incoming>, Connection), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (stream, executor) = (TokioIo::new(stream), TokioExecutor::new());
    let handshake = hyper::client::conn::http2::handshake(executor, stream).await;
    let (mut sender, connection) = handshake.map_err(|error| chain(&error))?;
    let connection = Connection::carry(connection);
    let mut request = request(target, &target.uri.to_string())?;
    request.headers_mut().remove(header::HOST);
    let answer = sender.send_request(request).await.map_err(|error| chain(&error))?;
    Ok((answer, connection))
}

fn request(target: &Target, uri: &str) -> Result<Request<Empty<Bytes>>, String> {
    let mut request = Request::get(uri).body(Empty::new()).map_err(|error| error.to_string())?;
    *request.headers_mut() = target.headers.clone();
    Ok(request)
}

/// What carries a connection; it ends with this, so that a pod that hangs holds nothing of ours.
pub struct Connection {
    _task: JoinSet<()>,
}

impl Connection {
    pub fn carry<E: 'static>(
        connection: impl Future<Output = Result<(), E>> + Send + 'static,
    ) -> Connection {
        let mut task = JoinSet::new();
        task.spawn(connection.map(drop));
        Connection { _task: task }
    }
}

/// What went wrong, to its first cause.
fn chain(error: &hyper::Error) -> String {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    if error.is_incomplete_message() { "EOF".to_owned() } else { format!("{error}{cause}") }
}

/// Probes ask whether the pod answers, not who it is.
fn trusting() -> Arc<ClientConfig> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    let config = CONFIG.get_or_init(|| {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("the provider must know the usual versions of TLS");
        let verifier = Arc::new(Anybody(provider));
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let mut config = builder.with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Arc::new(config)
    });
    config.clone()
}

/// Accepts every certificate.
#[derive(Debug)]
struct Anybody(Arc<rustls::crypto::CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
