//! Commands of a new user that used to mislead: waits end with the reason, `why` is short, logs of
//! pods are read without kubectl, jobs are shown, replaced and deleted.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tokio::time::Instant;

use crate::node::Machine;
use crate::sandbox::Ended;

const PATIENCE: Duration = Duration::from_secs(60);

fn pod(name: &str, container: &str, more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{set: talks}}}}\nspec:\n  \
         terminationGracePeriodSeconds: 0\n  containers: [{{name: main, image: none{container}}}]\n\
         {more}"
    )
}

#[test]
fn waits_end_with_the_reason_and_objects_are_explained_in_a_few_lines() {
    let machine = Machine::start();
    a_volume_that_cannot_be_mounted_ends_the_wait(&machine);
    a_timeout_names_the_last_line_of_output(&machine);
    an_image_on_the_process_runtime_has_the_right_hint(&machine);
    logs_of_pods_need_no_kubectl(&machine);
    the_output_of_get_can_be_planned(&machine);
    let why = machine.sandbox.run(&["why", "service/kubernetes"]);
    let first = why.stdout.lines().next().unwrap_or_default();
    let expected = "Running: Service kubernetes exists; no status conditions reported";
    assert_eq!(first, expected, "{why:?}");
    machine.kubectl(&["delete", "pods", "--all", "--grace-period=0", "--force"], "");
}

fn apply(machine: &Machine, manifest: &str, words: &[&str]) -> Ended {
    machine.sandbox.write("wait.yaml", manifest);
    machine.sandbox.run(&[&["apply", "-f", "wait.yaml", "--wait"], words].concat())
}

fn a_volume_that_cannot_be_mounted_ends_the_wait(machine: &Machine) {
    let volumes = "  volumes: [{name: v, configMap: {name: nowhere}}]\n";
    let container = ", command: [sleep, '100'], volumeMounts: [{name: v, mountPath: /tmp/v}]";
    let began = Instant::now();
    let failed = apply(machine, &pod("unmounted", container, volumes), &["--timeout", "5m"]);
    assert_eq!(failed.code, Some(4), "{failed:?}");
    assert!(began.elapsed() < PATIENCE, "{failed:?}");
    let told = "error: pod/unmounted failed: pod/unmounted: FailedMount: ";
    assert!(failed.stderr.contains(told), "{failed:?}");
    assert!(failed.stderr.contains("\nWarning FailedMount pod/unmounted: "), "{failed:?}");
    let why = machine.sandbox.run(&["why", "pod/unmounted"]);
    assert!(why.stdout.contains(" pod/unmounted: Warning FailedMount: "), "{why:?}");
    // The verdict, its cause with a hint, five lines, and how to see the rest.
    assert!(why.stdout.lines().count() <= 9, "{why:?}");
    let has_fraction = |line: &str| line.contains('.') && line.contains("Z ");
    assert!(!why.stdout.lines().any(has_fraction), "{why:?}");
    let all = machine.sandbox.run(&["why", "pod/unmounted", "--all"]);
    assert!(all.stdout.lines().any(has_fraction), "{all:?}");
}

fn a_timeout_names_the_last_line_of_output(machine: &Machine) {
    let container = ", command: [sh, -c, 'echo loading weights; exec sleep 100'], \
                     readinessProbe: {exec: {command: ['false']}}";
    let late = apply(machine, &pod("slow", container, ""), &["--timeout", "2s"]);
    assert_eq!(late.code, Some(3), "{late:?}");
    let told = "error: pod/slow timed out after 2s: loading weights";
    assert!(late.stderr.contains(told), "{late:?}");
}

fn an_image_on_the_process_runtime_has_the_right_hint(machine: &Machine) {
    machine.kubectl(&["run", "imageonly", "--image=nginx"], "");
    let reason = "get pod imageonly -o \
                  jsonpath={.status.containerStatuses[0].state.waiting.reason}";
    machine.until(reason, |reason| reason == "CreateContainerConfigError");
    let why = machine.sandbox.run(&["why", "pod/imageonly"]).stdout;
    for told in [
        "images are not supported by the process runtime: set `command` for container \
         \"imageonly\", or start with `--runtime docker`",
        "hint: set `command` for the container, or start the cluster with `--runtime docker`",
    ] {
        assert!(why.contains(told), "{told}: {why}");
    }
    assert!(!why.contains("ConfigMap"), "{why}");
}

fn logs_of_pods_need_no_kubectl(machine: &Machine) {
    // The commands of the sandbox have no PATH, so kubectl is not found.
    let logs = |words: &[&str]| machine.sandbox.run(&[&["logs"], words].concat());
    let talks = ", command: [sh, -c, 'echo one; echo two; exec sleep 100']";
    for name in ["talks-1", "talks-2"] {
        machine.kubectl(&["apply", "-f", "-"], &pod(name, talks, ""));
        machine.until(&format!("logs {name}"), |lines| lines.contains("two"));
    }
    assert_eq!(logs(&["talks-1"]).stdout, "one\ntwo\n");
    assert_eq!(logs(&["pod/talks-1", "--tail", "1"]).stdout, "two\n");
    let both = logs(&["talks-1", "talks-2", "--tail=1", "--since", "1h"]).stdout;
    assert_eq!(both, "[talks-1/main] two\n[talks-2/main] two\n");
    let labelled = logs(&["-l", "set=talks", "--tail", "1"]).stdout;
    assert!(labelled.contains("[talks-2/main] two\n"), "{labelled}");
    let line = logs(&["talks-1", "--tail", "1", "-o", "json"]).json();
    assert_eq!((&line["pod"], &line["line"]), (&"talks-1".into(), &"two".into()));
    let missing = logs(&["nothing"]);
    assert_eq!(missing.code, Some(5), "{missing:?}");
    assert!(missing.error().contains("pod \"nothing\" not found"), "{missing:?}");
    let wrong = logs(&["talks-1", "-c", "other"]);
    assert!(wrong.error().contains("has no container \"other\""), "{wrong:?}");
    assert!(wrong.stderr.contains("hint: its containers: main"), "{wrong:?}");
    assert_eq!(logs(&["operators", "trainer"]).code, Some(0));
    assert_eq!(logs(&["operators"]).code, Some(0));
    assert_eq!(logs(&[]).code, Some(2));
}

fn the_output_of_get_can_be_planned(machine: &Machine) {
    machine.kubectl(&["create", "configmap", "settings", "--from-literal=a=b"], "");
    let read = machine.kubectl(&["get", "configmap", "settings", "-o", "yaml"], "");
    assert!(read.contains("resourceVersion"), "{read}");
    // It changes after it was read.
    machine.kubectl(&["label", "configmap", "settings", "new=label"], "");
    machine.sandbox.write("read.yaml", &read.replace("a: b", "a: c"));
    let plan = machine.sandbox.run(&["plan", "-f", "read.yaml"]);
    assert_eq!(plan.code, Some(0), "{plan:?}");
    assert!(plan.stdout.contains("data.a") && !plan.stdout.contains("invalid"), "{plan:?}");
}

/// Prints one number after the other.
const TICKS: &str = "
import time
for tick in range(60):
    print('tick', tick, flush=True)
    time.sleep(0.1)
";

#[test]
fn jobs_are_shown_replaced_deleted_and_followed_across_a_restart_of_the_server() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = free.local_addr().expect("an address").to_string();
    drop(free);
    let start = ["start", "--listen", &address, "--store", "embedded", "-o", "json"];
    let mut machine = Machine { sandbox: crate::sandbox::Sandbox::new(), started: None };
    machine.started = Some(machine.sandbox.start_command(&start));
    machine.until("get nodes", |nodes| nodes.contains(" Ready "));
    machine.until("get clustertrainingruntimes -o name", |names| names.contains("torch-local"));
    jobs_are_replaced_and_deleted(&machine);

    machine.sandbox.write("ticks.py", TICKS);
    let mut command = machine.sandbox.command(&["train", "ticks.py", "--name", "ticks", "--watch"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let lines = reads(child.stdout.take().expect("stdout is piped"));
    let errors = reads(child.stderr.take().expect("stderr is piped"));
    let mut seen = Vec::new();
    while !seen.iter().any(|line| line == "[node-0] tick 5") {
        seen.push(lines.recv_timeout(PATIENCE).expect("lines"));
    }
    let started = machine.started.take().expect("it runs");
    started.signal("KILL");
    started.wait();
    machine.started = Some(machine.sandbox.start_command(&start));
    seen.extend(lines.iter());
    let code = child.wait().expect("it ends").code();
    let errors: Vec<String> = errors.iter().collect();
    assert_eq!(code, Some(0), "{seen:?} {errors:?}");
    let ticks: Vec<&String> = seen.iter().filter(|line| line.contains("] tick ")).collect();
    let expected: Vec<String> = (0..60).map(|tick| format!("[node-0] tick {tick}")).collect();
    assert_eq!(ticks, expected.iter().collect::<Vec<_>>(), "{errors:?}");
    let told = "log stream interrupted, reconnecting";
    assert!(errors.iter().any(|line| line.ends_with(told)), "{errors:?}");
    assert!(!errors.iter().any(|line| line.contains("rustls")), "{errors:?}");
}

/// Lines of a stream, read by a thread of their own.
fn reads(stream: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    receiver
}

fn jobs_are_replaced_and_deleted(machine: &Machine) {
    let train = |words: &[&str]| machine.sandbox.run(&[&["train"], words].concat());
    machine.sandbox.write("short.py", "print('done')\n");
    let first = train(&["short.py", "--name", "short", "--wait"]);
    assert_eq!(first.code, Some(0), "{first:?}");
    let told = "Created TrainJob short. Follow it with `setpoint train logs -f short`\n";
    assert_eq!(first.stdout, told, "{first:?}");
    let shown = train(&["show", "short"]).stdout;
    for start in ["progress  no progress reported", "command   ", "ended     2", "node-0 "] {
        assert!(shown.lines().any(|line| line.starts_with(start)), "{start}: {shown}");
    }
    assert!(shown.contains("/short.py\n") && !shown.contains("import "), "{shown}");
    let shown = train(&["show", "short", "-o", "json"]).json();
    assert_eq!(shown["ranks"][0]["state"], "succeeded", "{shown}");
    assert!(shown["started"].is_string() && shown["durationSeconds"].is_u64(), "{shown}");

    let again = train(&["short.py", "--name", "short"]);
    assert_eq!(again.code, Some(6), "{again:?}");
    assert!(again.error().contains("TrainJob \"short\" already exists"), "{again:?}");
    assert!(again.stderr.contains("hint: `--replace` deletes it and runs it again"), "{again:?}");
    let replaced = train(&["short.py", "--name", "short", "--replace", "--wait"]);
    assert_eq!(replaced.code, Some(0), "{replaced:?}");
    let removed = train(&["rm", "short", "nothing"]);
    assert_eq!(removed.stdout, "trainjob/short deleted\n", "{removed:?}");
    assert_eq!(removed.code, Some(5), "{removed:?}");
    assert!(removed.stderr.contains("TrainJob \"nothing\" not found"), "{removed:?}");
    assert_eq!(machine.kubectl(&["get", "trainjob,pods", "-o", "name"], ""), "");
}
