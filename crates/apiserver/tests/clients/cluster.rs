//! A server in this process, and kubectl as its administrator.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use apiserver::bootstrap::{Roles, bootstrap};
use apiserver::identity::certificates::{Authority, ClientRequest};
use apiserver::identity::key_files::Directory;
use apiserver::identity::tls::{self, Serving};
use apiserver::identity::tokens::Tokens;
use apiserver::identity::{AlternativeName, User};

use apiserver::rbac::Authorizer;
use apiserver::resources::Registry;
use apiserver::serve::serve;
use apiserver::server::Server;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use store::{Environment, Retention, System, backends};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A running server.
pub struct Cluster {
    directory: PathBuf,
    _stop: watch::Sender<bool>,
    _tasks: JoinSet<()>,
}

impl Cluster {
    pub async fn start() -> Cluster {
        let name = format!("setpoint-clients-{:016x}", System.random());
        let directory = std::env::temp_dir().join(name);
        let store = backends::memory::open(Retention::default(), Arc::new(System));
        let registry = Registry::builtin();
        bootstrap(&*store, &registry, &System).await.unwrap();
        let authorizer = Arc::new(Authorizer::new());
        let roles = Roles::load(store.clone(), &registry, authorizer.clone()).await.unwrap();
        let (stop_sender, stop) = watch::channel(false);
        let environment = Arc::new(System);
        let files = Directory { path: directory.join("pki") };
        let server = Arc::new(Server {
            store,
            registry,
            authorizer,
            environment,
            documents: Default::default(),
            tokens: Tokens::load_or_create(&files, "https://kubernetes.default.svc").unwrap(),
            known_tokens: Default::default(),
            stop,
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();

        let now = server.now();
        let authority = Authority::load_or_create(&files, now).unwrap();
        let names = [AlternativeName::Address("127.0.0.1".parse().unwrap())];
        let issued = authority.serving(&files, &names, now).unwrap();
        let config = tls::server_config(tls::Options {
            serving: Serving::new(&issued).unwrap(),
            client_authorities: authority.bundle(),
            clock: Arc::new(rustls::time_provider::DefaultTimeProvider),
        })
        .unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(roles.follow());
        tasks.spawn(serve(server, listener, Arc::new(config)));
        let cluster = Cluster { directory, _stop: stop_sender, _tasks: tasks };
        cluster.write_kubeconfig(&authority, port, now);
        cluster
    }

    fn write_kubeconfig(&self, authority: &Authority, port: u16, now: i64) {
        let user = User::authenticated("admin", ["system:masters"]);
        let request = ClientRequest { user: &user, lifetime_seconds: 3_600 };
        let issued = authority.issue_client(request, now).unwrap();
        let encode = |text: String| STANDARD.encode(text);
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {
                "server": format!("https://127.0.0.1:{port}"),
                "certificate-authority-data": encode(authority.bundle_pem()),
            }}],
            "users": [{"name": "admin", "user": {
                "client-certificate-data": encode(issued.certificate_pem()),
                "client-key-data": encode(issued.key_pem()),
            }}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        });
        std::fs::write(self.directory.join("kubeconfig"), config.to_string()).unwrap();
    }

    /// Runs kubectl, with a manifest on its standard input.
    pub async fn run(&self, arguments: &[&str], input: &str) -> Output {
        let mut command = Command::new("kubectl");
        command
            .args(arguments)
            .env("KUBECONFIG", self.directory.join("kubeconfig"))
            .env("HOME", &self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let input = input.to_owned();
        let run = move || {
            use std::io::Write;
            let mut child = command.spawn().expect("kubectl is installed");
            child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
            child.wait_with_output().unwrap()
        };
        tokio::task::spawn_blocking(run).await.unwrap()
    }

    /// Runs kubectl, which must succeed, and answers what it printed.
    pub async fn kubectl(&self, line: &str) -> String {
        self.kubectl_with(line, "").await
    }

    pub async fn kubectl_with(&self, line: &str, input: &str) -> String {
        let arguments: Vec<&str> = line.split_whitespace().collect();
        let output = self.run(&arguments, input).await;
        let errors = String::from_utf8_lossy(&output.stderr);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "kubectl {line}\n{text}{errors}");
        text.into_owned()
    }

    /// Runs kubectl, which must fail, and answers what it complained of.
    pub async fn refused(&self, line: &str, input: &str) -> String {
        let arguments: Vec<&str> = line.split_whitespace().collect();
        let output = self.run(&arguments, input).await;
        assert!(!output.status.success(), "kubectl {line} went through");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
