//! Reads a file over HTTP: from where it is allowed to, and no more than it is allowed to have.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::address::Reach;
use super::fault::Fault;

const REDIRECTS_MAX: usize = 5;
/// How long a connection or the next bytes may take.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// A file that is being read.
pub struct Download {
    /// As the server says it, if it does.
    pub length: Option<u64>,
    body: Incoming,
    url: String,
    _connection: JoinSet<()>,
}

impl Download {
    /// The next bytes; `None` when all was read.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        let unreachable = |why: String| Fault::Unreachable { url: self.url.clone(), why };
        loop {
            let frame = timeout(SILENCE_MAX, self.body.frame()).await;
            let frame = frame.map_err(|_| unreachable("nothing came for too long".to_owned()))?;
            match frame {
                None => return Ok(None),
                Some(Err(error)) => return Err(unreachable(error.to_string())),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }
}

pub async fn open(url: &str, reach: Reach) -> Result<Download, Fault> {
    open_with(url, reach, &[]).await
}

/// A header and what it says.
pub type Header = (&'static str, String);

/// The same, with headers. Whoever is led to instead does not get them: they may be secrets.
pub async fn open_with(url: &str, reach: Reach, headers: &[Header]) -> Result<Download, Fault> {
    let mut url = parse(url)?;
    let mut headers = headers;
    for _ in 0..=REDIRECTS_MAX {
        let (answer, connection) = get(&url, reach, headers).await?;
        let status = answer.status();
        if status.is_redirection() {
            url = follow(&url, answer.headers().get(http::header::LOCATION))?;
            headers = &[];
            continue;
        }
        if status == http::StatusCode::UNAUTHORIZED {
            let challenge = answer.headers().get(http::header::WWW_AUTHENTICATE);
            let challenge = challenge.and_then(|text| text.to_str().ok()).unwrap_or_default();
            let challenge = challenge.to_owned();
            return Err(Fault::Unauthorized { url: url.to_string(), challenge });
        }
        if !status.is_success() {
            let status = status.as_u16();
            return Err(Fault::Status { url: url.to_string(), status });
        }
        let length = answer.headers().get(http::header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
        let (body, url) = (answer.into_body(), url.to_string());
        return Ok(Download { length, body, url, _connection: connection });
    }
    let why = format!("it led elsewhere more than {REDIRECTS_MAX} times");
    Err(Fault::Unreachable { url: url.to_string(), why })
}

fn parse(url: &str) -> Result<Uri, Fault> {
    let bad = || Fault::Url(url.to_owned());
    let parsed: Uri = url.parse().map_err(|_| bad())?;
    let is_known = matches!(parsed.scheme_str(), Some("http" | "https"));
    (is_known && parsed.host().is_some()).then_some(parsed).ok_or_else(bad)
}

/// Where an answer says that the file is instead. What was read safely is not read unsafely.
fn follow(from: &Uri, location: Option<&http::HeaderValue>) -> Result<Uri, Fault> {
    let said = location.and_then(|location| location.to_str().ok()).unwrap_or_default();
    let next = match said.strip_prefix('/').filter(|rest| !rest.starts_with('/')) {
        Some(_) => {
            let (scheme, authority) = (from.scheme_str(), from.authority());
            let authority = authority.map(http::uri::Authority::as_str).unwrap_or_default();
            parse(&format!("{}://{authority}{said}", scheme.unwrap_or("http")))?
        }
        None => parse(said)?,
    };
    match (from.scheme_str(), next.scheme_str()) {
        (Some("https"), Some("http")) => Err(Fault::Url(next.to_string())),
        _ => Ok(next),
    }
}

async fn get(
    url: &Uri,
    reach: Reach,
    headers: &[Header],
) -> Result<(http::Response<Incoming>, JoinSet<()>), Fault> {
    let unreachable = |why: String| Fault::Unreachable { url: url.to_string(), why };
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let is_safe = url.scheme_str() == Some("https");
    let port = url.port_u16().unwrap_or(if is_safe { 443 } else { 80 });
    let address = resolve(url, (&host, port), reach).await?;
    let connect = timeout(SILENCE_MAX, TcpStream::connect(address)).await;
    let stream = connect.map_err(|_| unreachable("it took too long".to_owned()))?;
    let stream = stream.map_err(|error| unreachable(error.to_string()))?;
    let path = url.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let mut request = http::Request::get(path)
        .header("host", url.authority().map_or(host.as_str(), |authority| authority.as_str()))
        .header("user-agent", "setpoint");
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let request =
        request.body(Empty::<Bytes>::new()).map_err(|error| unreachable(error.to_string()))?;
    let mut connection = JoinSet::new();
    let mut sender = match is_safe {
        true => {
            let name = ServerName::try_from(host).map_err(|_| Fault::Url(url.to_string()))?;
            let secured = secure().connect(name, stream);
            let secured = timeout(SILENCE_MAX, secured).await;
            let secured = secured.map_err(|_| unreachable("it took too long".to_owned()))?;
            let secured = secured.map_err(|error| unreachable(error.to_string()))?;
            shake_hands(secured, &mut connection).await
        }
        false => shake_hands(stream, &mut connection).await,
    }
    .map_err(|error| unreachable(error.to_string()))?;
    let answer = timeout(SILENCE_MAX, sender.send_request(request)).await;
    let answer = answer.map_err(|_| unreachable("it took too long".to_owned()))?;
    Ok((answer.map_err(|error| unreachable(error.to_string()))?, connection))
}

type Sender = http1::SendRequest<Empty<Bytes>>;

async fn shake_hands<S>(stream: S, tasks: &mut JoinSet<()>) -> Result<Sender, hyper::Error>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tasks.spawn(async move {
        let _ = connection.await;
    });
    Ok(sender)
}

/// The address that is connected to: what is checked here is not asked for again.
async fn resolve(url: &Uri, host: (&str, u16), reach: Reach) -> Result<SocketAddr, Fault> {
    let unreachable = |why: String| Fault::Unreachable { url: url.to_string(), why };
    let found = tokio::net::lookup_host(host).await;
    let found: Vec<SocketAddr> = found.map_err(|error| unreachable(error.to_string()))?.collect();
    if let Some(address) = found.iter().find(|address| !reach.allows(address.ip())) {
        let (host, address) = (host.0.to_owned(), address.ip().to_string());
        return Err(Fault::Forbidden { host, address });
    }
    found.first().copied().ok_or_else(|| unreachable("it has no address".to_owned()))
}

fn secure() -> TlsConnector {
    let mut roots = rustls::RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider knows the usual versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}
