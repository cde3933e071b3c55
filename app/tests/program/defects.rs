//! What went wrong in the system that the mission describes, one test each, so that it does not
//! here. The rest of the list is where its part is tested: a loop of writes and pods that are never
//! tried again in `cluster.rs`, containers in `node.rs`.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::sandbox::{Ended, Sandbox, Started};

const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);
/// More than the hundred that used to be the length of a queue.
const MANY: usize = 400;

const WEB: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: none, command: [sleep, '600']}]
";

/// A server, and how to ask it.
struct Api<'a> {
    sandbox: &'a Sandbox,
    started: Started,
}

impl<'a> Api<'a> {
    fn start(sandbox: &'a Sandbox, arguments: &[&str]) -> Api<'a> {
        Api { sandbox, started: sandbox.start(arguments) }
    }

    fn kubeconfig(&self) -> String {
        self.started.ready["kubeconfig"].as_str().expect("a kubeconfig").to_owned()
    }

    fn run(&self, line: &str, manifest: &str) -> Ended {
        let words: Vec<&str> = line.split(' ').collect();
        let kubeconfig = self.kubeconfig();
        self.sandbox.kubectl(&[&["--kubeconfig", &kubeconfig], &words[..]].concat(), manifest)
    }

    #[track_caller]
    fn kubectl(&self, line: &str, manifest: &str) -> String {
        let ended = self.run(line, manifest);
        assert_eq!(ended.code, Some(0), "kubectl {line}: {ended:?}");
        ended.stdout.trim_end().to_owned()
    }

    #[track_caller]
    fn until(&self, line: &str, holds: impl Fn(&str) -> bool) {
        #[expect(clippy::disallowed_methods, reason = "a test waits for a real process")]
        let began = Instant::now();
        loop {
            let ended = self.run(line, "");
            if holds(ended.stdout.trim_end()) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "kubectl {line}: {ended:?}");
            std::thread::sleep(LOOK);
        }
    }
}

/// A store that two processes share, in a database of the sandbox's own.
fn share_a_store(sandbox: &Sandbox, name: &str) {
    let mariadb = servers::shared_mariadb().expect("MariaDB must start");
    let (host, port, user) = (&mariadb.host, mariadb.port, mariadb.user);
    let database = format!("defects_{}_{name}", std::process::id());
    let config = format!(
        "storage:\n  type: mysql\n  mysql: {{host: {host}, port: {port}, user: {user}, \
         password: \"{}\", database: {database}}}\n",
        mariadb.password
    );
    sandbox.write(".config.yaml", &config);
}

/// 3: a watch saw only what its own process wrote. And 14: pods outlived their Deployment.
#[test]
fn what_one_process_writes_another_acts_on() {
    let sandbox = Sandbox::new();
    share_a_store(&sandbox, "shared");
    let api = Api::start(&sandbox, &["--components", "api"]);
    let controller = sandbox.start_command(&["controller", "-o", "json"]);
    api.kubectl("create -f -", WEB);
    api.kubectl("rollout status deployment/web --timeout=60s", "");
    api.kubectl("delete deployment/web", "");
    api.until("get pods,replicasets -o name", str::is_empty);
    assert_eq!(controller.stop().0, Some(0));
    assert_eq!(api.started.stop().0, Some(0));
}

/// 5: events were dropped when a hundred waited. 18 is beside it: all of them find a node.
#[test]
fn no_event_is_dropped_when_many_come_at_once() {
    let sandbox = Sandbox::new();
    let fake = ["--fake-nodes", "8", "--fake-node-resources", "cpu=64,pods=200"];
    let api = Api::start(&sandbox, &[&["--store", "memory"], &fake[..]].concat());
    let pods: Vec<String> = (0..MANY)
        .map(|number| {
            format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: p{number}}}\n\
                 spec: {{containers: [{{name: a, image: a}}]}}\n"
            )
        })
        .collect();
    // Checking so many objects takes kubectl most of the time that it is given.
    api.kubectl("create --validate=false -f -", &pods.join("---\n"));
    let running = "get pods --field-selector=status.phase=Running --no-headers";
    api.until(running, |lines| lines.lines().count() == MANY);
}

/// 6: whoever wrote last won.
#[test]
fn an_update_of_something_older_is_refused() {
    let sandbox = Sandbox::new();
    let api = Api::start(&sandbox, &["--store", "memory", "--components", "api"]);
    api.kubectl("create configmap a --from-literal=k=1", "");
    let old = api.kubectl("get configmap a -o yaml", "");
    api.kubectl("patch configmap a --type=merge -p {\"data\":{\"k\":\"2\"}}", "");
    let refused = api.run("replace -f -", &old.replace("\"1\"", "\"3\""));
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("the object has been modified"), "{refused:?}");
    assert_eq!(api.kubectl("get configmap a -o jsonpath={.data.k}", ""), "2");
}

/// 7 and 8: on MySQL an update was shown as an addition too, on etcd deletions were lost or came
/// twice. 10: watches were server-sent events. A watch is a line of JSON for each change, once.
#[test]
fn a_watch_shows_every_change_once_and_as_what_it_is() {
    for store in ["memory", "mysql", "etcd"] {
        let sandbox = Sandbox::new();
        share_a_store(&sandbox, &format!("watched_{store}"));
        if store == "etcd" {
            let etcd = servers::shared_etcd().expect("etcd must start");
            let endpoint = &etcd.endpoint;
            sandbox.write(
                ".config.yaml",
                &format!("storage:\n  etcd: {{endpoints: [\"{endpoint}\"]}}\n"),
            );
        }
        let api = Api::start(&sandbox, &["--store", store, "--components", "api"]);
        let namespace = format!("watched-{}", std::process::id());
        api.kubectl(&format!("create namespace {namespace}"), "");
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        let list = api.kubectl(&format!("get --raw {path}?limit=1"), "");
        let list: Value = serde_json::from_str(&list).expect("a list");
        let revision = list["metadata"]["resourceVersion"].as_str().expect("a revision");
        for line in [
            "create configmap a --from-literal=k=1",
            "patch configmap a --type=merge -p {\"data\":{\"k\":\"2\"}}",
            "delete configmap a",
        ] {
            api.kubectl(&format!("-n {namespace} {line}"), "");
        }
        let events = changes_since(&api, &format!("{path}?watch=true&resourceVersion={revision}"));
        let expected = [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")];
        let expected = expected.map(|(kind, value)| (kind.to_owned(), value.to_owned()));
        assert_eq!(events, expected, "{store}");
        api.kubectl(&format!("delete namespace {namespace} --wait=false"), "");
    }
}

/// The events of a watch up to the first deletion.
fn changes_since(api: &Api<'_>, path: &str) -> Vec<(String, String)> {
    let mut watch = Command::new("kubectl");
    watch.args(["--kubeconfig", &api.kubeconfig(), "get", "--raw", path]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().expect("kubectl must run");
    let output = BufReader::new(watch.stdout.take().expect("its output"));
    let mut events = Vec::new();
    for line in output.lines() {
        let event: Value = serde_json::from_str(&line.expect("text")).expect("a line is an event");
        if event["object"]["metadata"]["name"] != "a" {
            continue;
        }
        let kind = event["type"].as_str().unwrap_or_default().to_owned();
        let value = event["object"]["data"]["k"].as_str().unwrap_or_default().to_owned();
        let is_last = kind == "DELETED";
        events.push((kind, value));
        if is_last {
            break;
        }
    }
    let _ = watch.kill();
    let _ = watch.wait();
    events
}

/// 9: kinds were made by a capital letter before the plural. 11: there were no namespaces, custom
/// resources or users.
#[test]
fn kinds_namespaces_custom_resources_and_users_are_what_clients_expect() {
    let sandbox = Sandbox::new();
    let api = Api::start(&sandbox, &["--store", "memory", "--components", "api"]);
    for (plural, kind) in [
        ("/api/v1/configmaps", "ConfigMapList"),
        ("/apis/apps/v1/statefulsets", "StatefulSetList"),
        ("/apis/networking.k8s.io/v1/networkpolicies", "NetworkPolicyList"),
        ("/api/v1/endpoints", "EndpointsList"),
    ] {
        let list = api.kubectl(&format!("get --raw {plural}"), "");
        let list: Value = serde_json::from_str(&list).expect("a list");
        assert_eq!(list["kind"], kind);
    }
    let crd = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: policies.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: policies, singular: policy, kind: Policy}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";
    api.kubectl("create namespace apart", "");
    api.kubectl("create -f -", crd);
    api.kubectl("wait --for=condition=Established crd/policies.example.com --timeout=20s", "");
    let one = "apiVersion: example.com/v1\nkind: Policy\nmetadata: {name: a, namespace: apart}\n";
    api.kubectl("create -f -", one);
    assert_eq!(api.kubectl("-n apart get policies -o name", ""), "policy.example.com/a");
    let refused = api.run("--as=nobody get secrets", "");
    assert!(refused.stderr.contains("User \"nobody\" cannot list resource"), "{refused:?}");
}

/// Kinds that no table was made for are kept whole, and read by the next process as they were.
#[test]
fn objects_of_kinds_that_nobody_knew_come_back_as_they_were() {
    let crd = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: oddities.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: oddities, singular: oddity, kind: Oddity}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";
    let one = "---\n{apiVersion: example.com/v1, kind: Oddity, metadata: {name: a}, \
               deep: {list: [1, -2.5, \
               null, {a: 'ü \\ \" %'}], empty: {}, large: 9007199254740993}, spec: text}";
    let sandbox = Sandbox::new();
    share_a_store(&sandbox, "unknown");
    let shown = || {
        let api = Api::start(&sandbox, &["--components", "api"]);
        if api.run("get crd oddities.example.com", "").code != Some(0) {
            api.kubectl("create -f -", crd);
            api.kubectl(
                "wait --for=condition=Established crd/oddities.example.com --timeout=20s",
                "",
            );
            api.kubectl("create -f -", one);
        }
        let path = "/apis/example.com/v1/namespaces/default/oddities/a";
        let text = api.kubectl(&format!("get --raw {path}"), "");
        assert_eq!(api.started.stop().0, Some(0));
        text
    };
    let (first, second) = (shown(), shown());
    assert_eq!(first, second);
    assert!(first.contains("\"large\":9007199254740993") && first.contains("-2.5"), "{first}");
}

/// 15: a configuration for memory still spoke to MySQL.
#[test]
fn with_memory_nobody_speaks_to_a_database() {
    let sandbox = Sandbox::new();
    let database = TcpListener::bind("127.0.0.1:0").expect("a port");
    database.set_nonblocking(true).expect("it must not wait");
    let port = database.local_addr().expect("an address").port();
    let config = format!(
        "storage:\n  type: memory\n  mysql: {{host: 127.0.0.1, port: {port}}}\n  \
         etcd: {{endpoints: [\"http://127.0.0.1:{port}\"]}}\n"
    );
    sandbox.write(".config.yaml", &config);
    let api = Api::start(&sandbox, &[]);
    api.kubectl("create configmap a", "");
    assert_eq!(api.started.stop().0, Some(0));
    let asked = database.accept().map(|(_, from)| from);
    assert!(asked.is_err(), "somebody asked: {asked:?}");
}
