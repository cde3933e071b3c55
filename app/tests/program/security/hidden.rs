//! Keys, kubeconfigs and the files of other pods: no pod sees them, whoever runs the program.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::node::Machine;

const NOBODY: u32 = 65_534;
const MARKER: &str = "marker-5e1c-of-a-secret-97aa";

/// A pod with a Secret in its environment and in its command, and one that looks for what is not
/// its own.
const PODS: &str = "---
{apiVersion: v1, kind: Secret, metadata: {name: word}, stringData: {word: MARKER}}
---
apiVersion: v1
kind: Pod
metadata: {name: victim}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: host
    command: [sh, -c, 'test \"$0\" = \"$WORD\" && touch /volume/begun && exec sleep 1000', $(WORD)]
    env: [{name: WORD, valueFrom: {secretKeyRef: {name: word, key: word}}}]
    volumeMounts: [{name: volume, mountPath: /volume}]
    readinessProbe: {exec: {command: [test, -e, /volume/begun]}, periodSeconds: 1}
  volumes: [{name: volume, emptyDir: {}}]
---
apiVersion: v1
kind: Pod
metadata: {name: attacker}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: host
    command:
    - sh
    - -c
    - |
      cat DATA/pki/* DATA/kubeconfig HOME/.kube/config 2>/dev/null
      find DATA/pki DATA/node/pods DATA/node/volumes/UID DATA/store HOME/.kube -mindepth 1 2>/dev/null
      test -e DATA/setpoint.sock && echo socket
      touch DATA/planted 2>/dev/null && echo planted
      touch \"$HOME/file\" \"$XDG_CACHE_HOME/file\" && echo own
      for socket in /var/run/docker.sock /run/podman/podman.sock /run/containerd/containerd.sock; do
        test -S $socket && echo $socket
      done
      echo done
";

/// Files on disk below a directory that hold a text; what is mounted below is in memory.
fn with_text(directory: &Path, text: &str) -> Vec<String> {
    let device = |path: &Path| fs::symlink_metadata(path).map(|it| it.dev()).ok();
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if device(&path) != device(directory) {
            continue;
        }
        let kind = entry.file_type().expect("it has a kind");
        if kind.is_dir() {
            found.extend(with_text(&path, text));
        } else if kind.is_file() {
            let bytes = fs::read(&path).unwrap_or_default();
            if bytes.windows(text.len()).any(|part| part == text.as_bytes()) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

fn attack(machine: &Machine) {
    let home = machine.sandbox.work().join("../home");
    let home = fs::canonicalize(home).expect("it is there");
    fs::create_dir_all(home.join(".kube")).expect("a directory");
    fs::write(home.join(".kube/config"), "token: poison\n").expect("a kubeconfig");
    let data = machine.sandbox.data().display().to_string();
    let (victim, attacker) = PODS
        .split_once("---\napiVersion: v1\nkind: Pod\nmetadata: {name: a")
        .expect("there are two");
    machine.kubectl(&["apply", "-f", "-"], &victim.replace("MARKER", MARKER));
    machine.until("get pods", |pods| pods.contains("1/1"));
    let uid = machine.kubectl(&["get", "pod", "victim", "-o", "jsonpath={.metadata.uid}"], "");
    let attacker = format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: a{attacker}");
    let attacker = attacker.replace("DATA", &data).replace("UID", &uid);
    let attacker = attacker.replace("HOME/.kube", &format!("{}/.kube", home.display()));
    machine.kubectl(&["apply", "-f", "-"], &attacker);
    machine.phase("attacker", "Succeeded");
    assert_eq!(machine.kubectl(&["logs", "attacker"], ""), "own\ndone");
    let exec = ["exec", "victim", "--", "sh", "-c", "echo $WORD; cat "];
    let exec = [&exec[..5], &[&format!("echo $WORD; cat {data}/kubeconfig 2>/dev/null; true")[..]]];
    assert_eq!(machine.kubectl(&exec.concat(), ""), MARKER);
    assert_eq!(with_text(&machine.sandbox.data(), MARKER), [""; 0], "secrets are on disk");
    machine.kubectl(&["delete", "pod", "victim", "attacker"], "");
}

#[test]
fn no_pod_reads_keys_or_files_of_others_where_the_program_runs_as_root() {
    attack(&Machine::start());
}

#[test]
fn no_pod_reads_keys_or_files_of_others_where_a_user_runs_the_program() {
    let machine = Machine::start_as(NOBODY);
    attack(&machine);
}

#[test]
fn no_volume_leads_to_the_directories_of_the_server() {
    let machine = Machine::start();
    let data = machine.sandbox.data().display().to_string();
    let level = "pod-security.kubernetes.io/enforce=privileged";
    machine.kubectl(&["label", "namespace", "default", "--overwrite", level], "");
    let pod = |name: &str, path: &str, script: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{restartPolicy: \
             Never, containers: [{{name: main, image: host, command: [sh, -c, {script:?}], \
             volumeMounts: [{{name: v, mountPath: /host}}]}}], \
             volumes: [{{name: v, hostPath: {{path: {path}}}}}]}}}}\n"
        )
    };
    let read = format!("cat /host{data}/kubeconfig /host{data}/pki/* 2>/dev/null; echo done");
    let all = [pod("all", "/", &read), pod("keys", &format!("{data}/pki"), "ls /host")];
    machine.kubectl(&["apply", "-f", "-"], &all.concat());
    machine.phase("all", "Succeeded");
    assert_eq!(machine.kubectl(&["logs", "all"], ""), "done");
    machine.until("get events", |events| events.contains("holds keys and the files of other pods"));
    machine.kubectl(&["delete", "pod", "keys"], "");
}
