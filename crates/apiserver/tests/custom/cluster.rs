//! A server without a network that follows its definitions.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use apiserver::identity::{GROUP_MASTERS, User};
use apiserver::registry::custom::follow::follow;
use apiserver::server::Server;
use apiserver::start;
use bytes::Bytes;
use futures::StreamExt;
use http_body_util::{BodyExt, BodyStream, Full};
use serde_json::{Value, json};
use store::{Environment, Retention, Store, System, backends};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How long anything may take before a test has failed.
pub const PATIENCE: Duration = Duration::from_secs(20);
pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

pub struct Cluster {
    pub server: Arc<Server>,
    pub store: Arc<dyn Store>,
    directory: PathBuf,
    _stop: watch::Sender<bool>,
    _followers: JoinSet<()>,
}

/// An answer: its code, its warnings, and its body if that is JSON.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub body: Value,
    pub warnings: Vec<String>,
}

impl Answer {
    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

impl Cluster {
    pub async fn start() -> Cluster {
        let store = backends::memory::open(Retention::default(), Arc::new(System));
        Cluster::start_on(store).await
    }

    /// A server, or another one, on a store.
    pub async fn start_on(store: Arc<dyn Store>) -> Cluster {
        let name = format!("setpoint-custom-{:016x}", System.random());
        let directory = std::env::temp_dir().join(name);
        Cluster::start_in(store, directory).await
    }

    pub async fn start_in(store: Arc<dyn Store>, directory: PathBuf) -> Cluster {
        let (stop_sender, stop) = watch::channel(false);
        let options = start::Options {
            directory: directory.join("pki"),
            listen: "192.0.2.7:6443".parse().unwrap(),
            host: "localhost".to_owned(),
            stop,
        };
        let handle = start::start(options, store.clone(), Arc::new(System)).await.unwrap();
        let mut followers = JoinSet::new();
        followers.spawn(handle.roles.follow());
        followers.spawn(follow(handle.server.clone()));
        let server = handle.server;
        Cluster { server, store, directory, _stop: stop_sender, _followers: followers }
    }

    /// A server with a definition of widgets, whose versions are given.
    pub async fn with_widgets(versions: Value) -> Cluster {
        let cluster = Cluster::start().await;
        cluster.done(&format!("POST {DEFINITIONS}"), widgets(versions)).await;
        cluster
    }

    /// Asks as an administrator; `line` is `METHOD path`, and PATCH is a merge patch.
    pub async fn ask(&self, line: &str, body: Value) -> Answer {
        let content = match line.starts_with("PATCH") {
            true => "application/merge-patch+json",
            false => "application/json",
        };
        let text = if body.is_null() { String::new() } else { body.to_string() };
        self.ask_with(line, &[("content-type", content)], text).await
    }

    pub async fn ask_with(&self, line: &str, headers: &[(&str, &str)], body: String) -> Answer {
        let response = self.send(line, headers, body).await;
        let code = response.status().as_u16();
        let warnings = response.headers().get_all("warning").iter();
        let warnings = warnings.map(|value| value.to_str().unwrap().to_owned()).collect();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        Answer { code, body: serde_json::from_slice(&bytes).unwrap_or_default(), warnings }
    }

    async fn send(
        &self,
        line: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> http::Response<apiserver::answer::Body> {
        let (method, path) = line.split_once(' ').unwrap();
        let mut request = http::Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        let user = User::authenticated("admin", [GROUP_MASTERS]);
        self.server.handle(request, Some(Arc::new(user))).await
    }

    /// Asks for what must go well, and answers with the body.
    pub async fn done(&self, line: &str, body: Value) -> Value {
        let answer = self.ask(line, body).await;
        assert!(answer.code < 300, "{line}: {answer:?}");
        answer.body
    }

    pub async fn get(&self, path: &str) -> Value {
        self.done(&format!("GET {path}"), Value::Null).await
    }

    /// Asks for what must be refused, and answers with the code and the message.
    pub async fn refused(&self, line: &str, body: Value) -> (u16, String) {
        let answer = self.ask(line, body).await;
        assert!(answer.code >= 400, "{line} went through: {answer:?}");
        (answer.code, answer.message().to_owned())
    }

    /// The names of a list.
    pub async fn names(&self, path: &str) -> Vec<String> {
        let list = self.get(path).await;
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits until a path is answered with a code.
    pub async fn until_code(&self, path: &str, code: u16) {
        let line = format!("GET {path}");
        let asked = async {
            while self.ask(&line, Value::Null).await.code != code {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, asked).await.unwrap_or_else(|_| panic!("{path}: {code}"));
    }

    /// The lines of a watch.
    pub async fn watch(&self, path: &str) -> Lines {
        let response = self.send(&format!("GET {path}"), &[], String::new()).await;
        assert_eq!(response.status(), 200);
        Lines { body: BodyStream::new(response.into_body()), rest: Vec::new() }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// The events of a watch, one at a time.
pub struct Lines {
    body: BodyStream<apiserver::answer::Body>,
    rest: Vec<u8>,
}

impl Lines {
    /// The next event; `None` at the end.
    pub async fn next(&mut self) -> Option<Value> {
        tokio::time::timeout(PATIENCE, self.read()).await.expect("the watch says something")
    }

    async fn read(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = self.body.next().await?.unwrap();
            if let Ok(data) = frame.into_data() {
                self.rest.extend_from_slice(&data);
            }
        }
    }
}

/// The definition of widgets.
pub fn widgets(versions: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {
                "plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"],
            },
            "versions": versions,
        },
    })
}

/// One version with a schema for its `spec`.
pub fn v1(spec: Value) -> Value {
    version(
        "v1",
        json!({"type": "object", "properties": {
            "spec": spec,
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }}),
    )
}

pub fn version(name: &str, schema: Value) -> Value {
    json!({
        "name": name, "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
    })
}

/// A widget with a `spec`.
pub fn widget(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec,
    })
}
