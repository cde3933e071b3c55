//! Operators of other languages that reconcile a custom kind: written as their authors write them,
//! with the default settings of the framework, and run as processes of their own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::cluster::{Cluster, PATIENCE, target};

/// How often the world is looked at while a test waits.
const LOOK: Duration = Duration::from_millis(50);

/// A running operator; it ends with the test.
struct Operator {
    child: Child,
    log: PathBuf,
}

impl Operator {
    fn start(cluster: &Cluster, name: &str, command: &mut Command) -> Operator {
        let log = cluster.directory.join(name);
        let output = File::create(&log).unwrap();
        command
            .env("KUBECONFIG", cluster.kubeconfig())
            .env("HOME", &cluster.directory)
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output);
        Operator { child: command.spawn().unwrap(), log }
    }

    fn says(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Asks it to end, as a machine that is shut down would.
    async fn stop(mut self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        let end = async {
            while self.child.try_wait().unwrap().is_none() {
                tokio::time::sleep(LOOK).await;
            }
        };
        let ended = tokio::time::timeout(PATIENCE, end).await;
        assert!(ended.is_ok(), "the operator goes on:\n{}", self.says());
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until kubectl prints what is expected; a failure shows what the operator said.
async fn until(cluster: &Cluster, operator: &Operator, line: &str, expected: &str) {
    let mut last = String::new();
    let wait = async {
        loop {
            let output = cluster.run(&super::kubectl::run::words(line), "").await;
            last = String::from_utf8_lossy(&output.stdout).into_owned();
            if output.status.success() && last == expected {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    if tokio::time::timeout(PATIENCE, wait).await.is_err() {
        let said = operator.says();
        panic!("kubectl {line}: `{last}`, not `{expected}`; the operator said\n{said}");
    }
}

fn definition(kind: &str, plural: &str, schema: &str) -> String {
    let singular = kind.to_lowercase();
    format!(
        "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: {plural}.example.com}}
spec:
  group: example.com
  scope: Namespaced
  names: {{plural: {plural}, singular: {singular}, kind: {kind}}}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {{status: {{}}}}
    schema:
      openAPIV3Schema:
        type: object
        properties:{schema}"
    )
}

const NOTE_SCHEMA: &str = "
          spec: {type: object, required: [text], properties: {text: {type: string}}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
";

const NOTE: &str = "
apiVersion: example.com/v1
kind: Note
metadata: {name: first}
spec: {text: hello}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_of_kopf_creates_follows_updates_and_says_goodbye() {
    let cluster = Cluster::start().await;
    cluster.kubectl_with("create -f -", &definition("Note", "notes", NOTE_SCHEMA)).await;
    let python = tokio::task::spawn_blocking(|| servers::python_kopf(target()));
    let program = cluster.directory.join("operator.py");
    std::fs::write(&program, include_str!("python/operator.py")).unwrap();
    let mut command = Command::new(python.await.unwrap().unwrap());
    command.args(["-m", "kopf", "run", "--all-namespaces", "--verbose"]).arg(&program);
    let operator = Operator::start(&cluster, "kopf.log", &mut command);

    cluster.kubectl_with("create -f -", NOTE).await;
    let text = "get cm first-text -o jsonpath={.data.text}";
    until(&cluster, &operator, text, "hello").await;
    let owner = "get cm first-text -o \
        'jsonpath={.metadata.ownerReferences[0].kind}/{.metadata.ownerReferences[0].name}'";
    until(&cluster, &operator, owner, "Note/first").await;
    let answer = "get note first -o jsonpath={.status.created.child}";
    until(&cluster, &operator, answer, "first-text").await;
    let finalizers = "get note first -o jsonpath={.metadata.finalizers}";
    until(&cluster, &operator, finalizers, r#"["example.com/kopf"]"#).await;

    cluster.kubectl("patch note first --type=merge -p '{\"spec\":{\"text\":\"bye\"}}'").await;
    until(&cluster, &operator, text, "bye").await;
    let last = "get note first -o jsonpath={.status.last}";
    until(&cluster, &operator, last, "hello -> bye").await;
    cluster.kubectl("label note first loud=yes").await;
    until(&cluster, &operator, "get note first -o jsonpath={.status.loud}", "true").await;
    let events = "get events --field-selector involvedObject.name=first,reason=Written -o \
        'jsonpath={.items[0].involvedObject.kind}: {.items[0].message}'";
    until(&cluster, &operator, events, "Note: the text is written").await;

    cluster.kubectl("delete note first --timeout=20s").await;
    cluster.prints("get cm first-farewell -o name", "configmap/first-farewell\n").await;
    cluster.prints("get notes -o name", "").await;
    operator.stop().await;
}

const SITE_SCHEMA: &str = "
          spec:
            type: object
            required: [text, replicas]
            properties: {text: {type: string}, replicas: {type: integer, format: int32}}
          status:
            type: object
            properties:
              ready: {type: integer, format: int32}
              conditions:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [type]
                items:
                  type: object
                  required: [lastTransitionTime, message, reason, status, type]
                  properties:
                    lastTransitionTime: {type: string, format: date-time}
                    message: {type: string, maxLength: 32768}
                    observedGeneration: {type: integer, format: int64}
                    reason: {type: string, minLength: 1}
                    status: {type: string, enum: ['True', 'False', Unknown]}
                    type: {type: string}
";

const SITE: &str = "
apiVersion: example.com/v1
kind: Site
metadata: {name: home}
spec: {text: hello, replicas: 2}
";

/// The operator in Go; `cargo xtask test` has built it before.
async fn go_operator() -> PathBuf {
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/go_operator");
    let build = move || servers::go_program(target(), "operator", &module);
    tokio::task::spawn_blocking(build).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_of_controller_runtime_reconciles_and_hands_over() {
    let program = go_operator().await;
    let cluster = Cluster::start().await;
    cluster.kubectl_with("create -f -", &definition("Site", "sites", SITE_SCHEMA)).await;
    let first = Operator::start(&cluster, "first.log", &mut Command::new(&program));

    cluster.kubectl_with("create -f -", SITE).await;
    let text = "get cm home -o jsonpath={.data.text}/{.binaryData.bytes}";
    until(&cluster, &first, text, "hello/AP8=").await;
    let replicas = "get deploy home -o jsonpath={.spec.replicas}";
    until(&cluster, &first, replicas, "2").await;
    let ready = "get site home -o 'jsonpath={.status.conditions[?(@.type==\"Ready\")].reason}'";
    until(&cluster, &first, ready, "Waiting").await;
    let owner = "get deploy home -o 'jsonpath={.metadata.ownerReferences[0].kind}'";
    cluster.prints(owner, "Site").await;
    // Its informer tells it what others write to what it made.
    let status = r#"{"status":{"replicas":2,"readyReplicas":2,"availableReplicas":2}}"#;
    cluster.kubectl(&format!("patch deploy home --subresource=status -p '{status}'")).await;
    until(&cluster, &first, ready, "AllReady").await;
    cluster.kubectl("delete cm home").await;
    until(&cluster, &first, text, "hello/AP8=").await;
    let event = "get events --field-selector reason=Written -o 'jsonpath={.items[0].message}'";
    until(&cluster, &first, event, "text is written").await;

    let protobuf = "application/vnd.kubernetes.protobuf";
    let said = first.says();
    for line in [
        format!("POST /api/v1/namespaces/default/configmaps {protobuf} 201"),
        format!("POST /apis/apps/v1/namespaces/default/deployments {protobuf} 201"),
        "PUT /apis/example.com/v1/namespaces/default/sites/home/status application/json 200"
            .to_owned(),
    ] {
        assert!(said.contains(&line), "no `{line}` in\n{said}");
    }
    check_handover(&cluster, first, &program).await;
}

/// A second operator waits for the lease, takes it when the first ends, and goes on with the work.
async fn check_handover(cluster: &Cluster, first: Operator, program: &Path) {
    let holder = "get lease sites.example.com -o jsonpath={.spec.holderIdentity}";
    let before = cluster.kubectl(holder).await;
    assert!(!before.is_empty());
    let second = Operator::start(cluster, "second.log", &mut Command::new(program));
    first.stop().await;
    let change = "patch site home --type=merge -p '{\"spec\":{\"text\":\"bye\",\"replicas\":3}}'";
    cluster.kubectl(change).await;
    let text = "get cm home -o jsonpath={.data.text}";
    until(cluster, &second, text, "bye").await;
    let replicas = "get deploy home -o jsonpath={.spec.replicas}";
    until(cluster, &second, replicas, "3").await;
    let after = cluster.kubectl(holder).await;
    assert!(!after.is_empty() && after != before, "{before} {after}");

    cluster.kubectl("delete site home --timeout=20s").await;
    cluster.prints("get cm home-farewell -o name", "configmap/home-farewell\n").await;
    cluster.prints("get sites -o name", "").await;
    second.stop().await;
}
