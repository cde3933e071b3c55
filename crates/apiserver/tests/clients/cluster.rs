//! A server in this process, and kubectl as its administrator.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use apiserver::identity::kubeconfig;
use apiserver::serve::serve;
use apiserver::start;
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
        let mut tasks = JoinSet::new();
        tasks.spawn(handle.roles.follow());
        tasks.spawn(serve(handle.server, listener, handle.tls));
        Cluster { directory, _stop: stop_sender, _tasks: tasks }
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
