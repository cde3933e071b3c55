//! One pod that uses most of what a pod can say, in containers of whatever engine: order of init
//! containers, hooks, an earlier run, volumes of several kinds, a user of its own. Nothing of it
//! may stay mounted.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::engines::IMAGE;
use crate::node::Machine;

const WHOLE: &str = "
apiVersion: v1
kind: Secret
metadata: {name: whole}
stringData: {word: secret-word}
---
apiVersion: v1
kind: Pod
metadata: {name: whole}
spec:
  terminationGracePeriodSeconds: 1
  securityContext: {runAsUser: 1000, runAsGroup: 3000, fsGroup: 2000, runAsNonRoot: true}
  initContainers:
  - name: one
    image: IMAGE
    command: [sh, -c, 'sleep 0.5; echo one >> /shared/order']
    volumeMounts: [{name: shared, mountPath: /shared}]
  - name: two
    image: IMAGE
    command: [sh, -c, 'echo two >> /shared/order']
    volumeMounts: [{name: shared, mountPath: /shared}]
  containers:
  - name: main
    image: IMAGE
    command: [sh, -c, 'SCRIPT']
    lifecycle:
      postStart: {exec: {command: [sh, -c, 'echo hooked > /host/begun']}}
      preStop: {exec: {command: [sh, -c, 'echo hooked > /host/ending']}}
    volumeMounts:
    - {name: shared, mountPath: /shared}
    - {name: shared, mountPath: /order, subPath: order}
    - {name: secret, mountPath: /secret}
    - {name: token, mountPath: /token}
    - {name: host, mountPath: /host}
  volumes:
  - {name: shared, emptyDir: {}}
  - {name: secret, secret: {secretName: whole}}
  - {name: token, projected: {sources: [{serviceAccountToken: {path: token}}]}}
  - {name: host, hostPath: {path: HOST, type: Directory}}
";

/// The first run ends when its hook has run; the second tells what it sees.
const SCRIPT: &str = "if [ ! -e /shared/again ]; then echo first; touch /shared/again; \
    until [ -e /host/begun ]; do sleep 0.05; done; sleep 0.3; exit 1; fi; \
    id -u; id -g; cat /order /secret/word; test -s /token/token && echo token; exec sleep 1000";

/// Runs it, and sees it go.
pub fn whole_pod(machine: &Machine) {
    machine.allow_privileged_pods();
    let host = machine.sandbox.work().join("host");
    fs::create_dir_all(&host).expect("a directory");
    fs::set_permissions(&host, fs::Permissions::from_mode(0o777)).expect("it is ours");
    let pod = WHOLE.replace("IMAGE", IMAGE).replace("SCRIPT", SCRIPT);
    let pod = pod.replace("HOST", &host.display().to_string());
    machine.kubectl(&["apply", "-f", "-"], &pod);
    machine.until("logs whole", |log| log == "1000\n3000\none\ntwo\nsecret-wordtoken");
    assert_eq!(machine.kubectl(&["logs", "whole", "--previous"], ""), "first");
    assert!(!host.join("ending").exists());
    machine.kubectl(&["delete", "pod", "whole", "--timeout=60s"], "");
    assert_eq!(fs::read_to_string(host.join("ending")).unwrap_or_default(), "hooked\n");
}

/// What is mounted for pods below the data directory.
pub fn mounts(machine: &Machine) -> Vec<String> {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let data = machine.sandbox.data().display().to_string();
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    places.filter(|place| place.starts_with(&data)).map(str::to_owned).collect()
}
