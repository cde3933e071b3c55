//! Clients that hold connections and bodies open, and answers to HEAD.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use apiserver::beside::Respond;
use apiserver::serve::Limits;

use crate::bad_input::wire::{self, Identity};
use crate::world::World;

/// Longer than any answer takes, shorter than the time limits of the server.
const SOON: Duration = Duration::from_secs(5);
const STATUS: &str = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/a/trainjobs/x/status";

async fn livez(world: &World, identity: &Identity) -> u16 {
    let text = "GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let reply = tokio::time::timeout(SOON, wire::send(world, identity, text.as_bytes())).await;
    reply.expect("the server must answer").unwrap().status
}

/// Attack: thousands of connections that send nothing. Each place that a source has beyond its
/// share costs it its own oldest silent connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_do_not_keep_anybody_out() {
    let limits = Limits { connections_max: 20, per_source_max: 10, ..Limits::default() };
    let world = World::limited(limits).await;
    let identity = Identity::admin(&world);
    let mut silent = Vec::new();
    for _ in 0..60 {
        silent.push(TcpStream::connect(world.address).await.unwrap());
    }
    assert_eq!(livez(&world, &identity).await, 200);
    let mut closed = 0;
    for stream in &mut silent[..50] {
        let read = tokio::time::timeout(SOON, stream.read(&mut [0; 1])).await;
        closed += usize::from(matches!(read, Ok(Ok(0) | Err(_))));
    }
    assert_eq!(closed, 50, "the oldest connections of the source were closed");
}

/// Answers reports of trainers, as the training operator does.
struct Trainer;

#[async_trait]
impl Respond for Trainer {
    fn is_for(&self, method: &Method, path: &str) -> bool {
        *method == Method::POST && path == STATUS
    }

    async fn answer(&self, _path: &str, _authorization: Option<&str>, body: Bytes) -> (u16, Value) {
        (200, json!({"length": body.len()}))
    }
}

/// Attack: an anonymous body of one byte every few seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_is_not_read_before_its_sender_is_known() {
    let world = World::real().await;
    world.server.beside.add_respond(Trainer);
    let anonymous = Identity::of(&world, None);
    let unfinished = |path: &str, header: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\n{header}content-type: \
             application/json\r\ncontent-length: 1000\r\n\r\n{{"
        )
    };
    let paths = [
        STATUS,
        "/api/v1/namespaces/default/pods",
        "/apis/history.setpoint.dev/v1/plan",
        "/apis/history.setpoint.dev/v1/undo/api/v1/namespaces/default/pods/p",
    ];
    for path in paths {
        for header in ["", "authorization: Bearer a.b.c\r\n", "authorization: Basic YTpi\r\n"] {
            let sent = unfinished(path, header);
            let reply = tokio::time::timeout(SOON, wire::send(&world, &anonymous, sent.as_bytes()));
            let reply = reply.await.unwrap_or_else(|_| panic!("{path}: the body is waited for"));
            let status = reply.unwrap().status;
            assert!([401, 403].contains(&status), "{path} {header}: {status}");
        }
    }
    let issued = super::account_token(&world, "default", "trainer").await;
    let header = format!("authorization: Bearer {issued}\r\n");
    let body = "x".repeat(200 << 10);
    let length = body.len();
    for (body, length, expected) in [("{}", 2, 200), (body.as_str(), length, 413)] {
        let text = format!(
            "POST {STATUS} HTTP/1.1\r\nhost: localhost\r\n{header}content-length: \
             {length}\r\n\r\n{body}"
        );
        let reply = wire::send(&world, &anonymous, text.as_bytes()).await.unwrap();
        assert_eq!(reply.status, expected, "{}", reply.body);
    }
}

/// An answer to HEAD has the headers of a GET and no body, also over HTTP/2.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_request_has_the_length_and_no_body() {
    let world = World::real().await;
    let stream = TcpStream::connect(world.address).await.unwrap();
    let stream = Identity::of(&world, None).connect(stream, b"h2").await.unwrap();
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let (mut sender, connection) = handshake;
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    for path in ["/livez", "/version", "/readyz", "/api/v1/pods", "/nothing"] {
        let mut lengths = Vec::new();
        for method in [Method::GET, Method::HEAD] {
            let request =
                Request::builder().method(&method).uri(format!("https://localhost{path}"));
            let request = request.body(Empty::<Bytes>::new()).unwrap();
            let answer = tokio::time::timeout(SOON, sender.send_request(request)).await.unwrap();
            let (parts, body) = answer.unwrap().into_parts();
            let body = body.collect().await.expect("the stream must end cleanly").to_bytes();
            assert_eq!(body.is_empty(), method == Method::HEAD, "{method} {path}");
            let length: usize = parts.headers["content-length"].to_str().unwrap().parse().unwrap();
            assert_eq!(parts.status.is_success(), !["/api/v1/pods", "/nothing"].contains(&path));
            lengths.push(if method == Method::GET { body.len() } else { length });
        }
        let is_open = !["/api/v1/pods", "/nothing"].contains(&path);
        assert!(!is_open || lengths[0] == lengths[1], "{path}: {lengths:?}");
    }
}
