//! Services that lead to a virtual machine: what its guest says is heard at a port of the node and
//! at the address of the service. `booted.rs` has its machine go through it as root.

use std::io::Read;
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::booted::{manifests, serve};
use crate::network::in_a_pod;
use crate::node::Machine;
use crate::sandbox::Sandbox;

/// How long a guest that boots may take to answer on a slow machine that does other things too.
const ANSWER_MAX: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(100);
/// A user who may do nothing.
const NOBODY: u32 = 65_534;
/// What an SSH server says first.
const GREETING: &str = "SSH-2.0-";
const SLICES: &str = "get endpointslices -o json \
    -l endpointslice.kubernetes.io/managed-by=machine-launcher.setpoint.dev";

/// Makes a service that leads to the SSH server of a machine, and one that selects nobody.
pub fn expose(machine: &Machine, name: &str) {
    let service = |service: &str, selector: Value| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": service},
            "spec": {"type": "NodePort", "selector": selector,
                "ports": [{"name": "ssh", "port": 2222, "targetPort": 22}]}})
    };
    let all = [
        service("ssh", json!({"kubevirt.io/vm": name})),
        service("nobody", json!({"kubevirt.io/vm": "nobody"})),
    ];
    let list = json!({"apiVersion": "v1", "kind": "List", "items": all}).to_string();
    machine.kubectl(&["apply", "-f", "-"], &list);
}

/// The port of the node that leads to a service.
pub fn node_port(machine: &Machine, service: &str) -> u16 {
    let line = format!("get service {service} -o jsonpath={{.spec.ports[0].nodePort}}");
    machine.until(&line, |port| !port.is_empty()).parse().expect("a port")
}

fn greeting(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let mut said = vec![0; GREETING.len()];
    stream.read_exact(&mut said).ok()?;
    Some(String::from_utf8_lossy(&said).into_owned())
}

/// Waits until the guest answers at a port of the node.
pub fn answers(port: u16) {
    let began = Instant::now();
    while greeting(port).as_deref() != Some(GREETING) {
        assert!(began.elapsed() < ANSWER_MAX, "nobody answers at {port}");
        std::thread::sleep(LOOK);
    }
}

/// A program in a pod reaches the guest at the address of the service.
pub fn answers_a_pod(machine: &Machine) {
    let script = "python3 - <<'END'
import os, socket
at = (os.environ['SSH_SERVICE_HOST'], int(os.environ['SSH_SERVICE_PORT']))
print(socket.create_connection(at, 30).recv(8).decode())
END";
    let said = in_a_pod(machine, "asks", script);
    assert!(said.contains(GREETING), "{said}");
}

/// What says where machines are reached.
pub fn slices(machine: &Machine) -> Vec<Value> {
    let words: Vec<&str> = SLICES.split_whitespace().collect();
    let found: Value = serde_json::from_str(&machine.kubectl(&words, "")).expect("JSON");
    found["items"].as_array().cloned().unwrap_or_default()
}

/// Waits until nothing leads to any machine, and nobody answers at the port.
pub fn is_over(machine: &Machine, port: u16) {
    let began = Instant::now();
    while !slices(machine).is_empty() {
        assert!(began.elapsed() < ANSWER_MAX, "{:?}", slices(machine));
        std::thread::sleep(LOOK);
    }
    while greeting(port).is_some() {
        assert!(began.elapsed() < ANSWER_MAX, "somebody answers at {port}");
        std::thread::sleep(LOOK);
    }
}

/// A Wukong, with what is said of its network of pods.
fn exposed(machine: &Machine, url: &str, exposure: &Value) -> String {
    let all = manifests(&machine.sandbox, url);
    let mut all: Value = serde_json::from_str(&all).expect("JSON");
    all["items"][2]["spec"]["networks"][0]["serviceExposure"] = exposure.clone();
    all.to_string()
}

#[test]
fn a_wukong_exposes_its_guest_also_without_privilege() {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    let url = serve(&servers::guest_image(&target).expect("an image"));
    let mut sandbox = Sandbox::of_user(NOBODY);
    sandbox.write(".config.yaml", "machines: {images: everything}\n");
    sandbox.set("PATH", std::env::var("PATH").unwrap_or_default());
    let mut host = Machine { sandbox, started: None };
    host.begin();
    let machine = &host;
    machine.until("get crd -o name", |names| names.contains("virtualmachinerestores"));
    machine.until("get validatingwebhookconfigurations -o name", |names| {
        names.contains("novasphere-validating")
    });
    let mut exposure = json!({"enabled": true, "type": "NodePort",
        "ports": [{"name": "ssh", "port": 2222, "targetPort": 22}]});
    machine.kubectl(&["apply", "-f", "-"], &exposed(machine, &url, &exposure));
    let port = node_port(machine, "w-vm-service");
    answers(port);
    let said =
        "get wukong w -o jsonpath={.status.conditions[?(@.type==\"ServiceExposed\")].status}";
    machine.until(said, |status| status == "True");
    // One that stands still answers nobody.
    let path = "/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachineinstances/w-vm";
    machine.kubectl(&["replace", "--raw", &format!("{path}/pause"), "-f", "-"], "{}");
    let ready = "get endpointslices -o jsonpath={..conditions.ready}";
    machine.until(ready, |ready| ready.contains("false"));
    machine.kubectl(&["replace", "--raw", &format!("{path}/unpause"), "-f", "-"], "{}");
    answers(port);
    exposure["enabled"] = json!(false);
    let networks = json!({"spec": {"networks": [{"name": "default",
        "serviceExposure": exposure}]}});
    let patch = networks.to_string();
    machine.kubectl(&["patch", "wukong", "w", "--type=merge", "-p", &patch], "");
    machine.until("get services -o name", |names| !names.contains("w-vm-service"));
    is_over(machine, port);
    machine.kubectl(&["delete", "wukong", "w", "--timeout=60s"], "");
}
