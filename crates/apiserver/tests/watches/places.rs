//! Who is let in, for how long, and on which ways.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use apiserver::identity::{GROUP_MASTERS, User};
use apiserver::serve::{Limits, serve_plain};
use apiserver::server::Server;
use apiserver::traffic::{REQUEST_MAX, WRITE_MAX};
use bytes::Bytes;
use http::Request;
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use serde_json::{Value, json};
use store::{Environment, System, Timestamp};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::client::{BOTH, Client, Version, config_map};
use super::cluster::{Choices, Cluster, new_directory};

const PLACE: &str = "/api/v1/namespaces/default/configmaps";

/// A clock that can be put forward.
#[derive(Default)]
struct Movable(AtomicI64);

impl Environment for Movable {
    fn now(&self) -> Timestamp {
        Timestamp(System.now().0 + self.0.load(Ordering::Relaxed))
    }

    fn random(&self) -> u64 {
        System.random()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_ends_while_its_connection_lasts_is_not_believed() {
    let clock = Arc::new(Movable::default());
    let environment = Some(clock.clone() as Arc<dyn Environment>);
    let cluster = Cluster::start_with(Choices { environment, ..Choices::default() }).await;
    for version in BOTH {
        clock.0.store(0, Ordering::Relaxed);
        let mut client = cluster.client(version).await;
        client.done("GET", PLACE, Value::Null).await;
        let years = Duration::from_secs(20 * 365 * 86_400);
        clock.0.store(i64::try_from(years.as_micros()).unwrap(), Ordering::Relaxed);
        // Not even what everybody may see: nobody shows a credential to be nobody.
        for path in [PLACE, "/version"] {
            let (code, status) = client.json("GET", path, Value::Null).await;
            assert_eq!((code, &status["message"]), (401, &json!("Unauthorized")), "{path}");
        }
        let token = [("authorization", "Bearer of.bad.news")];
        let answer = client.ask("GET", PLACE, &token, &Value::Null).await;
        assert_eq!(answer.status(), 401);
    }
}

fn admin() -> Option<Arc<User>> {
    Some(Arc::new(User::authenticated("root", [GROUP_MASTERS])))
}

/// The time is that of a clock that jumps to whatever is waited for.
#[tokio::test]
async fn a_request_that_is_not_answered_in_time_is_given_up() {
    let cluster = Cluster::start().await;
    tokio::time::pause();
    for (method, limit) in [("GET", REQUEST_MAX), ("POST", WRITE_MAX), ("DELETE", WRITE_MAX)] {
        // Its body never ends.
        let body = futures::stream::pending::<Result<Frame<Bytes>, Infallible>>();
        let path = if method == "DELETE" { format!("{PLACE}/a") } else { PLACE.to_owned() };
        let request = Request::builder().method(method).uri(path);
        let begun = Instant::now();
        let request = request.body(StreamBody::new(body)).unwrap();
        let answer = cluster.server.handle(request, admin()).await;
        let took = begun.elapsed();
        assert_eq!(answer.status(), 504, "{method}");
        assert!(took >= limit && took < limit + Duration::from_secs(1), "{method} {took:?}");
        let status = answer.into_body().collect().await.unwrap().to_bytes();
        let status: Value = serde_json::from_slice(&status).unwrap();
        assert_eq!(status["reason"], "Timeout");
    }
    assert_eq!(cluster.server.traffic.reads.busy() + cluster.server.traffic.writes.busy(), 0);
}

#[tokio::test]
async fn a_list_has_its_place_until_it_is_sent() {
    let cluster = Cluster::start().await;
    let server = &cluster.server;
    let ask = async |path: &str| {
        let request = Request::get(path).body(Full::<Bytes>::default()).unwrap();
        server.handle(request, admin()).await
    };
    for number in 0..200 {
        let mut map = config_map(&format!("m{number}"), "x");
        map["data"]["long"] = json!("x".repeat(10_000));
        let request = Request::post(PLACE).body(Full::from(map.to_string())).unwrap();
        assert_eq!(server.handle(request, admin()).await.status(), 201);
    }
    let busy = || server.traffic.reads.busy();
    assert_eq!((busy(), server.traffic.writes.busy()), (0, 0));
    let given_up = ask(PLACE).await;
    let short = ask(&format!("{PLACE}/m0")).await;
    let mut read = ask(PLACE).await.into_body();
    assert_eq!(busy(), 3);
    drop((given_up, short));
    assert_eq!(busy(), 1);
    while let Some(frame) = read.frame().await {
        frame.unwrap();
        assert_eq!(busy(), 1);
    }
    drop(read);
    assert_eq!(busy(), 0);
}

/// Serves the API on a socket without TLS, to one user.
fn plain(
    server: &Arc<Server>,
) -> impl Fn(
    Request<Incoming>,
) -> futures::future::BoxFuture<'static, http::Response<apiserver::answer::Body>>
+ Clone
+ Send
+ Sync
+ 'static {
    let server = server.clone();
    move |request| {
        let server = server.clone();
        Box::pin(async move { server.handle(request, admin()).await })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_is_served_on_sockets_of_the_machine() {
    let cluster = Cluster::start().await;
    let directory = new_directory();
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("api.sock");
    let (unix, tcp) =
        (UnixListener::bind(&path).unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let address = tcp.local_addr().unwrap();
    let (stop, stopped) = watch::channel(false);
    let answer = plain(&cluster.server);
    let limits = Limits::default();
    let mut serving = JoinSet::new();
    serving.spawn(serve_plain(unix, stopped.clone(), limits, answer.clone()));
    serving.spawn(serve_plain(tcp, stopped, limits, answer));
    for version in BOTH {
        let name = if version == Version::One { "one" } else { "two" };
        let mut local = Client::over(UnixStream::connect(&path).await.unwrap(), version).await;
        let mut remote = Client::over(TcpStream::connect(address).await.unwrap(), version).await;
        let mut events =
            remote.watch(&format!("{PLACE}?watch=1&fieldSelector=metadata.name={name}")).await;
        local.done("POST", PLACE, config_map(name, "x")).await;
        assert_eq!(events.some().await["object"]["metadata"]["name"], name);
    }
    stop.send_replace(true);
    while serving.join_next().await.is_some() {}
    std::fs::remove_dir_all(&directory).unwrap();
}
