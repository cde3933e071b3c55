//! Small model servers: they take adapters, refuse them, or take their time, and remember what they
//! were asked.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Where servers are administered.
const PORT: u16 = 9090;

/// How a server answers.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    pub status: u16,
    pub text: &'static str,
    pub after: Duration,
}

impl Default for Manner {
    fn default() -> Manner {
        Manner { status: 200, text: r#"{"status":"success"}"#, after: Duration::ZERO }
    }
}

/// What was asked, of whom, and how many were at it at once.
#[derive(Debug, Default)]
pub struct Log {
    pub lines: Vec<String>,
    busy: usize,
    pub busy_max: usize,
}

/// Servers that end with this.
#[derive(Default)]
pub struct Servers {
    pub log: Arc<Mutex<Log>>,
    tasks: JoinSet<()>,
}

impl Servers {
    /// Starts one on an address of this machine that no other test uses.
    pub async fn start(&mut self, address: &str, manner: Manner) {
        let socket: SocketAddr = format!("{address}:{PORT}").parse().expect("an address");
        let listener = TcpListener::bind(socket).await.expect("the address is free");
        let (log, address) = (self.log.clone(), address.to_owned());
        self.tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (log, address) = (log.clone(), address.clone());
                let service = service_fn(move |request| {
                    let (log, address) = (log.clone(), address.clone());
                    async move {
                        let answer = answer(request, &address, manner, &log).await;
                        Ok::<_, Infallible>(answer)
                    }
                });
                let io = TokioIo::new(stream);
                connections.spawn(http1::Builder::new().serve_connection(io, service));
            }
        });
    }

    /// What was asked so far, in order of the texts.
    pub fn asked(&self) -> Vec<String> {
        let mut lines = self.log.lock().expect("nobody panicked").lines.clone();
        lines.sort();
        lines
    }

    pub fn forget(&self) {
        self.log.lock().expect("nobody panicked").lines.clear();
    }
}

async fn answer(
    request: Request<Incoming>,
    address: &str,
    manner: Manner,
    log: &Mutex<Log>,
) -> Response<Full<Bytes>> {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let body = request.into_body().collect().await.map(|body| body.to_bytes());
    let body = String::from_utf8_lossy(&body.unwrap_or_default()).into_owned();
    {
        let mut log = log.lock().expect("nobody panicked");
        log.busy += 1;
        log.busy_max = log.busy_max.max(log.busy);
        log.lines.push(format!("{address} {method} {path} {body}").trim_end().to_owned());
    }
    tokio::time::sleep(manner.after).await;
    log.lock().expect("nobody panicked").busy -= 1;
    let answer = Response::builder().status(manner.status);
    answer.body(Full::new(Bytes::from_static(manner.text.as_bytes()))).expect("an answer")
}
