//! The whole program is killed under load, again and again: nothing that was promised is lost,
//! nothing runs twice, and nothing is left.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::agent_faults::left;
use crate::sandbox::{Ended, Sandbox, Started};

const PATIENCE: Duration = Duration::from_secs(90);
const LOOK: Duration = Duration::from_millis(50);

const WORK: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: main, image: x, command: [sleep, '98765']}
---
apiVersion: batch/v1
kind: Job
metadata: {name: count}
spec:
  completions: 6
  parallelism: 2
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: main, image: x, command: [sh, -c, 'echo $HOSTNAME >>FILE; sleep 0.3']}
";

/// The program, and what it left running.
struct Cluster {
    sandbox: Sandbox,
    program: Option<Started>,
}

impl Drop for Cluster {
    /// Containers outlive the program; a test that fails must leave none.
    fn drop(&mut self) {
        drop(self.program.take());
        let _ = self.sandbox.command(&["down", "--pods"]).output();
    }
}

impl Cluster {
    fn kubectl(&self, words: &[&str], manifest: &str) -> Ended {
        let kubeconfig = self.sandbox.data().join("kubeconfig").display().to_string();
        self.sandbox.kubectl(&[&["--kubeconfig", &kubeconfig], words].concat(), manifest)
    }

    #[track_caller]
    fn until(&self, words: &[&str], holds: impl Fn(&str) -> bool) {
        let began = Instant::now();
        loop {
            let ended = self.kubectl(words, "");
            if holds(ended.stdout.trim_end()) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "kubectl {words:?}: {ended:?}");
            std::thread::sleep(LOOK);
        }
    }

    fn begin(&mut self) {
        self.program = Some(self.sandbox.start(&["--store", "embedded"]));
    }

    fn kill(&mut self) {
        if let Some(program) = self.program.take() {
            program.signal("KILL");
            let _ = program.wait();
        }
    }
}

/// Processes of containers of this data directory by run, from the records of what started.
fn programs(data: &Path) -> BTreeMap<String, u32> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(run) = fs::read_link(entry.path().join("cwd")) else { continue };
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let is_shim = String::from_utf8_lossy(&command).contains("container-shim");
        if is_shim && run.starts_with(data.join("node/pods")) {
            let run = run.display().to_string();
            // The first process of a container's namespaces is a copy of its shim.
            let status = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
            let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
            if numbers.is_some_and(|numbers| numbers.split_whitespace().count() == 1) {
                *found.entry(run).or_default() += 1;
            }
        }
    }
    found
}

#[test]
fn a_program_that_is_killed_under_load_loses_nothing_and_leaves_nothing() {
    let cycles = if std::env::var_os("SETPOINT_TEST_FULL").is_some() { 50 } else { 3 };
    let mut cluster = Cluster { sandbox: Sandbox::new(), program: None };
    let data = cluster.sandbox.data();
    let file = cluster.sandbox.work().join("counted");
    cluster.begin();
    let work = WORK.replace("FILE", &file.display().to_string());
    assert_eq!(cluster.kubectl(&["apply", "-f", "-"], &work).code, Some(0));
    let mut promised = Vec::new();
    for cycle in 0..cycles {
        // Different each time, so that the kill falls into all that happens at the start.
        let until = Instant::now() + Duration::from_millis(100 + 377 * (cycle % 7));
        for number in 0.. {
            let name = format!("kept-{cycle}-{number}");
            if cluster.kubectl(&["create", "configmap", &name], "").code == Some(0) {
                promised.push(name);
            }
            if Instant::now() > until {
                break;
            }
        }
        cluster.kill();
        assert!(programs(&data).values().all(|count| *count == 1), "{:?}", programs(&data));
        cluster.begin();
    }
    let list = cluster.kubectl(&["get", "configmaps", "-o", "name"], "").stdout;
    for name in &promised {
        assert!(list.lines().any(|line| line.ends_with(&format!("/{name}"))), "{name} is lost");
    }
    let ready = ["get", "deployment", "web", "-o", "jsonpath={.status.readyReplicas}"];
    cluster.until(&ready, |count| count == "4");
    let done = ["get", "job", "count", "-o", "jsonpath={.status.succeeded}"];
    cluster.until(&done, |count| count == "6");
    // No run of a container began twice: its hostname is its pod's, and pods are not started again.
    let counted = fs::read_to_string(&file).expect("pods wrote it");
    let mut pods: Vec<&str> = counted.lines().collect();
    pods.sort_unstable();
    pods.dedup();
    assert_eq!(pods.len(), counted.lines().count(), "{counted}");
    let pods = cluster.kubectl(&["get", "pods", "-l", "app=web", "-o", "json"], "");
    let pods: Value = serde_json::from_str(&pods.stdout).expect("it is JSON");
    assert_eq!(pods["items"].as_array().map(Vec::len), Some(4));
    for pod in pods["items"].as_array().into_iter().flatten() {
        assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0, "{pod}");
    }
    let uids = ["get", "pods", "-o", "jsonpath={.items[*].metadata.uid}"];
    let uids = cluster.kubectl(&uids, "").stdout;
    let uids: Vec<String> = uids.split_whitespace().map(str::to_owned).collect();
    let deleted = cluster.kubectl(&["delete", "deployment/web", "job/count"], "");
    assert_eq!(deleted.code, Some(0), "{deleted:?}");
    cluster.until(&["get", "pods", "-o", "name"], str::is_empty);
    assert_eq!(left(&uids, &data), [] as [String; 0], "the machine is as it was");
    let began = Instant::now();
    while !programs(&data).is_empty() {
        assert!(began.elapsed() < PATIENCE, "left: {:?}", programs(&data));
        std::thread::sleep(LOOK);
    }
    let left = fs::read_dir(data.join("node/pods")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "records are left");
}
