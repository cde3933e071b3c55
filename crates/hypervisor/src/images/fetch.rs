//! Reads a file over HTTP: from where it is allowed to, and no more than it is allowed to have.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
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
use crate::system;

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
    let (mut url, credentials) = parse(url)?;
    let with_credentials: Vec<Header>;
    let mut headers = headers;
    if let Some(credentials) = credentials {
        let basic = ("authorization", format!("Basic {credentials}"));
        with_credentials = headers.iter().cloned().chain([basic]).collect();
        headers = &with_credentials;
    }
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

/// Parses a URL. Its user and password are returned apart, as HTTP's Basic scheme sends them: the
/// URL goes into messages and the `Host` header.
fn parse(url: &str) -> Result<(Uri, Option<String>), Fault> {
    let (plain, credentials) = take_credentials(url);
    let bad = || Fault::Url(plain.clone());
    let parsed: Uri = plain.parse().map_err(|_| bad())?;
    let is_known = matches!(parsed.scheme_str(), Some("http" | "https"));
    let is_whole = is_known && parsed.host().is_some();
    is_whole.then_some((parsed, credentials)).ok_or_else(bad)
}

fn take_credentials(url: &str) -> (String, Option<String>) {
    let Some((scheme, rest)) = url.split_once("://") else { return (url.to_owned(), None) };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let Some((credentials, host)) = authority.rsplit_once('@') else {
        return (url.to_owned(), None);
    };
    let encoded = BASE64_STANDARD.encode(percent_decode(credentials));
    (format!("{scheme}://{host}{path}"), Some(encoded))
}

fn percent_decode(text: &str) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).filter(|_| *first == b'%');
        let hex = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        decoded.push(hex.unwrap_or(*first));
        rest = if hex.is_some() { &after[2..] } else { after };
    }
    decoded
}

/// Where an answer says that the file is instead. What was read safely is not read unsafely.
fn follow(from: &Uri, location: Option<&http::HeaderValue>) -> Result<Uri, Fault> {
    let said = location.and_then(|location| location.to_str().ok()).unwrap_or_default();
    let next = match said.strip_prefix('/').filter(|rest| !rest.starts_with('/')) {
        Some(_) => {
            let (scheme, authority) = (from.scheme_str(), from.authority());
            let authority = authority.map(http::uri::Authority::as_str).unwrap_or_default();
            parse(&format!("{}://{authority}{said}", scheme.unwrap_or("http")))?.0
        }
        None => parse(said)?.0,
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
    let own = match reach {
        Reach::Others => system::own_addresses().map_err(|error| unreachable(error.to_string()))?,
        Reach::Everything => Vec::new(),
    };
    let is_forbidden = |address: IpAddr| {
        !reach.allows(address) || own.iter().any(|own| *own == address.to_canonical())
    };
    if let Some(address) = found.iter().find(|address| is_forbidden(address.ip())) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_no_part_of_the_url() {
        let (url, credentials) = parse("http://u:p%40ss@host:81/a@b?c").unwrap();
        assert_eq!(url.to_string(), "http://host:81/a@b?c");
        assert_eq!(credentials.as_deref(), Some("dTpwQHNz"));
        assert_eq!(parse("https://host/x").unwrap().1, None);
        for bad in ["ftp://u:secret@host/x", "http://u:secret@/x"] {
            let fault = parse(bad).unwrap_err().to_string();
            assert!(!fault.contains("secret"), "{fault}");
        }
    }

    #[tokio::test]
    async fn addresses_of_this_machine_are_refused() {
        for address in system::own_addresses().unwrap() {
            let host = SocketAddr::new(address, 1);
            let Err(fault) = open(&format!("http://{host}/x"), Reach::Others).await else {
                panic!("{host} was reached");
            };
            assert!(matches!(fault, Fault::Forbidden { .. } | Fault::Url(_)), "{host}: {fault}");
        }
    }

    #[tokio::test]
    async fn credentials_are_sent_once_and_not_as_the_host() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut served = JoinSet::new();
        served.spawn(async move {
            let mut heads = Vec::new();
            for answer in [
                "HTTP/1.1 302 F\r\nlocation: /there\r\ncontent-length: 0\r\n\r\n",
                "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            ] {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = vec![0; 4_096];
                let read = stream.read(&mut head).await.unwrap();
                heads.push(String::from_utf8_lossy(&head[..read]).to_lowercase());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            heads
        });
        open(&format!("http://u:p@{address}/x"), Reach::Everything).await.unwrap();
        let heads = served.join_next().await.unwrap().unwrap();
        assert!(heads[0].contains(&format!("host: {address}\r\n")), "{}", heads[0]);
        assert!(heads[0].contains("authorization: basic dtpw"), "{}", heads[0]);
        assert!(!heads[1].contains("authorization"), "{}", heads[1]);
    }
}
