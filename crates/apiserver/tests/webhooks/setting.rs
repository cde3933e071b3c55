//! A server in this process, and a webhook as a process of its own.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use apiserver::identity::certificates::Authority;
use apiserver::identity::key_files::Directory;
use apiserver::identity::{AlternativeName, User};
use apiserver::serve::serve;
use apiserver::server::Server;
use apiserver::start::{self, Settings};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use rustls::ServerConfig;
use serde_json::{Value, json};
use store::{Environment, Retention, System, backends};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

const PATIENCE: Duration = Duration::from_secs(30);
pub const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A server, a webhook, and where they keep their files.
pub struct Setting {
    pub server: Arc<Server>,
    pub webhook: Webhook,
    directory: PathBuf,
    tls: Arc<ServerConfig>,
    _stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

/// A program that answers as its path says.
pub struct Webhook {
    child: Child,
    pub port: u16,
    /// Who signed its certificate, as a configuration says it.
    pub bundle: String,
    notes: PathBuf,
}

/// An answer to a request.
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

impl Setting {
    pub async fn start() -> Setting {
        Setting::start_with(Settings::default()).await
    }

    pub async fn start_with(settings: Settings) -> Setting {
        let name = format!("setpoint-webhooks-{:016x}", System.random());
        let directory = std::env::temp_dir().join(name);
        let webhook = Webhook::start(&directory);
        let store = backends::memory::open(Retention::default(), Arc::new(System));
        let (stop_sender, stop) = watch::channel(false);
        let listen = "127.0.0.1:6443".parse().unwrap();
        let (keys, host) = (directory.join("keys"), "localhost".to_owned());
        let options = start::Options { directory: keys, listen, host, stop };
        let handle = start::start_with(options, settings, store, Arc::new(System)).await.unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(handle.roles.follow());
        tasks.spawn(handle.configurations.follow());
        let (server, tls) = (handle.server, handle.tls);
        Setting { server, webhook, directory, tls, _stop: stop_sender, tasks }
    }

    /// Serves on a port, and tells the webhook where and with which token it may do all.
    pub async fn serve(&mut self) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        self.tasks.spawn(serve(self.server.clone(), listener, self.tls.clone()));
        let accounts = "/api/v1/namespaces/default/serviceaccounts";
        self.done(&format!("POST {accounts}"), &json!({"metadata": {"name": "hook"}})).await;
        let binding = json!({
            "metadata": {"name": "hook"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "hook", "namespace": "default"}],
        });
        let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
        self.done(&format!("POST {bindings}"), &binding).await;
        let token = self.done(&format!("POST {accounts}/hook/token"), &json!({"spec": {}})).await;
        let told = json!({"url": url, "token": token["status"]["token"]});
        std::fs::write(self.webhook.notes.with_extension("server"), told.to_string()).unwrap();
    }

    pub async fn ask_as(&self, user: User, line: &str, body: &Value) -> Answer {
        let (method, path) = line.split_once(' ').unwrap();
        let content_type = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder().method(method).uri(path);
        let request = request.header("content-type", content_type);
        let request = request.body(Full::new(Bytes::from(text))).unwrap();
        let answer = self.server.handle(request, Some(Arc::new(user))).await;
        let texts = answer.headers().get_all("warning").iter();
        let warnings = texts.map(|it| it.to_str().unwrap().to_owned()).collect();
        let code = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        Answer { code, body: serde_json::from_slice(&bytes).unwrap_or_default(), warnings }
    }

    /// Asks as the administrator.
    pub async fn ask(&self, line: &str, body: &Value) -> Answer {
        self.ask_as(admin(), line, body).await
    }

    /// Asks as the administrator, who must be answered well.
    pub async fn done(&self, line: &str, body: &Value) -> Value {
        let answer = self.ask(line, body).await;
        assert!((200..300).contains(&answer.code), "{line}: {}", answer.body);
        answer.body
    }

    /// Asks as the administrator, who must be refused: the code and the message.
    pub async fn refused(&self, line: &str, body: &Value) -> (u16, String) {
        let answer = self.ask(line, body).await;
        assert!(answer.code >= 400, "{line}: {}", answer.body);
        (answer.code, answer.message().to_owned())
    }

    /// Registers webhooks as a part of the program, and waits until they are asked.
    pub async fn register(&self, kind: &str, name: &str, webhooks: Value) {
        self.register_as(component(), kind, name, webhooks).await;
    }

    pub async fn register_as(&self, user: User, kind: &str, name: &str, webhooks: Value) {
        let registered = || match kind {
            "mutating" => self.server.webhooks.mutating.current(),
            _ => self.server.webhooks.validating.current(),
        };
        let count = || registered().map_or(0, |all| all.len());
        let expected = count() + webhooks.as_array().unwrap().len();
        let path = configurations(kind);
        let configuration = json!({"metadata": {"name": name}, "webhooks": webhooks});
        let made = self.ask_as(user, &format!("POST {path}"), &configuration).await;
        assert_eq!(made.code, 201, "{}", made.body);
        eventually("the webhooks are known", || count() == expected).await;
    }

    /// Takes a configuration away, and waits until nobody is asked.
    pub async fn unregister(&self, kind: &str, name: &str) {
        self.done(&format!("DELETE {}/{name}", configurations(kind)), &Value::Null).await;
        let webhooks = &self.server.webhooks;
        eventually("the webhooks are gone", || match kind {
            "mutating" => webhooks.mutating.current().is_none(),
            _ => webhooks.validating.current().is_none(),
        })
        .await;
    }
}

pub fn configurations(kind: &str) -> String {
    format!("/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations")
}

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Webhook {
    fn start(directory: &Path) -> Webhook {
        let keys = directory.join("webhook");
        std::fs::create_dir_all(&keys).unwrap();
        let files = Directory { path: keys.clone() };
        let now = System.now().0 / 1_000_000;
        let authority = Authority::load_or_create(&files, now).unwrap();
        let names = [
            AlternativeName::Dns("localhost".to_owned()),
            AlternativeName::Dns("hook.default.svc".to_owned()),
        ];
        let issued = authority.issue_serving(&names, now).unwrap();
        let (certificate, key) = (keys.join("tls.crt"), keys.join("tls.key"));
        std::fs::write(&certificate, issued.certificate_pem()).unwrap();
        std::fs::write(&key, issued.key_pem()).unwrap();
        let notes = keys.join("notes");
        std::fs::write(&notes, "").unwrap();
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/webhooks/server.py");
        let mut child = Command::new("python3")
            .args([&program, &certificate, &key, &notes])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().parse().unwrap();
        let bundle = STANDARD.encode(authority.bundle_pem());
        Webhook { child, port, bundle, notes }
    }

    /// Where it answers as a path says.
    pub fn client(&self, path: &str) -> Value {
        let url = format!("https://localhost:{}{path}", self.port);
        json!({"url": url, "caBundle": self.bundle})
    }

    /// A webhook that is asked about everything that happens to config maps.
    pub fn of(&self, name: &str, path: &str, more: Value) -> Value {
        let mut webhook = json!({
            "name": format!("{name}.example.com"),
            "clientConfig": self.client(path),
            "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"],
                "resources": ["configmaps"]}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        });
        for (field, value) in more.as_object().into_iter().flatten() {
            webhook[field] = value.clone();
        }
        webhook
    }

    /// What it was asked so far.
    pub fn notes(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.notes).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The paths that were asked, in order.
    pub fn paths(&self) -> Vec<String> {
        let text = |note: Value| note["path"].as_str().unwrap().to_owned();
        self.notes().into_iter().map(text).collect()
    }

    pub fn forget(&self) {
        std::fs::write(&self.notes, "").unwrap();
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn admin() -> User {
    User::authenticated("root", ["system:masters"])
}

/// A part of the program, which may do everything here.
pub fn component() -> User {
    let mut user = User::component("system:setpoint");
    user.groups.push("system:masters".into());
    user
}

pub fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"a": "1"}})
}

pub async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, wait).await.is_ok(), "never: {what}");
}
