//! Virtual machines, as users ask for them with kubectl: beside our own server, and by the operator
//! as a process of its own for a cluster that lacks the add-ons.

use std::net::UdpSocket;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::sandbox::{Ended, Sandbox, Started, text};

const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);
const NAMESPACE: &str = "novasphere-system";
const ACCOUNT: &str = "novasphere-controller-manager";
const SERVICE: &str = "novasphere-webhook-service";

/// A server, and how to ask it.
struct Cluster {
    sandbox: Sandbox,
    server: Started,
}

impl Cluster {
    fn start(components: &str) -> Cluster {
        let sandbox = Sandbox::new();
        let server = sandbox.start(&["--store", "memory", "--components", components]);
        Cluster { sandbox, server }
    }

    fn run(&self, line: &str, manifest: &str) -> Ended {
        let kubeconfig = text(&self.server.ready, "kubeconfig");
        let words = line.split(' ').filter(|word| !word.is_empty());
        let words: Vec<&str> = ["--kubeconfig", &kubeconfig].into_iter().chain(words).collect();
        self.sandbox.kubectl(&words, manifest)
    }

    #[track_caller]
    fn kubectl(&self, line: &str, manifest: &str) -> String {
        let ended = self.run(line, manifest);
        assert_eq!(ended.code, Some(0), "kubectl {line}: {ended:?}");
        ended.stdout.trim_end().to_owned()
    }

    #[track_caller]
    fn until(&self, line: &str, holds: impl Fn(&str) -> bool) -> String {
        let began = Instant::now();
        loop {
            let ended = self.run(line, "");
            if holds(ended.stdout.trim_end()) {
                return ended.stdout.trim_end().to_owned();
            }
            assert!(began.elapsed() < PATIENCE, "kubectl {line}: {ended:?}");
            std::thread::sleep(LOOK);
        }
    }
}

/// A class whose claims wait, so that nothing has to bind them; and a machine on it.
fn manifest(class: &str) -> String {
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": class, "annotations":
            {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "nobody", "volumeBindingMode": "WaitForFirstConsumer"});
    let spec = json!({"cpu": 1, "memory": "1Gi", "disks": [{"name": "root", "size": "1Gi"}],
        "networks": [{"name": "default"}, {"name": "lan"}]});
    let wukong = json!({"apiVersion": "vm.novasphere.dev/v1alpha1", "kind": "Wukong",
        "metadata": {"name": "w"}, "spec": spec});
    json!({"apiVersion": "v1", "kind": "List", "items": [class, wukong]}).to_string()
}

#[test]
fn a_machine_is_asked_for_and_taken_back_with_kubectl() {
    let cluster = Cluster::start("api,controllers,machines");
    cluster.until("get crd -o name", |names| names.contains("virtualmachinerestores"));
    cluster.until("get validatingwebhookconfigurations -o name", |names| {
        names.contains("novasphere-validating")
    });
    cluster.kubectl("apply -f -", &manifest("idle"));
    let line = "get vm,pvc,net-attach-def -o name";
    cluster.until(line, |names| names.contains("virtualmachine.kubevirt.io/w-vm"));
    let names = cluster.kubectl(line, "");
    assert!(names.contains("persistentvolumeclaim/w-root"), "{names}");
    assert!(names.contains("k8s.cni.cncf.io/w-lan-nad"), "{names}");
    // There is no node.
    let why = "get wukong w -o jsonpath={.status.conditions[?(@.type==\"Ready\")].reason}";
    cluster.until(why, |why| why == "Unschedulable");
    let shown = cluster.kubectl("get wukong", "");
    let (head, row) = shown.split_once('\n').expect("a head and a row");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(head), ["NAME", "PHASE", "READY", "NODE", "ADDRESS", "AGE"]);
    assert_eq!(words(row)[..3], ["w", "Error", "False"]);
    let shown = cluster.kubectl("get vm", "");
    assert!(shown.starts_with("NAME   AGE   STATUS"), "{shown}");
    let refused = cluster.run("patch wukong w --type merge -p {\"spec\":{\"cpu\":99}}", "");
    assert!(refused.stderr.contains("cpu"), "{refused:?}");
    // Nobody protects the claim but the server, and nobody uses it.
    cluster.kubectl("delete wukong w", "");
    cluster.until("get wukong,vm,pvc,net-attach-def -o name", str::is_empty);
}

/// The address by which a server of this machine reaches a process of this machine.
fn own_address() -> String {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    match socket.connect("192.0.2.1:9") {
        Ok(()) => socket.local_addr().expect("an address").ip().to_string(),
        Err(_) => "127.0.0.1".to_owned(),
    }
}

#[test]
fn an_operator_says_what_a_cluster_lacks() {
    let cluster = Cluster::start("api,controllers");
    let enable = ["--enable", "wukong"];
    let manifests = cluster.sandbox.run(&[&["operator", "manifests"], &enable[..]].concat());
    assert_eq!(manifests.code, Some(0), "{manifests:?}");
    // What a cluster has of others is not ours to install.
    assert!(!manifests.stdout.contains("virtualmachines.kubevirt.io"));
    cluster.kubectl("apply -f -", &manifests.stdout);
    cluster.until("get crd -o name", |names| names.contains("wukongsnapshots"));
    let token = cluster.kubectl(&format!("-n {NAMESPACE} create token {ACCOUNT}"), "");
    let view = cluster.kubectl("config view --raw -o json", "");
    let mut config: Value = serde_json::from_str(&view).expect("a kubeconfig");
    config["users"][0]["user"] = json!({"token": token});
    cluster.sandbox.write("account.json", &config.to_string());
    let words = ["operator", "--kubeconfig", "account.json", "-o", "json"];
    let free = ["--health-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0"];
    let webhooks = ["--webhook-address", "0.0.0.0:0"];
    let all = [&words[..], &enable, &free, &webhooks].concat();
    let operator = cluster.sandbox.start_command(&all);
    let address: std::net::SocketAddr =
        text(&operator.ready, "webhooks").parse().expect("an address");
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"namespace": NAMESPACE, "name": "replica",
            "labels": {"kubernetes.io/service-name": SERVICE}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [own_address()], "conditions": {"ready": true}}],
        "ports": [{"name": "webhook-server", "port": address.port()}]});
    cluster.kubectl("apply -f -", &slice.to_string());
    let applied = |said: &str| said.contains("wukong.vm.novasphere.dev/w");
    cluster.sandbox.write("w.yaml", &manifest("idle"));
    cluster.until("apply -f w.yaml", applied);
    let condition = "-o jsonpath={.status.conditions[?(@.type==\"AddOnsInstalled\")].message}";
    let said = cluster.until(&format!("get wukong w {condition}"), |said| !said.is_empty());
    assert_eq!(
        said,
        "the cluster does not have virtualmachines.kubevirt.io, \
         network-attachment-definitions.k8s.cni.cncf.io"
    );
    // It answers for the server over TLS, as it says what is missing.
    let refused = cluster.run("patch wukong w --type merge -p {\"spec\":{\"disks\":[]}}", "");
    assert!(refused.stderr.contains("at least one disk is required"), "{refused:?}");
    let lease = format!("-n {NAMESPACE} get lease b80af5bb.novasphere.dev -o name");
    cluster.until(&lease, |name| !name.is_empty());
    cluster.kubectl("delete wukong w", "");
    let (code, log) = operator.stop();
    assert_eq!(code, Some(0), "{log}");
}
