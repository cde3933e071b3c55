//! A database that is missing is started as a container by `storage`, `start` and `web`, and by
//! nobody else. The images are made of the machine's own servers; no registry is asked.

use std::net::TcpListener;

use servers::Engine;

use crate::sandbox::{Sandbox, text};

const MYSQL: &str = "k8s_storage_mysql_mysql";
const ETCD: &str = "k8s_storage_etcd_etcd";

/// A port that was free a moment ago, as is the one after it.
fn free_port() -> u16 {
    loop {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
        let port = port.expect("a port").port();
        if port < u16::MAX && TcpListener::bind(("127.0.0.1", port + 1)).is_ok() {
            return port;
        }
    }
}

struct World {
    engine: Engine,
    sandbox: Sandbox,
}

impl World {
    fn start(storage: &str) -> World {
        let engine = Engine::docker().expect("dockerd starts");
        let mut sandbox = Sandbox::new();
        sandbox.set("SETPOINT_RUNTIME", "docker");
        let socket = format!("unix://{}", engine.socket().display());
        sandbox.set("CONTAINER_RUNTIME_ENDPOINT", socket);
        sandbox.write(".config.yaml", &format!("storage:\n{storage}"));
        World { engine, sandbox }
    }

    fn containers(&self) -> String {
        self.engine.ask(("GET", "/containers/json?all=1"), b"").expect("it answers").1
    }

    fn runs(&self, name: &str) -> bool {
        let path = format!("/containers/{name}/json");
        let (_, answer) = self.engine.ask(("GET", &path), b"").expect("it answers");
        answer.contains("\"Running\":true")
    }

    /// Runs a command until it is ready, does something, and stops it.
    fn during(&self, command: &[&str], what: impl FnOnce(&dyn Fn(&[&str]) -> String)) {
        let more = ["--listen", "127.0.0.1:0", "-o", "json"];
        let started = self.sandbox.start_command(&[command, &more].concat());
        let kubeconfig = text(&started.ready, "kubeconfig");
        let kubectl = |words: &[&str]| {
            let all = [&["--kubeconfig", kubeconfig.as_str()], words].concat();
            let ended = self.sandbox.kubectl(&all, "");
            assert_eq!(ended.code, Some(0), "{words:?}: {ended:?}");
            ended.stdout
        };
        what(&kubectl);
        let (code, stderr) = started.stop();
        assert_eq!(code, Some(0), "{stderr}");
    }

    /// What holds for either database. `during` is called while it runs.
    fn prove(&self, name: &str, during: impl Fn(&World)) {
        let refused = self.sandbox.run(&["controller"]);
        assert_ne!(refused.code, Some(0), "{refused:?}");
        assert!(!self.containers().contains(name), "a controller starts none");

        self.during(&["storage"], |kubectl| {
            assert!(self.runs(name));
            kubectl(&["create", "configmap", "kept", "--from-literal=k=v"]);
            during(self);
            assert!(self.runs(name));
            // Who finds it running does not stop it.
            let data = self.sandbox.work().join("second").display().to_string();
            let second =
                ["web", "--no-controllers", "--web-listen", "127.0.0.1:0", "--data-dir", &data];
            self.during(&second, |_| assert!(self.runs(name)));
            assert!(self.runs(name));
        });
        assert!(!self.runs(name), "who started it stops it");
        self.during(&["start", "--components", "api"], |kubectl| {
            let value = kubectl(&["get", "configmap", "kept", "-o", "jsonpath={.data.k}"]);
            assert_eq!(value, "v", "its data are kept");
        });

        // What somebody else has under that name is left alone.
        let path = format!("/containers/create?name={name}");
        let image = if name == ETCD { "quay.io/coreos/etcd:v3.5.0" } else { "mysql:8.0" };
        let foreign = format!("{{\"Image\": \"{image}\", \"Cmd\": [\"none\"]}}");
        let (status, _) = self.engine.ask(("POST", &path), foreign.as_bytes()).expect("it answers");
        assert_eq!(status, 201);
        let refused = self.sandbox.run(&["storage", "--listen", "127.0.0.1:0"]);
        assert_ne!(refused.code, Some(0), "{refused:?}");
        assert!(refused.stderr.contains("is not ours"), "{refused:?}");
        assert!(self.containers().contains(name));
    }
}

#[test]
fn an_etcd_that_is_missing_is_started_and_its_data_are_kept() {
    if !Engine::is_possible() {
        return;
    }
    let port = free_port();
    let settings = format!(
        "  type: etcd\n  etcd: {{endpoints: ['http://127.0.0.1:{port}'], dial_timeout: 1s}}\n"
    );
    let world = World::start(&settings);
    world.engine.make_etcd("quay.io/coreos/etcd:v3.5.0").expect("an image is made");
    // One that runs for others is not taken away from them.
    let elsewhere = settings.replace(&port.to_string(), &free_port().to_string());
    world.prove(ETCD, |world| {
        world.sandbox.write("elsewhere.yaml", &format!("storage:\n{elsewhere}"));
        let data = world.sandbox.work().join("third").display().to_string();
        let more = ["--listen", "127.0.0.1:0", "--data-dir", &data, "--config", "elsewhere.yaml"];
        let refused = world.sandbox.run(&[&["storage"], &more[..]].concat());
        assert_ne!(refused.code, Some(0), "{refused:?}");
        assert!(refused.stderr.contains("runs with other settings"), "{refused:?}");
    });
}

#[test]
fn a_mysql_that_is_missing_is_started_and_its_data_are_kept() {
    if !Engine::is_possible() {
        return;
    }
    let port = free_port();
    let settings = format!("  type: mysql\n  mysql: {{host: localhost, port: {port}}}\n");
    let world = World::start(&settings);
    world.engine.make_mysql("mysql:8.0").expect("an image is made");
    world.prove(MYSQL, |_| {});
}

#[test]
fn without_an_engine_that_is_said_and_a_server_elsewhere_is_not_replaced() {
    let port = free_port();
    let sandbox = Sandbox::new();
    let config = |host: &str| {
        format!(
            "storage:\n  type: etcd\n  etcd:\n    endpoints: ['http://{host}:{port}']\n    \
             dial_timeout: 1s\n"
        )
    };
    sandbox.write(".config.yaml", &config("127.0.0.1"));
    let refused = sandbox.run(&["storage", "--listen", "127.0.0.1:0"]);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(refused.stderr.contains("neither docker nor podman to start one"), "{refused:?}");
    sandbox.write(".config.yaml", &config("127.0.0.2"));
    let refused = sandbox.run(&["storage", "--listen", "127.0.0.1:0"]);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(!refused.stderr.contains("to start one"), "{refused:?}");
}
