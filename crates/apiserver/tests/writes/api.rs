//! A server in this process, asked without a network.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use apiserver::answer::Body;
use apiserver::identity::User;
use apiserver::registry::custom::follow::follow;
use apiserver::server::Server;
use apiserver::start;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use store::backends;
use store::{Environment, KeyRange, Provenance, Retention, Revision, Store, System, Timestamp};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub const ADMIN: &str = "root+system:masters";

/// A running server.
pub struct Api {
    pub server: Arc<Server>,
    _stop: watch::Sender<bool>,
    _tasks: JoinSet<()>,
}

/// A clock that can be put forward.
#[derive(Default)]
pub struct Movable(AtomicI64);

impl Movable {
    #[allow(dead_code, reason = "not all who share this file need it")]
    pub fn forward(&self, time: Duration) {
        let micros = i64::try_from(time.as_micros()).unwrap();
        self.0.fetch_add(micros, Ordering::Relaxed);
    }
}

impl Environment for Movable {
    fn now(&self) -> Timestamp {
        Timestamp(System.now().0 + self.0.load(Ordering::Relaxed))
    }

    fn random(&self) -> u64 {
        System.random()
    }
}

/// A directory that is gone with its owner.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        let name = format!("setpoint-writes-{:016x}", System.random());
        Scratch(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Api {
    pub async fn start() -> (Api, Scratch) {
        let scratch = Scratch::new();
        let store = backends::memory::open(Retention::default(), Arc::new(System));
        (Api::over(store, &scratch.0).await.unwrap(), scratch)
    }

    /// With a clock that can be put forward.
    #[allow(dead_code, reason = "not all who share this file need it")]
    pub async fn with_clock(retention: Retention) -> (Api, Arc<Movable>, Scratch) {
        let scratch = Scratch::new();
        let clock = Arc::new(Movable::default());
        let store = backends::memory::open(retention, clock.clone());
        let api = Api::at_time(store, &scratch.0, clock.clone()).await.unwrap();
        (api, clock, scratch)
    }

    pub async fn over(store: Arc<dyn Store>, keys: &Path) -> Result<Api, start::Error> {
        Api::at_time(store, keys, Arc::new(System)).await
    }

    async fn at_time(
        store: Arc<dyn Store>,
        keys: &Path,
        environment: Arc<dyn Environment>,
    ) -> Result<Api, start::Error> {
        let (stop_sender, stop) = watch::channel(false);
        let listen = "127.0.0.1:6443".parse().unwrap();
        let host = "localhost".to_owned();
        let options = start::Options { directory: keys.to_owned(), listen, host, stop };
        let handle = start::start(options, store, environment).await?;
        let mut tasks = JoinSet::new();
        tasks.spawn(handle.roles.follow());
        tasks.spawn(follow(handle.server.clone()));
        tasks.spawn(handle.configurations.follow());
        Ok(Api { server: handle.server, _stop: stop_sender, _tasks: tasks })
    }

    /// Asks as a user: a name, and groups after plus signs.
    pub async fn ask(&self, user: &str, line: &str, body: &Value) -> (u16, Value) {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let content_type = match line.split(' ').next() {
            Some("PATCH") => "application/merge-patch+json",
            _ => "application/json",
        };
        self.ask_with(user, line, (content_type, text)).await
    }

    pub async fn ask_with(
        &self,
        user: &str,
        line: &str,
        (content_type, text): (&str, String),
    ) -> (u16, Value) {
        let request = Api::request(line, content_type, text);
        let response = self.server.handle(request, Some(Arc::new(self::user(user)))).await;
        read(response).await
    }

    /// The warnings that the administrator gets with the answer.
    #[allow(dead_code, reason = "not all who share this file need it")]
    pub async fn warned(&self, line: &str, body: &Value) -> Vec<String> {
        let request = Api::request(line, "application/json", body.to_string());
        let response = self.server.handle(request, Some(Arc::new(user(ADMIN)))).await;
        let warnings = response.headers().get_all("warning").iter();
        warnings.map(|warning| warning.to_str().unwrap().to_owned()).collect()
    }

    /// Asks as the administrator, with headers.
    pub async fn ask_saying(
        &self,
        line: &str,
        headers: &[(&'static str, &str)],
        body: &Value,
    ) -> (u16, Value) {
        let content_type = match line.starts_with("PATCH") {
            true => "application/merge-patch+json",
            false => "application/json",
        };
        let mut request = Api::request(line, content_type, body.to_string());
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        read(self.server.handle(request, Some(Arc::new(self::user(ADMIN)))).await).await
    }

    /// What is known of the write that made a revision.
    pub async fn provenance(&self, revision: u64) -> Arc<Provenance> {
        let (after, to) = (Revision(revision - 1), Revision(revision));
        let changes = self.server.store.changes(&KeyRange::all(), after, to).await.unwrap();
        changes.batches[0].provenance.clone()
    }

    /// Asks with a token.
    pub async fn ask_bearing(&self, token: &str, line: &str) -> (u16, Value) {
        let mut request = Api::request(line, "application/json", String::new());
        let value = format!("Bearer {token}").parse().unwrap();
        request.headers_mut().insert("authorization", value);
        read(self.server.handle(request, None).await).await
    }

    pub async fn stream(&self, user: &str, path: &str) -> Body {
        let request = Api::request(&format!("GET {path}"), "", String::new());
        self.server.handle(request, Some(Arc::new(self::user(user)))).await.into_body()
    }

    /// Asks as the administrator, who must be answered well.
    pub async fn admin(&self, line: &str, body: Value) -> Value {
        let (code, answer) = self.ask(ADMIN, line, &body).await;
        assert!((200..300).contains(&code), "{line}: {answer}");
        answer
    }

    /// Asks as the administrator, who must be refused: the code and the message.
    pub async fn refused(&self, line: &str, body: Value) -> (u16, String) {
        let (code, answer) = self.ask(ADMIN, line, &body).await;
        assert!(code >= 400, "{line}: {answer}");
        (code, answer["message"].as_str().unwrap_or_default().to_owned())
    }

    fn request(line: &str, content_type: &str, text: String) -> Request<Full<Bytes>> {
        let (method, path) = line.split_once(' ').unwrap();
        let builder = Request::builder().method(method).uri(path);
        builder.header("content-type", content_type).body(Full::new(text.into())).unwrap()
    }
}

async fn read(response: Response<Body>) -> (u16, Value) {
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

fn user(text: &str) -> User {
    let mut parts = text.split('+');
    let name = parts.next().unwrap();
    User::authenticated(name, parts)
}

pub fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    pod
}

/// Waits until something holds, by asking again and again.
pub async fn eventually<F: Future<Output = bool>>(what: &str, holds: impl Fn() -> F) {
    let wait = async {
        while !holds().await {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(std::time::Duration::from_secs(20), wait).await;
    assert!(waited.is_ok(), "never: {what}");
}
