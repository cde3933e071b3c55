//! A server in this process, asked directly or over TLS.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use apiserver::identity::User;
use apiserver::rbac::RoleReference;
use apiserver::serve::{Limits, serve_within};
use apiserver::server::Server;
use apiserver::start::{self, Settings};
use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use store::{Environment, Retention, Store, System, Timestamp, backends};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A running server.
pub struct World {
    pub directory: PathBuf,
    pub server: Arc<Server>,
    /// As the server was given it: Secrets are sealed.
    pub store: Arc<dyn Store>,
    /// Where it listens, if it does.
    pub address: std::net::SocketAddr,
    /// The certificate of an administrator and its key, as PEM.
    pub admin: (String, String),
    pub authority: String,
    _stop: watch::Sender<bool>,
    _tasks: JoinSet<()>,
}

/// Differences from the usual server.
#[derive(Default)]
struct Choices {
    settings: Settings,
    limits: Limits,
    store: Option<Arc<dyn Store>>,
}

/// An answer, read to its end.
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl World {
    /// At a time of its own, which does not pass.
    pub async fn still() -> World {
        World::start(Arc::new(Still(AtomicU64::new(1))), Choices::default()).await
    }

    pub async fn real() -> World {
        World::start(Arc::new(System), Choices::default()).await
    }

    pub async fn with(settings: Settings) -> World {
        World::start(Arc::new(System), Choices { settings, ..Choices::default() }).await
    }

    pub async fn limited(limits: Limits) -> World {
        World::start(Arc::new(System), Choices { limits, ..Choices::default() }).await
    }

    /// Another server on the same store.
    pub async fn restart(&self) -> World {
        let store = Some(self.store.clone());
        World::start(Arc::new(System), Choices { store, ..Choices::default() }).await
    }

    async fn start(environment: Arc<dyn Environment>, choices: Choices) -> World {
        let Choices { settings, limits, store } = choices;
        let name = format!("setpoint-proofs-{:016x}", System.random());
        let directory = std::env::temp_dir().join(name);
        let memory = || backends::memory::open(Retention::default(), environment.clone());
        let store: Arc<dyn Store> = store.unwrap_or_else(memory);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop_sender, stop) = watch::channel(false);
        let (pki, host) = (directory.join("pki"), "localhost".to_owned());
        let options = start::Options { directory: pki, listen: address, host, stop };
        let handle =
            start::start_with(options, settings, store.clone(), environment).await.unwrap();
        let admin = handle.keys.admin().unwrap();
        let entry = admin.entry("test", "");
        let authority = entry.authority_pem.to_owned();
        let admin = match entry.credential {
            apiserver::identity::kubeconfig::Credential::Certificate {
                certificate_pem,
                key_pem,
            } => (certificate_pem.to_owned(), key_pem.to_owned()),
            apiserver::identity::kubeconfig::Credential::Token(_) => unreachable!(),
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(handle.roles.follow());
        tasks.spawn(handle.configurations.follow());
        tasks.spawn(serve_within(handle.server.clone(), listener, handle.tls, limits));
        let server = handle.server;
        let _stop = stop_sender;
        World { directory, server, store, address, admin, authority, _stop, _tasks: tasks }
    }

    /// Returns when the index of roles has seen all that is stored: it sees a role made for this
    /// after all others.
    pub async fn follow_roles(&self) {
        const NAME: &str = "the-last-one";
        let collection = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
        let body = format!("{{\"metadata\":{{\"name\":\"{NAME}\"}},\"rules\":[]}}");
        let create = Request::post(collection).body(Full::new(body.into())).unwrap();
        assert_eq!(self.ask(&admin(), create).await.status, 201);
        let role = RoleReference { kind: "ClusterRole", namespace: "", name: NAME };
        let is_known = || self.server.authorizer.rules_of(&role).is_some();
        while !is_known() {
            tokio::task::yield_now().await;
        }
        let delete = Request::delete(format!("{collection}/{NAME}")).body(Full::default()).unwrap();
        assert_eq!(self.ask(&admin(), delete).await.status, 200);
        // Else the next one would be taken for known before it is.
        while is_known() {
            tokio::task::yield_now().await;
        }
    }

    /// Asks in this process.
    pub async fn ask(&self, user: &User, request: Request<Full<Bytes>>) -> Answer {
        let answer = self.server.handle(request, Some(Arc::new(user.clone()))).await;
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer { status: parts.status.as_u16(), headers: parts.headers, body }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Somebody who passes every authorization.
pub fn admin() -> User {
    User::authenticated("admin", ["system:masters"])
}

/// A clock that stands still, and chance that can be told beforehand.
struct Still(AtomicU64);

impl Environment for Still {
    fn now(&self) -> Timestamp {
        // 2030-01-01T00:00:00Z
        Timestamp(1_893_456_000_000_000)
    }

    fn random(&self) -> u64 {
        // An odd factor spreads a count over all bits, each value once.
        self.0.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}
