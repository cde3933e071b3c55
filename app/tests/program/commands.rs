//! The commands that k3 has as well: `storage`, `web`, `apply`, `cluster`.

use std::fs;

use serde_json::Value;

use crate::sandbox::{Sandbox, text};

const TWO: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: first}
data: {key: \"1\"}
---
apiVersion: v1
kind: List
items:
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: web, namespace: kube-public}
  spec:
    replicas: 0
    selector: {matchLabels: {app: web}}
    template:
      metadata: {labels: {app: web}}
      spec: {containers: [{name: web, image: web}]}
";

#[test]
fn storage_serves_the_api_and_acts_on_nothing() {
    let sandbox = Sandbox::new();
    let listen = ["--listen", "127.0.0.1:0", "-o", "json"];
    let started = sandbox.start_command(&[&["storage", "--store", "memory"], &listen[..]].concat());
    let kubeconfig = text(&started.ready, "kubeconfig");
    sandbox.write("two.yaml", TWO);
    let apply = |more: &[&str]| {
        let arguments = ["apply", "-f", "two.yaml", "--kubeconfig", &kubeconfig];
        sandbox.run(&[&arguments[..], more].concat())
    };
    let dry = apply(&["--dry-run"]);
    assert_eq!(dry.code, Some(0), "{dry:?}");
    assert!(dry.stdout.starts_with("configmap/first created (dry run)\n"), "{dry:?}");
    let first = apply(&[]);
    assert_eq!(first.stdout, "configmap/first created\ndeployment.apps/web created\n", "{first:?}");
    let again = apply(&[]);
    let unchanged = "configmap/first unchanged\ndeployment.apps/web unchanged\n";
    assert_eq!(again.stdout, unchanged, "{again:?}");
    sandbox.write("two.yaml", &TWO.replace("\"1\"", "\"2\""));
    let changed = apply(&["-o", "json"]);
    let line: Value = serde_json::from_str(changed.stdout.lines().next().unwrap_or_default())
        .unwrap_or_else(|error| panic!("{error}: {changed:?}"));
    assert_eq!((&line["what"], &line["namespace"]), (&"configured".into(), &"default".into()));
    let kubectl = |arguments: &[&str]| {
        sandbox.kubectl(&[&["--kubeconfig", &kubeconfig], arguments].concat(), "").stdout
    };
    // Nobody acts on the Deployment.
    assert_eq!(kubectl(&["get", "replicasets", "-A", "-o", "name"]), "");
    // What somebody else owns is not taken without a word.
    kubectl(&["patch", "configmap", "first", "-p", "{\"data\":{\"key\":\"3\"}}"]);
    let conflict = apply(&[]);
    assert_eq!(conflict.code, Some(6), "{conflict:?}");
    assert!(conflict.stderr.contains("conflict"), "{conflict:?}");
    assert_eq!(apply(&["--force-conflicts"]).code, Some(0));
    sandbox.write("two.yaml", "apiVersion: acme.io/v1\nkind: Rocket\nmetadata: {name: a}\n");
    let unknown = apply(&[]);
    assert!(matches!(unknown.code, Some(1 | 5)), "{unknown:?}");
    assert!(unknown.stderr.contains("does not serve Rocket of acme.io/v1"), "{unknown:?}");
    assert_eq!(sandbox.run(&["apply"]).code, Some(2));
    assert_eq!(started.stop().0, Some(0));
}

#[test]
fn web_has_a_page_and_starts_controllers_unless_told_otherwise() {
    let sandbox = Sandbox::new();
    let here = "127.0.0.1:0";
    let arguments = ["web", "--store", "memory", "--listen", here, "--web-listen", here];
    for (more, acts) in [(&["--runtime", "none"][..], true), (&["--no-controllers"], false)] {
        let started = sandbox.start_command(&[&arguments[..], &["-o", "json"], more].concat());
        let parts = started.ready["parts"].as_array().cloned().unwrap_or_default();
        let page = parts.iter().find(|part| part["name"] == "page").map(|part| &part["detail"]);
        let address = page.and_then(Value::as_str).unwrap_or_else(|| panic!("{parts:?}"));
        let fetch = |path: &str| {
            let curl = std::process::Command::new("curl")
                .args(["-s", "-m", "20", "-w", "\n%{http_code}", &format!("{address}{path}")])
                .output();
            String::from_utf8_lossy(&curl.expect("curl must run").stdout).into_owned()
        };
        for path in ["/", "/dashboard"] {
            let page = fetch(path);
            assert!(page.contains("<title>Setpoint</title>") && page.ends_with("200"), "{page}");
        }
        assert!(fetch("/healthz").ends_with("ok\n200"));
        assert!(fetch("/secrets").ends_with("404"));
        let controls = parts.iter().any(|part| {
            part["detail"].as_str().is_some_and(|detail| detail.contains("controllers"))
        });
        assert_eq!(controls, acts, "{parts:?}");
        assert_eq!(started.stop().0, Some(0));
    }
}

#[test]
fn a_cluster_is_made_and_only_it_is_cleared() {
    let sandbox = Sandbox::new();
    let refused = sandbox.run(&["cluster", "create", "--nodes", "2"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("use --storage mysql or --storage etcd"), "{refused:?}");
    let made = sandbox.run(&["cluster", "create", "--nodes", "2", "--storage", "etcd"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    assert!(made.stdout.contains("NODE_NAME=node-2 setpoint controller --config "), "{made:?}");
    let config = sandbox.work().join(".k3/node-2/.config.yaml");
    let written = fs::read_to_string(&config).expect("a configuration");
    assert!(written.contains("type: etcd") && written.contains("port: 8081"), "{written}");
    // What somebody wrote there stays.
    fs::write(&config, "storage: {type: memory}\n").expect("written");
    sandbox.run(&["cluster", "create", "--nodes", "2", "--storage", "etcd"]);
    assert_eq!(fs::read_to_string(&config).expect("there"), "storage: {type: memory}\n");

    sandbox.write("mine/file", "kept");
    for directory in [".", "/", "..", "mine"] {
        let refused = sandbox.run(&["cluster", "clear", "--force", "--dir", directory]);
        assert_eq!(refused.code, Some(1), "{refused:?}");
    }
    let asked = sandbox.run(&["cluster", "clear"]);
    assert_eq!(asked.code, Some(1), "nobody is there to be asked: {asked:?}");
    assert!(asked.stderr.contains("say --force"), "{asked:?}");
    assert!(config.exists());

    // What runs on it goes with it.
    let data = sandbox.work().join(".k3/node-1/data").display().to_string();
    let up = ["up", "--store", "memory", "--listen", "127.0.0.1:0", "--data-dir", &data];
    let up = sandbox.run(&up);
    assert_eq!(up.code, Some(0), "{up:?}");
    let cleared = sandbox.run(&["cluster", "clear", "--force", "-o", "json"]).json();
    assert_eq!(cleared["nodes"], 2, "{cleared}");
    assert!(!sandbox.work().join(".k3").exists());
    assert!(sandbox.work().join("mine/file").exists());
}
