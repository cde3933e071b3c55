//! A server in this process, and its administrator's client.

use std::path::PathBuf;
use std::sync::Arc;

use apiserver::registry::custom::follow::follow;
use apiserver::serve::{Limits, serve_within};
use apiserver::server::Server;
use apiserver::start;
use apiserver::traffic::Traffic;
use store::backends::embedded;
use store::{Environment, Retention, Store, System, backends};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::client::{Client, Credentials, Version};

/// How a server differs from the usual one.
#[derive(Default)]
pub struct Choices {
    pub limits: Limits,
    pub traffic: Traffic,
    /// Keeps its store here, and not in memory.
    pub directory: Option<PathBuf>,
    /// Another clock than the system's.
    pub environment: Option<Arc<dyn Environment>>,
}

/// A running server.
pub struct Cluster {
    pub server: Arc<Server>,
    pub credentials: Credentials,
    directory: PathBuf,
    keeps_directory: bool,
    stop: watch::Sender<bool>,
    serving: JoinSet<()>,
    followers: JoinSet<()>,
}

pub fn new_directory() -> PathBuf {
    std::env::temp_dir().join(format!("setpoint-watches-{:016x}", System.random()))
}

impl Cluster {
    pub async fn start() -> Cluster {
        Cluster::start_with(Choices::default()).await
    }

    pub async fn start_with(choices: Choices) -> Cluster {
        let keeps_directory = choices.directory.is_some();
        let directory = choices.directory.unwrap_or_else(new_directory);
        let environment = choices.environment.unwrap_or_else(|| Arc::new(System));
        let store: Arc<dyn Store> = if keeps_directory {
            let settings = embedded::Settings { directory: directory.join("store") };
            embedded::open(&settings, Retention::default(), Arc::new(System)).await.unwrap()
        } else {
            backends::memory::open(Retention::default(), Arc::new(System))
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let listen = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let (pki, host) = (directory.join("pki"), "localhost".to_owned());
        let options = start::Options { directory: pki, listen, host, stop: stopped };
        let mut handle = start::start(options, store, environment).await.unwrap();
        let server = Arc::get_mut(&mut handle.server).expect("nobody else has the server yet");
        server.traffic = choices.traffic;
        let admin = handle.keys.admin().unwrap();
        let credentials = Credentials::of(&admin.entry("test", "https://localhost"), listen);
        let (mut serving, mut followers) = (JoinSet::new(), JoinSet::new());
        followers.spawn(handle.roles.follow());
        followers.spawn(follow(handle.server.clone()));
        let server = handle.server.clone();
        serving.spawn(serve_within(handle.server, listener, handle.tls, choices.limits));
        Cluster { server, credentials, directory, keeps_directory, stop, serving, followers }
    }

    pub async fn client(&self, version: Version) -> Client {
        Client::connect(&self.credentials, version).await
    }

    /// Tells the server to stop.
    pub fn begin_stop(&self) {
        self.stop.send_replace(true);
    }

    /// Stops it and waits until it has.
    pub async fn stop(mut self) {
        self.begin_stop();
        while self.serving.join_next().await.is_some() {}
        self.followers.shutdown().await;
        self.server.store.close().await;
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if !self.keeps_directory {
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }
}
