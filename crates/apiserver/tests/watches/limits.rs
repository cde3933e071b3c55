//! Bounds that nobody can get around.

use std::time::Duration;

use apiserver::serve::Limits;
use apiserver::traffic::{Lane, Traffic};
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::client::{BOTH, Client, Version, config_map};
use super::cluster::{Choices, Cluster};

const PLACE: &str = "/api/v1/namespaces/default/configmaps";
const SOON: Duration = Duration::from_millis(200);
const LATE: Duration = Duration::from_secs(20);

fn limited(limits: Limits) -> Choices {
    Choices { limits, ..Choices::default() }
}

/// Waits until the other side has ended the connection.
async fn ended(mut stream: impl AsyncReadExt + Unpin) {
    let mut bytes = [0; 1_024];
    let end = async { while matches!(stream.read(&mut bytes).await, Ok(1..)) {} };
    tokio::time::timeout(LATE, end).await.expect("the connection must end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_finish_a_handshake_is_cut_off() {
    let limits = Limits { handshake_max: SOON, ..Limits::default() };
    let cluster = Cluster::start_with(limited(limits)).await;
    ended(TcpStream::connect(cluster.credentials.address).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_finish_a_head_is_cut_off() {
    let limits = Limits { head_max: SOON, ..Limits::default() };
    let cluster = Cluster::start_with(limited(limits)).await;
    let silent = cluster.credentials.stream(Version::Two).await;
    let mut slow = cluster.credentials.stream(Version::One).await;
    slow.write_all(b"GET /version HTTP/1.1\r\nhost: local").await.unwrap();
    slow.flush().await.unwrap();
    ended(slow).await;
    ended(silent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_rests_longer_than_its_first_head_may_take() {
    let limits = Limits { head_max: SOON, ..Limits::default() };
    let cluster = Cluster::start_with(limited(limits)).await;
    let mut client = cluster.client(Version::One).await;
    for _ in 0..2 {
        client.done("GET", PLACE, Value::Null).await;
        tokio::time::sleep(3 * SOON).await;
    }
    client.done("GET", PLACE, Value::Null).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_connection_is_closed_and_one_with_a_watch_is_not() {
    let limits = Limits { idle_max: SOON, ..Limits::default() };
    let cluster = Cluster::start_with(limited(limits)).await;
    let mut idle = cluster.client(Version::Two).await;
    let mut busy = cluster.client(Version::Two).await;
    idle.done("GET", PLACE, Value::Null).await;
    let mut events = busy.watch(&format!("{PLACE}?watch=1")).await;
    let closed = async {
        loop {
            let request = Request::get("/version").body(Full::<Bytes>::default()).unwrap();
            tokio::time::sleep(3 * SOON).await;
            if idle.send(request).await.is_err() {
                return;
            }
        }
    };
    tokio::time::timeout(LATE, closed).await.expect("an idle connection must be closed");
    busy.done("POST", PLACE, config_map("a", "x")).await;
    assert_eq!(events.some().await["type"], "ADDED");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_so_many_connections_are_served_at_once() {
    let limits = Limits { connections_max: 1, local_reserve: 0, ..Limits::default() };
    let cluster = Cluster::start_with(limited(limits)).await;
    let mut first = cluster.client(Version::Two).await;
    first.done("GET", PLACE, Value::Null).await;
    let second = Client::connect(&cluster.credentials, Version::Two);
    tokio::pin!(second);
    let early = tokio::time::timeout(SOON, second.as_mut()).await;
    assert!(early.is_err(), "the second must wait");
    drop(first);
    let mut second = tokio::time::timeout(LATE, second).await.expect("a place must be free");
    second.done("GET", PLACE, Value::Null).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_only_opens_and_cancels_is_cut_off() {
    let limits = Limits { cancelled_per_minute_max: 20, ..Limits::default() };
    let cluster = Cluster::start_with(limited(limits)).await;
    let mut client = cluster.client(Version::Two).await;
    let path = format!("{PLACE}?watch=1");
    let flood = async {
        loop {
            let request = Request::get(path.as_str()).body(Full::<Bytes>::default()).unwrap();
            match client.send(request).await {
                Ok(response) => drop(response),
                Err(_) => return,
            }
        }
    };
    tokio::time::timeout(LATE, flood).await.expect("the connection must end");
    let mut other = cluster.client(Version::Two).await;
    other.done("GET", PLACE, Value::Null).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_long_is_refused() {
    let cluster = Cluster::start().await;
    for version in BOTH {
        let mut client = cluster.client(version).await;
        let path = format!("{PLACE}?labelSelector={}", "a".repeat(9 << 10));
        let (code, status) = client.json("GET", &path, Value::Null).await;
        assert_eq!((code, &status["message"]), (400, &"the URL is too long".into()));
        let mut client = cluster.client(version).await;
        let long = "x".repeat(40 << 10);
        let request = Request::get("/version").header("x-long", long);
        let answer = client.send(request.body(Full::default()).unwrap()).await;
        assert!(answer.map_or(431, |answer| answer.status().as_u16()) == 431);
        let mut client = cluster.client(version).await;
        let body = json!({"data": {"a": "x".repeat(3 << 20)}});
        let request = Request::post(PLACE).body(Full::from(body.to_string())).unwrap();
        match client.send(request).await {
            Ok(answer) => assert_eq!(answer.status(), 413),
            // The server may have closed before all of it was written.
            Err(_) => assert_eq!(version, Version::One),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_requests_and_watches_are_sent_away_for_a_while() {
    let traffic = Traffic {
        reads: Lane::new(0),
        writes: Lane::new(0),
        watches: Lane::new(0),
        ..Traffic::default()
    };
    let cluster = Cluster::start_with(Choices { traffic, ..Choices::default() }).await;
    let mut client = cluster.client(Version::Two).await;
    // The administrator is always let in, and may be somebody who is not.
    client.done("GET", PLACE, Value::Null).await;
    let other = [("impersonate-user", "somebody")];
    for (method, path) in
        [("GET", PLACE.to_owned()), ("POST", PLACE.to_owned()), ("DELETE", format!("{PLACE}/a"))]
    {
        let answer = client.ask(method, &path, &other, &config_map("a", "x")).await;
        assert_eq!(answer.status(), 429, "{method} {path}");
        assert_eq!(answer.headers()["retry-after"], "1");
        let status: Value = serde_json::from_slice(answer.body()).unwrap();
        assert_eq!(status["reason"], "TooManyRequests");
    }
    let healthy = client.ask("GET", "/readyz", &other, &Value::Null).await;
    assert_eq!(healthy.status(), 200);
}
