//! What pods that really run may be and do, and what people are told of those that may not, through
//! the server.

use crate::node::Machine;

const CONFINED: &str = "
apiVersion: v1
kind: Pod
metadata: {name: confined}
spec:
  restartPolicy: Never
  securityContext: {runAsUser: 1234, runAsGroup: 5678, fsGroup: 4321}
  containers:
  - name: main
    image: x
    command: [sh, -c]
    args:
    - id -u; id -g; grep -E 'CapBnd|NoNewPrivs' /proc/self/status | cut -f2;
      touch /tmp/file 2>/dev/null || echo read-only;
      touch /data/file && stat -c %g /data/file;
      touch /data/part/file && stat -c %a /data/part
    securityContext:
      readOnlyRootFilesystem: true
      allowPrivilegeEscalation: false
      capabilities: {drop: [ALL], add: [NET_BIND_SERVICE]}
    volumeMounts:
    - {name: data, mountPath: /data}
    - {name: data, mountPath: /data/part, subPath: part}
  volumes: [{name: data, emptyDir: {}}]
";

#[test]
fn a_pod_is_who_it_says_and_writes_only_where_it_may() {
    let machine = Machine::start();
    machine.kubectl(&["apply", "-f", "-"], CONFINED);
    machine.phase("confined", "Succeeded");
    let log = machine.kubectl(&["logs", "confined"], "");
    let expected = "1234\n5678\n0000000000000400\n1\nread-only\n4321\n2777";
    assert_eq!(log, expected);
}

const CRASHING: &str = "
apiVersion: v1
kind: Pod
metadata: {name: crash}
spec:
  containers:
  - name: main
    image: x
    command: [sh, -c, 'echo x >>/data/runs; echo run $(wc -l </data/runs); exit 1']
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, emptyDir: {}}]
";

/// While a container waits to run again, the run before is the last one.
#[test]
fn the_run_before_can_be_read_while_a_container_crashes_again_and_again() {
    let machine = Machine::start();
    machine.kubectl(&["apply", "-f", "-"], CRASHING);
    machine.until("get pod crash --no-headers", |row| row.contains("CrashLoopBackOff"));
    assert_eq!(machine.kubectl(&["logs", "crash", "--previous"], ""), "run 2");
    assert_eq!(machine.kubectl(&["logs", "crash"], ""), "run 2");
    machine.kubectl(&["delete", "pod", "crash"], "");
}

const UNWRITABLE: &str = "
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: x
    command: [sleep, '1000']
    volumeMounts: [{name: data, mountPath: TARGET}]
  volumes: [{name: data, hostPath: {path: SOURCE, type: DirectoryOrCreate}}]
";

#[test]
fn a_mount_that_cannot_be_made_is_the_pods_trouble_and_not_the_nodes() {
    let machine = Machine::start();
    machine.allow_privileged_pods();
    let pod = |name: &str, source: &str, target: &str| {
        let pod = UNWRITABLE.replace("NAME", name).replace("SOURCE", source);
        machine.kubectl(&["apply", "-f", "-"], &pod.replace("TARGET", target));
    };
    pod("unmade", "/proc/setpoint/none", "/data");
    pod("below-a-file", "/tmp", "/etc/passwd/data");
    let reason = "jsonpath={.status.containerStatuses[0].state.waiting.reason}";
    machine.until(&format!("get pod below-a-file -o {reason}"), |it| it == "RunContainerError");
    let events = machine.until("get events", |events| {
        events.contains("MountVolume.SetUp failed for volume \"data\" : /proc/setpoint/none:")
            && events.contains("could not mount /tmp at /etc/passwd/data")
    });
    assert!(events.contains("FailedMount") && events.contains("Failed "), "{events}");
    let row = machine.kubectl(&["get", "pod", "unmade", "--no-headers"], "");
    assert!(row.contains("ContainerCreating"), "{row}");
    assert!(machine.kubectl(&["get", "nodes"], "").contains(" Ready "));
    machine.kubectl(&["delete", "pod", "--all"], "");
}
