//! Images that are pulled: from a registry that asks for a password, and into a store that is full.

use std::path::Path;
use std::process::Command;

use servers::{Containerd, Engine, Registry};

use crate::engines::machine_at;
use crate::node::Machine;

/// What the engine has for all its data.
const ROOM: &str = "96m";
/// More than that.
const LARGE: usize = 120 << 20;

fn pod(name: &str, image: &str, more: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{\
         terminationGracePeriodSeconds: 0, containers: [{{name: main, image: {image:?}, \
         command: [sleep, '1000']}}]{more}}}}}\n"
    )
}

fn waits(machine: &Machine, pod: &str) {
    let line =
        format!("get pod {pod} -o jsonpath={{.status.containerStatuses[0].state.waiting.reason}}");
    machine.until(&line, |found| found == "ImagePullBackOff");
}

/// Who does not know the password waits, and who is told it pulls.
fn secrets(machine: &Machine, registry: &Registry) {
    let image = registry.image();
    machine.kubectl(&["apply", "-f", "-"], &pod("stranger", &image, ""));
    waits(machine, "stranger");
    let server = format!("--docker-server={}", registry.address);
    let login = ["--docker-username=me", "--docker-password=open"];
    let create = ["create", "secret", "docker-registry", "login", &server];
    machine.kubectl(&[&create[..], &login].concat(), "");
    let more = ", imagePullSecrets: [{name: login}]";
    machine.kubectl(&["apply", "-f", "-"], &pod("friend", &image, more));
    machine.phase("friend", "Running");
    let events = machine.until("get events", |events| events.contains("Successfully pulled"));
    for text in [format!("Pulling image \"{image}\""), format!("Failed to pull image \"{image}\"")]
    {
        assert!(events.contains(&text), "{text}: {events}");
    }
    machine.kubectl(&["delete", "pod", "stranger", "friend"], "");
}

#[test]
fn docker_pulls_with_a_secret_and_into_a_full_store_when_there_is_room_again() {
    if !Engine::is_possible() {
        return;
    }
    let engine = Engine::docker_within(ROOM).expect("dockerd starts");
    let machine = machine_at(engine.socket(), "docker");
    let registry = Registry::start(0, Some(("me", "open"))).expect("a registry starts");
    secrets(&machine, &registry);
    full(&machine, &engine.data());
}

/// What does not fit waits, holds up nobody, and runs when there is room.
fn full(machine: &Machine, data: &Path) {
    let large = Registry::start(LARGE, None).expect("a registry starts");
    machine.kubectl(&["apply", "-f", "-"], &pod("large", &large.image(), ""));
    machine.until("get events", |events| events.contains("no space left on device"));
    waits(machine, "large");
    assert!(machine.kubectl(&["get", "nodes"], "").contains(" Ready "));
    // Others are not in its way, nor is it in theirs.
    let small = Registry::start(0, None).expect("a registry starts");
    machine.kubectl(&["apply", "-f", "-"], &pod("small", &small.image(), ""));
    machine.phase("small", "Running");
    let grown = Command::new("mount").args(["-o", "remount,size=1g"]).arg(data).status();
    assert!(grown.expect("mount runs").success());
    machine.phase("large", "Running");
    machine.kubectl(&["delete", "pod", "--all", "--timeout=60s"], "");
}

#[test]
fn podman_pulls_with_a_secret() {
    if !Engine::is_possible() {
        return;
    }
    let registry = Registry::start(0, Some(("me", "open"))).expect("a registry starts");
    let engine = Engine::podman_trusting(&registry.address.to_string()).expect("podman starts");
    let machine = machine_at(engine.socket(), "podman");
    secrets(&machine, &registry);
}

#[test]
fn containerd_pulls_with_a_secret_and_into_a_full_store_when_there_is_room_again() {
    let containerd = Containerd::start_within(ROOM).expect("containerd starts");
    let machine = machine_at(containerd.socket(), "containerd");
    let registry = Registry::start(0, Some(("me", "open"))).expect("a registry starts");
    secrets(&machine, &registry);
    full(&machine, &containerd.data());
}
