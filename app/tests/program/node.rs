//! Pods that really run, as processes of this machine, used through kubectl.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::sandbox::{Ended, Sandbox, Started};

const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

/// A running program, and what it left running.
pub struct Machine {
    pub sandbox: Sandbox,
    pub started: Option<Started>,
}

impl Drop for Machine {
    /// Containers outlive the program; a test that fails must leave none.
    fn drop(&mut self) {
        for record in records(self.sandbox.data().join("node/pods")) {
            let Ok(text) = std::fs::read_to_string(record) else { continue };
            let Ok(started) = serde_json::from_str::<Value>(&text) else { continue };
            let pid = started["shim"].to_string();
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            if String::from_utf8_lossy(&line).contains("container-shim") {
                let _ = Command::new("kill").args(["-9", &pid]).status();
            }
        }
        // Volumes in memory are mounted below.
        drop(self.started.take());
        let data = self.sandbox.data().display().to_string();
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        for place in mounts.lines().filter_map(|line| line.split(' ').nth(1)) {
            if place.starts_with(&data) {
                let _ = Command::new("umount").args(["-l", place]).status();
            }
        }
    }
}

fn records(directory: PathBuf) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(records(path));
        } else if path.ends_with("started.json") {
            found.push(path);
        }
    }
    found
}

impl Machine {
    pub fn start() -> Machine {
        let mut machine = Machine { sandbox: Sandbox::new(), started: None };
        machine.begin();
        machine
    }

    /// Ends the program at once and starts it again, as after a crash.
    pub fn restart(&mut self) {
        let started = self.started.take().expect("it runs");
        started.signal("KILL");
        started.wait();
        self.begin();
    }

    /// As a user who is not root.
    pub fn start_as(user: u32) -> Machine {
        let mut machine = Machine { sandbox: Sandbox::of_user(user), started: None };
        machine.begin();
        machine
    }

    pub fn begin(&mut self) {
        self.started = Some(self.sandbox.start(&["--store", "embedded"]));
        self.until("get nodes", |nodes| nodes.contains(" Ready "));
    }

    /// Lets pods of the namespace `default` reach the host.
    pub fn allow_privileged_pods(&self) {
        let label = "pod-security.kubernetes.io/enforce=privileged";
        self.kubectl(&["label", "namespace", "default", label, "--overwrite"], "");
    }

    /// Where the API is served on this machine.
    pub fn api_port(&self) -> String {
        let started = self.started.as_ref().expect("it runs");
        started.address().rsplit(':').next().unwrap_or_default().to_owned()
    }

    pub fn run(&self, words: &[&str], manifest: &str) -> Ended {
        let kubeconfig = self.sandbox.data().join("kubeconfig").display().to_string();
        self.sandbox.kubectl(&[&["--kubeconfig", &kubeconfig], words].concat(), manifest)
    }

    #[track_caller]
    pub fn kubectl(&self, words: &[&str], manifest: &str) -> String {
        let ended = self.run(words, manifest);
        assert_eq!(ended.code, Some(0), "kubectl {words:?}: {ended:?}");
        ended.stdout.trim_end().to_owned()
    }

    #[track_caller]
    pub fn until(&self, line: &str, holds: impl Fn(&str) -> bool) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        let began = Instant::now();
        loop {
            let ended = self.run(&words, "");
            if holds(ended.stdout.trim_end()) {
                return ended.stdout.trim_end().to_owned();
            }
            assert!(began.elapsed() < PATIENCE, "kubectl {line}: {ended:?}");
            std::thread::sleep(LOOK);
        }
    }

    pub fn phase(&self, pod: &str, phase: &str) {
        let line = format!("get pod {pod} -o jsonpath={{.status.phase}}");
        self.until(&line, |found| found == phase);
    }
}

#[test]
fn a_pod_runs_tells_what_it_wrote_and_goes() {
    let machine = Machine::start();
    let script = "echo hi; sleep 1000";
    let run = ["run", "hello", "--image=x", "--command", "--", "sh", "-c", script];
    machine.kubectl(&run, "");
    machine.until("get pods", |pods| pods.contains("1/1") && pods.contains("Running"));
    machine.until("logs hello", |log| log == "hi");
    assert!(machine.kubectl(&["logs", "hello", "--timestamps"], "").ends_with("Z hi"));
    let previous = machine.run(&["logs", "hello", "--previous"], "");
    let expected = "previous terminated container \"hello\" in pod \"hello\" not found";
    assert!(previous.stderr.contains(expected), "{previous:?}");
    machine.kubectl(&["delete", "pod", "hello"], "");
    assert_eq!(machine.kubectl(&["get", "pods", "-o", "name"], ""), "");
    assert_eq!(records(machine.sandbox.data().join("node/pods")), [] as [PathBuf; 0]);
}

const RICH: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {color: blue, file.txt: from-a-file}
---
apiVersion: v1
kind: Secret
metadata: {name: password}
stringData: {word: open}
---
apiVersion: v1
kind: Pod
metadata: {name: rich, labels: {app: rich}}
spec:
  restartPolicy: Never
  initContainers:
  - name: first
    image: x
    command: [sh, -c, 'echo from-init >/shared/file']
    volumeMounts: [{name: empty, mountPath: /shared}]
  containers:
  - name: main
    image: x
    command: [sh, -c]
    args:
    - echo $(COLOR) $WORD $NAME; cat /shared/file /etc/settings-test/file.txt; echo;
      cat /pod/labels; echo; test -s /var/run/secrets/kubernetes.io/serviceaccount/token && echo token; exit 3
    env:
    - {name: COLOR, valueFrom: {configMapKeyRef: {name: settings, key: color}}}
    - {name: WORD, valueFrom: {secretKeyRef: {name: password, key: word}}}
    - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    volumeMounts:
    - {name: empty, mountPath: /shared}
    - {name: settings, mountPath: /etc/settings-test}
    - {name: pod, mountPath: /pod}
  volumes:
  - {name: empty, emptyDir: {}}
  - {name: settings, configMap: {name: settings}}
  - {name: pod, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}
";

#[test]
fn a_pod_finds_its_environment_and_its_volumes() {
    let machine = Machine::start();
    machine.kubectl(&["apply", "-f", "-"], RICH);
    machine.phase("rich", "Failed");
    let code = "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}";
    assert_eq!(machine.kubectl(&["get", "pod", "rich", "-o", code], ""), "3");
    let log = machine.kubectl(&["logs", "rich"], "");
    let expected = "blue open rich\nfrom-init\nfrom-a-file\napp=\"rich\"\ntoken";
    assert_eq!(log, expected);
    machine.kubectl(&["delete", "pod", "rich"], "");
}

#[test]
fn what_runs_outlives_the_program_and_is_found_again() {
    let mut machine = Machine::start();
    let run = |name, script| ["run", name, "--image=x", "--command", "--", "sh", "-c", script];
    machine.kubectl(&run("stays", "echo once; sleep 1000"), "");
    machine.kubectl(&run("ends", "sleep 1; exit 42"), "");
    let process = "jsonpath={.status.containerStatuses[0].containerID}";
    for pod in ["stays", "ends"] {
        machine.phase(pod, "Running");
    }
    let before = machine.kubectl(&["get", "pod", "stays", "-o", process], "");
    machine.restart();
    let code =
        "get pod ends -o jsonpath={.status.containerStatuses[0].lastState.terminated.exitCode}";
    machine.until(code, |code| code == "42");
    machine.phase("stays", "Running");
    assert_eq!(machine.kubectl(&["get", "pod", "stays", "-o", process], ""), before);
    assert_eq!(machine.kubectl(&["logs", "stays"], ""), "once");
    machine.kubectl(&["delete", "pod", "stays", "ends"], "");
}

const PROBED: &str = "
apiVersion: v1
kind: Pod
metadata: {name: probed}
spec:
  terminationGracePeriodSeconds: 5
  containers:
  - name: main
    image: x
    command: [sh, -c, 'echo began; sleep 1000']
    lifecycle:
      preStop: {exec: {command: [sh, -c, 'echo bye >FILE']}}
    readinessProbe: {exec: {command: [test, -e, READY]}, periodSeconds: 1}
    livenessProbe:
      exec: {command: [sh, -c, '! test -e SICK']}
      periodSeconds: 1
      failureThreshold: 1
";

#[test]
fn probes_decide_and_hooks_run() {
    let machine = Machine::start();
    let file = |name: &str| machine.sandbox.work().join(name);
    let text = |name: &str| file(name).display().to_string();
    let manifest = PROBED
        .replace("FILE", &text("bye"))
        .replace("READY", &text("ready"))
        .replace("SICK", &text("sick"));
    machine.kubectl(&["apply", "-f", "-"], &manifest);
    machine.phase("probed", "Running");
    let ready = "get pod probed -o jsonpath={.status.containerStatuses[0].ready}";
    assert_eq!(machine.until(ready, |ready| !ready.is_empty()), "false");
    std::fs::write(file("ready"), "").expect("a file");
    machine.until(ready, |ready| ready == "true");
    std::fs::write(file("sick"), "").expect("a file");
    let restarts = "get pod probed -o jsonpath={.status.containerStatuses[0].restartCount}";
    machine.until(restarts, |count| count == "1");
    std::fs::remove_file(file("sick")).expect("it was there");
    let _ = std::fs::remove_file(file("bye"));
    machine.until(ready, |ready| ready == "true");
    machine.kubectl(&["delete", "pod", "probed"], "");
    assert!(file("bye").exists());
}

#[test]
fn a_container_that_cannot_start_says_why_and_a_node_without_runtime_is_not_ready() {
    let machine = Machine::start();
    machine.kubectl(&["run", "imageonly", "--image=nginx"], "");
    let reason = "get pod imageonly -o \
                  jsonpath={.status.containerStatuses[0].state.waiting.reason}";
    machine.until(reason, |reason| reason == "CreateContainerConfigError");
    let events = machine.until("get events", |events| {
        events.contains("images are not supported by the process runtime")
    });
    assert!(events.contains("Failed"), "{events}");
    machine.kubectl(&["delete", "pod", "imageonly"], "");

    let sandbox = Sandbox::new();
    let started = sandbox.start(&["--store", "memory", "--runtime", "none"]);
    let idle = Machine { sandbox, started: Some(started) };
    idle.until("get nodes", |nodes| nodes.contains(" NotReady "));
}

#[test]
fn a_node_of_the_mission_lives_by_its_status() {
    let sandbox = Sandbox::new();
    sandbox.write(".config.yaml", "profile: mission\nheartbeat_interval: 1s\n");
    let started = sandbox.start(&["--store", "memory"]);
    let machine = Machine { sandbox, started: Some(started) };
    machine.until("get nodes", |nodes| nodes.contains(" Ready "));
    let beat = "get nodes -o jsonpath={.items[0].status.conditions[0].lastHeartbeatTime}";
    let first = machine.until(beat, |at| !at.is_empty());
    machine.until(beat, |at| at != first);
    assert_eq!(machine.kubectl(&["get", "leases", "-n", "kube-node-lease"], ""), "");
}
