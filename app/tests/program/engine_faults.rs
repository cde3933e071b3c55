//! What goes wrong with an engine and with what it holds, and comes right again without a start of
//! ours. Nothing that somebody else put there is ever removed.

use serde_json::json;
use servers::Engine;

use crate::engines::{IMAGE, machine_at, pod};
use crate::node::Machine;

/// It comes later.
const LATE: &str = "setpoint.test/late:1";

fn is_running(engine: &Engine, name: &str) -> bool {
    let (_, answer) =
        engine.ask(("GET", &format!("/containers/{name}/json")), b"").expect("it answers");
    answer.contains("\"Running\":true")
}

/// A container of somebody else, under a name that one of ours would have.
fn make_foreign(engine: &Engine, name: &str) {
    let config = json!({"Image": IMAGE, "Entrypoint": ["sleep", "1000"]}).to_string();
    let path = format!("/containers/create?name={name}");
    let (status, answer) = engine.ask(("POST", &path), config.as_bytes()).expect("it answers");
    assert_eq!(status, 201, "{answer}");
    engine.ask(("POST", &format!("/containers/{name}/start")), b"").expect("it answers");
    assert!(is_running(engine, name));
}

fn waits(machine: &Machine, pod: &str, reason: &str) {
    let line =
        format!("get pod {pod} -o jsonpath={{.status.containerStatuses[0].state.waiting.reason}}");
    machine.until(&line, |found| found == reason);
}

#[test]
fn what_goes_wrong_with_docker_is_told_and_comes_right_without_a_start() {
    if !Engine::is_possible() {
        return;
    }
    let mut engine = Engine::docker().expect("dockerd starts");
    engine.make_shell(IMAGE).expect("an image is made");
    let machine = machine_at(engine.socket(), "docker");
    a_name_that_is_taken(&machine, &engine);
    an_image_that_comes_later(&machine);
    machine.kubectl(&["apply", "-f", "-"], &pod("stays", "echo here; exec sleep 1000"));
    machine.phase("stays", "Running");
    engine.stop().expect("it stops");
    let ready = "get nodes -o jsonpath={.items[0].status.conditions[?(@.type==\"Ready\")].message}";
    machine.until(ready, |message| message.contains("container runtime is down"));
    machine.kubectl(&["apply", "-f", "-"], &pod("meanwhile", "exec sleep 1000"));
    engine.start_again().expect("it starts again");
    machine.until("get nodes", |nodes| nodes.contains(" Ready "));
    // Containers ended with their engine: one is started again, the other for the first time.
    let count = "get pod stays -o jsonpath={.status.containerStatuses[0].restartCount}";
    machine.until(count, |count| count == "1");
    for name in ["stays", "meanwhile"] {
        machine.until(&format!("get pod {name} --no-headers"), |row| row.contains("1/1"));
    }
    machine.kubectl(&["delete", "pod", "--all", "--timeout=60s"], "");
}

fn a_name_that_is_taken(machine: &Machine, engine: &Engine) {
    make_foreign(engine, "k8s_default_mine_main");
    machine.kubectl(&["apply", "-f", "-"], &pod("mine", "exec sleep 1000"));
    waits(machine, "mine", "CreateContainerError");
    machine.until("get events", |events| events.contains("is not of this node"));
    assert!(is_running(engine, "k8s_default_mine_main"));
    engine
        .ask(("DELETE", "/containers/k8s_default_mine_main?force=true"), b"")
        .expect("it answers");
    machine.phase("mine", "Running");
    machine.kubectl(&["delete", "pod", "mine"], "");
}

fn an_image_that_comes_later(machine: &Machine) {
    let late = pod("late", "exec sleep 1000").replace(IMAGE, LATE);
    let late = late.replace("stdin: true", "imagePullPolicy: IfNotPresent");
    machine.kubectl(&["apply", "-f", "-"], &late);
    waits(machine, "late", "ImagePullBackOff");
    machine.until("get events", |events| {
        events.contains("Failed to pull image \"setpoint.test/late:1\"")
    });
    let place = machine.sandbox.work().join("late");
    let archive = servers::shell_archive(&place, (LATE, "")).expect("an archive is made");
    let archive = archive.display().to_string();
    let missing = machine.sandbox.run(&["image", "load", "/no/such/archive"]);
    assert_ne!(missing.code, Some(0), "{missing:?}");
    let loaded = machine.sandbox.run(&["image", "load", &archive]);
    assert_eq!(loaded.code, Some(0), "{loaded:?}");
    assert!(loaded.stdout.contains(LATE), "{loaded:?}");
    machine.phase("late", "Running");
    machine.kubectl(&["delete", "pod", "late"], "");
}

/// k3 removed every container whose name began with `k8s_`.
#[test]
fn containers_of_others_outlive_the_clearing_of_a_cluster() {
    if !Engine::is_possible() {
        return;
    }
    let engine = Engine::docker().expect("dockerd starts");
    engine.make_shell(IMAGE).expect("an image is made");
    make_foreign(&engine, "k8s_default_foreign_main");
    let mut machine = Machine { sandbox: crate::sandbox::Sandbox::new(), started: None };
    machine.sandbox.set("SETPOINT_RUNTIME", "docker");
    let socket = format!("unix://{}", engine.socket().display());
    machine.sandbox.set("CONTAINER_RUNTIME_ENDPOINT", socket);
    let created = machine.sandbox.run(&["cluster", "create", "--storage", "embedded"]);
    assert_eq!(created.code, Some(0), "{created:?}");
    let data = machine.sandbox.work().join(".k3/node-1/data").display().to_string();
    // What lies in the directory of images is there when the node is.
    let archive = servers::shell_archive(&machine.sandbox.work().join("late"), (LATE, ""));
    std::fs::create_dir_all(format!("{data}/images")).expect("a directory");
    std::fs::copy(archive.expect("an archive"), format!("{data}/images/late.tar")).expect("a copy");
    let started = machine.sandbox.start(&["--store", "embedded", "--data-dir", &data]);
    let kubeconfig = format!("{data}/kubeconfig");
    let kubectl = |words: &[&str], manifest: &str| {
        machine.sandbox.kubectl(&[&["--kubeconfig", &kubeconfig], words].concat(), manifest)
    };
    kubectl(&["wait", "nodes", "--all", "--for=condition=Ready", "--timeout=60s"], "");
    kubectl(&["apply", "-f", "-"], &pod("ours", "trap exit TERM; while :; do sleep 0.1; done"));
    let late = pod("late", "trap exit TERM; while :; do sleep 0.1; done").replace(IMAGE, LATE);
    let late = late.replace("stdin: true", "imagePullPolicy: Never");
    kubectl(&["apply", "-f", "-"], &late);
    let wait = ["wait", "pod/ours", "pod/late", "--for=condition=Ready", "--timeout=60s"];
    let ready = kubectl(&wait, "");
    assert_eq!(ready.code, Some(0), "{ready:?}");
    assert_eq!(started.stop().0, Some(0));
    assert!(is_running(&engine, "k8s_default_ours_main"));
    let cleared = machine.sandbox.run(&["cluster", "clear", "--force"]);
    assert_eq!(cleared.code, Some(0), "{cleared:?}");
    let (_, left) = engine.ask(("GET", "/containers/json?all=1"), b"").expect("it answers");
    assert!(!left.contains("_ours"), "{left}");
    assert!(is_running(&engine, "k8s_default_foreign_main"));
}
