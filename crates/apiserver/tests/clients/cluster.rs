//! A server in this process, and its clients: kubectl, kube-rs over TLS and without a socket.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use apiserver::identity::{GROUP_MASTERS, User, kubeconfig};
use apiserver::local::local_client;
use apiserver::registry::custom::follow::follow;
use apiserver::serve::serve;
use apiserver::server::Server;
use apiserver::start;
use kube::config::{KubeConfigOptions, Kubeconfig};
use store::{Environment, Retention, System, backends};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How long anything may take before a test has failed.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A running server.
pub struct Cluster {
    pub directory: PathBuf,
    pub server: Arc<Server>,
    /// The program that is run as kubectl.
    pub kubectl: PathBuf,
    pub url: String,
    _stop: watch::Sender<bool>,
    _tasks: JoinSet<()>,
}

impl Cluster {
    pub async fn start() -> Cluster {
        let name = format!("setpoint-clients-{:016x}", System.random());
        let directory = std::env::temp_dir().join(name);
        let store = backends::memory::open(Retention::default(), Arc::new(System));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let listen = listener.local_addr().unwrap();
        let (stop_sender, stop) = watch::channel(false);
        let (pki, host) = (directory.join("pki"), "localhost".to_owned());
        let options = start::Options { directory: pki, listen, host, stop };
        let handle = start::start(options, store, Arc::new(System)).await.unwrap();
        let admin = handle.keys.admin().unwrap();
        let url = format!("https://{listen}");
        let text = kubeconfig::alone(&admin.entry("test", &url));
        std::fs::write(directory.join("kubeconfig"), text).unwrap();
        let server = handle.server.clone();
        let mut tasks = JoinSet::new();
        tasks.spawn(handle.roles.follow());
        tasks.spawn(follow(handle.server.clone()));
        tasks.spawn(serve(handle.server, listener, handle.tls));
        let kubectl = PathBuf::from("kubectl");
        Cluster { directory, server, kubectl, url, _stop: stop_sender, _tasks: tasks }
    }

    /// Where the administrator's kubeconfig is.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// A client without a socket.
    pub fn local(&self, identity: User) -> kube::Client {
        local_client(&self.server, identity)
    }

    /// The administrator without a socket.
    pub fn local_admin(&self) -> kube::Client {
        self.local(User::authenticated("setpoint-admin", [GROUP_MASTERS]))
    }

    /// The administrator over TLS, as any program would be from the kubeconfig.
    pub async fn remote_admin(&self) -> kube::Client {
        // Without a choice rustls refuses to guess; another test may have chosen already.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let config = Kubeconfig::read_from(self.kubeconfig()).unwrap();
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(config, &options).await.unwrap();
        kube::Client::try_from(config).unwrap()
    }

    /// The administrator on both ways in, with a word for each.
    pub async fn admins(&self) -> [(&'static str, kube::Client); 2] {
        [("local", self.local_admin()), ("remote", self.remote_admin().await)]
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Where cargo puts what it builds, and we what the tests install.
pub fn target() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap()
}
