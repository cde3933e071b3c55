//! One request to the administration of a server.

use std::io;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Method, Request, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// What is read of an answer.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// What is read of a page of metrics.
const METRICS_BYTES_MAX: usize = 4 << 20;
const PORT: u16 = 80;

/// The status and the text of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    pub status: u16,
    pub text: String,
}

/// Sends a request, and follows nobody elsewhere.
pub async fn send(
    method: Method,
    url: &str,
    body: Option<String>,
    within: Duration,
) -> Result<Answered, String> {
    let exchange = exchange(method, url, body, ANSWER_BYTES_MAX);
    let answer = tokio::time::timeout(within, exchange).await;
    answer.unwrap_or_else(|_| Err(format!("no answer within {}s", within.as_secs())))
}

/// Reads a page of metrics.
pub async fn get(url: &str, within: Duration) -> Result<Answered, String> {
    let exchange = exchange(Method::GET, url, None, METRICS_BYTES_MAX);
    let answer = tokio::time::timeout(within, exchange).await;
    answer.unwrap_or_else(|_| Err(format!("no answer within {}s", within.as_secs())))
}

/// Connects to an address of the host, or of a pod network that this process has.
pub type Connector = fn(SocketAddr) -> BoxFuture<'static, io::Result<TcpStream>>;

static CONNECTOR: OnceLock<Connector> = OnceLock::new();

/// Sets the connector of this process. Later calls are ignored.
pub fn set_connector(connector: Connector) {
    let _ = CONNECTOR.set(connector);
}

async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    match (CONNECTOR.get(), host.parse()) {
        (Some(connector), Ok(address)) => connector(SocketAddr::new(address, port)).await,
        _ => TcpStream::connect((host, port)).await,
    }
}

async fn exchange(
    method: Method,
    url: &str,
    body: Option<String>,
    bytes_max: usize,
) -> Result<Answered, String> {
    let uri: Uri = url.parse().map_err(|error| format!("{url}: {error}"))?;
    let host = uri.host().unwrap_or_default();
    let port = uri.port_u16().unwrap_or(PORT);
    let plain = host.trim_start_matches('[').trim_end_matches(']');
    let stream = connect(plain, port).await.map_err(|error| error.to_string())?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::builder().method(method).uri(path);
    request = request.header("host", format!("{host}:{port}"));
    if body.is_some() {
        request = request.header("content-type", "application/json");
    }
    let body = Full::new(Bytes::from(body.unwrap_or_default()));
    let request = request.body(body).map_err(|error| error.to_string())?;
    let answer = async {
        let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), bytes_max).collect().await;
        // What is too long to be read is not an error; nobody needs it.
        let bytes = body.map(|body| body.to_bytes()).unwrap_or_default();
        Ok(Answered { status, text: String::from_utf8_lossy(&bytes).into_owned() })
    };
    tokio::pin!(connection);
    tokio::pin!(answer);
    tokio::select! {
        answer = &mut answer => answer,
        ended = &mut connection => match ended {
            // What was received before the end is still to be read.
            Ok(()) => answer.await,
            Err(error) => Err(error.to_string()),
        },
    }
}
