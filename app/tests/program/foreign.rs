//! Clusters of others, by whatever their kubeconfig says: a program that prints a token, OpenID
//! Connect, a file with a token, proxies. The cluster is one of ours that the client knows nothing
//! of.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use serde_json::{Value, json};

use crate::sandbox::{Ended, Sandbox, Started};

/// A name that only the proxy can resolve.
const FAR_AWAY: &str = "https://cluster.example:6443";

/// Who asks, and the cluster that is asked.
struct Foreign {
    host: Sandbox,
    started: Started,
    client: Sandbox,
    token: String,
}

impl Foreign {
    fn new() -> Foreign {
        let host = Sandbox::new();
        let started = host.start(&["--components", "api", "--store", "memory"]);
        let admin = host.data().join("kubeconfig").display().to_string();
        let kubectl = |words: &[&str]| {
            let ended = host.kubectl(&[&["--kubeconfig", &admin], words].concat(), "");
            assert_eq!(ended.code, Some(0), "{ended:?}");
            ended.stdout.trim().to_owned()
        };
        kubectl(&["create", "serviceaccount", "ada"]);
        let account = "--serviceaccount=default:ada";
        kubectl(&["create", "clusterrolebinding", "ada", "--clusterrole=cluster-admin", account]);
        let token = kubectl(&["create", "token", "ada"]);
        Foreign { host, started, client: Sandbox::new(), token }
    }

    /// A kubeconfig of the client's, for a user and with more about the cluster.
    fn kubeconfig(&self, user: &Value, more: &Value) {
        let authority = self.host.data().join("pki/ca.pem");
        let mut cluster = json!({"server": format!("https://{}", self.started.address()),
            "certificate-authority": authority});
        for (key, value) in more.as_object().expect("an object") {
            cluster[key] = value.clone();
        }
        let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]});
        self.client.write("config", &config.to_string());
    }

    fn ask(&self, variables: &[(&str, &str)]) -> Ended {
        let words = ["get", "namespaces", "-o", "name", "--kubeconfig", "config"];
        let mut command = self.client.command(&words);
        command.envs(variables.iter().copied());
        crate::sandbox::end(command)
    }

    #[track_caller]
    fn answers(&self, variables: &[(&str, &str)]) {
        let ended = self.ask(variables);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.stdout.contains("namespace/kube-system\n"), "{ended:?}");
    }
}

#[test]
fn credentials_of_foreign_kubeconfigs_are_used() {
    let foreign = Foreign::new();
    let (client, token) = (&foreign.client, &foreign.token);
    let credential = json!({"apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential", "status": {"token": token}});
    let plugin = |name: &str, script: &str| {
        client.write(name, script);
        let path = client.work().join(name);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it can be run");
        json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": path,
            "args": ["from", "afar"], "interactiveMode": "Never",
            "env": [{"name": "WHO", "value": "ada"}]}})
    };
    // It is given its arguments and variables.
    let script = format!("#!/bin/sh\n[ \"$1$2$WHO\" = fromafarada ] && echo '{credential}'\n");
    foreign.kubeconfig(&plugin("signs-in", &script), &json!({}));
    foreign.answers(&[]);
    foreign.kubeconfig(&plugin("refuses", "#!/bin/sh\nexit 3\n"), &json!({}));
    let refused = foreign.ask(&[]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.error().contains("(SP1003)"), "{refused:?}");

    let provider = json!({"name": "oidc", "config": {"id-token": token, "client-id": "us",
        "idp-issuer-url": "https://127.0.0.1:1", "refresh-token": "none"}});
    foreign.kubeconfig(&json!({"auth-provider": provider}), &json!({}));
    foreign.answers(&[]);
    client.write("token", token);
    foreign.kubeconfig(&json!({"tokenFile": client.work().join("token")}), &json!({}));
    foreign.answers(&[]);
    foreign.kubeconfig(&json!({"token": "wrong"}), &json!({}));
    let unknown = foreign.ask(&[]);
    assert_eq!(unknown.code, Some(7), "{unknown:?}");
    assert!(unknown.error().contains("(SP1004)"), "{unknown:?}");

    // The same token lets Prometheus in, which has the form that it asks for.
    let accepted = "Accept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3";
    let headers = format!("Authorization: Bearer {token}\r\n{accepted}\r\n");
    let (status, text) = foreign.started.get_anonymously("/metrics", &headers);
    assert_eq!(status, 200, "{text}");
    assert!(text.contains("# TYPE apiserver_request counter\n") && text.contains("# EOF\n"));
}

/// A proxy that leads everybody to one address, and tells what it was asked for.
fn proxy(leads_to: SocketAddr) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let (told, asked) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let told = told.clone();
            thread::spawn(move || lead(stream, leads_to, &told));
        }
    });
    (address, asked)
}

fn lead(near: TcpStream, leads_to: SocketAddr, told: &mpsc::Sender<String>) -> Option<()> {
    let mut reader = BufReader::new(near.try_clone().ok()?);
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let mut line = String::new();
    while reader.read_line(&mut line).ok()? > 2 {
        line.clear();
    }
    told.send(first).ok()?;
    let far = TcpStream::connect(leads_to).ok()?;
    (&near).write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?;
    let (mut back, mut from_far) = (near.try_clone().ok()?, far.try_clone().ok()?);
    thread::spawn(move || std::io::copy(&mut from_far, &mut back));
    let mut far = far;
    std::io::copy(&mut reader, &mut far).ok()?;
    Some(())
}

#[test]
fn proxies_of_kubeconfigs_and_of_the_environment_are_used_as_kubectl_does() {
    let foreign = Foreign::new();
    let user = json!({"token": foreign.token});
    let (address, asked) = proxy(foreign.started.address().parse().expect("an address"));
    let url = format!("http://{address}");
    let far = json!({"server": FAR_AWAY, "tls-server-name": "localhost"});
    let mut own = far.clone();
    own["proxy-url"] = url.as_str().into();
    let came_by = || asked.try_iter().any(|line| line.starts_with("CONNECT cluster.example:6443"));
    foreign.kubeconfig(&user, &own);
    foreign.answers(&[]);
    assert!(came_by());
    foreign.kubeconfig(&user, &far);
    foreign.answers(&[("HTTPS_PROXY", &address)]);
    assert!(came_by());
    let around = foreign.ask(&[("HTTPS_PROXY", &url), ("NO_PROXY", "cluster.example")]);
    assert_eq!(around.code, Some(1), "{around:?}");
    assert!(around.error().contains("(SP1002)") && !came_by(), "{around:?}");
    // What is on this machine needs no proxy, not even one that is dead.
    foreign.kubeconfig(&user, &json!({}));
    foreign.answers(&[("HTTPS_PROXY", "http://127.0.0.1:1")]);
}
