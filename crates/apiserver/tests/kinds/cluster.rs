//! A server without a network: requests go in, answers come out.

use std::path::PathBuf;
use std::sync::Arc;

use apiserver::identity::{GROUP_MASTERS, User};
use apiserver::server::Server;
use apiserver::start::{self, Settings};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use store::{Environment, Retention, Store, System, backends};
use tokio::sync::watch;

pub struct Cluster {
    pub server: Arc<Server>,
    pub store: Arc<dyn Store>,
    directory: PathBuf,
    _stop: watch::Sender<bool>,
}

/// An answer: its code, and its body if that is JSON.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub body: Value,
    pub retry_after: Option<String>,
}

impl Cluster {
    pub async fn start() -> Cluster {
        Cluster::start_with(Settings::default()).await
    }

    pub async fn start_with(settings: Settings) -> Cluster {
        let store = backends::memory::open(Retention::default(), Arc::new(System));
        Cluster::start_on(store, settings).await
    }

    /// Another process on the same store.
    pub async fn start_on(store: Arc<dyn Store>, settings: Settings) -> Cluster {
        let name = format!("setpoint-kinds-{:016x}", System.random());
        let directory = std::env::temp_dir().join(name);
        let (stop_sender, stop) = watch::channel(false);
        let options = start::Options {
            directory: directory.join("pki"),
            listen: "192.0.2.7:6443".parse().unwrap(),
            host: "localhost".to_owned(),
            stop,
        };
        let handle = start::start_with(options, settings, store.clone(), Arc::new(System));
        let server = handle.await.unwrap().server;
        Cluster { server, store, directory, _stop: stop_sender }
    }

    /// Asks as an administrator.
    pub async fn ask(&self, line: &str, body: Value) -> Answer {
        let user = User::authenticated("admin", [GROUP_MASTERS]);
        self.ask_as(user, line, body).await
    }

    /// `line` is `METHOD path`; PATCH is a merge patch.
    pub async fn ask_as(&self, user: User, line: &str, body: Value) -> Answer {
        let (method, path) = line.split_once(' ').unwrap();
        let content = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content)
            .header("accept", "application/json")
            .body(Full::new(Bytes::from(text)))
            .unwrap();
        let response = self.server.handle(request, Some(Arc::new(user))).await;
        let code = response.status().as_u16();
        let header = response.headers().get("retry-after");
        let retry_after = header.map(|value| value.to_str().unwrap().to_owned());
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or_default();
        Answer { code, body, retry_after }
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
        (answer.code, answer.body["message"].as_str().unwrap_or_default().to_owned())
    }

    /// The names of a list.
    pub async fn names(&self, path: &str) -> Vec<String> {
        let list = self.get(path).await;
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
