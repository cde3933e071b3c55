//! Files of the server and of volumes: only their owner can read them.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use crate::node::Machine;
use crate::sandbox::Sandbox;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").mode() & 0o7777
}

#[test]
fn a_data_directory_is_restricted_to_its_owner_or_refused() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.data()).expect("a directory");
    fs::set_permissions(sandbox.data(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    let started = sandbox.start(&["--store", "memory", "--components", "api"]);
    assert_eq!(mode(&sandbox.data()), 0o700);
    started.stop();

    let foreign = sandbox.work().join("foreign");
    fs::create_dir_all(&foreign).expect("a directory");
    if chown(&foreign, Some(4242), None).is_err() {
        // Only root can make a directory of another user.
        assert_ne!(fs::metadata(&foreign).expect("it is there").uid(), 0);
        return;
    }
    let name = foreign.display().to_string();
    for command in ["start", "up"] {
        let refused = sandbox.run(&[
            command,
            "--store",
            "memory",
            "--listen",
            "127.0.0.1:0",
            "--data-dir",
            &name,
        ]);
        let error = refused.error();
        assert!(error.contains("belongs to user 4242"), "{error}");
        assert!(error.contains("chown -R 0") && error.contains("--data-dir DIR"), "{error}");
        assert_eq!(fs::read_dir(&foreign).expect("it is there").count(), 0, "nothing is half done");
    }
}

#[test]
fn the_directories_of_a_cluster_are_written_for_their_owner_only() {
    let sandbox = Sandbox::new();
    let made = sandbox.run(&["cluster", "create", "--nodes", "2", "--storage", "mysql"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let cluster = sandbox.work().join(".k3");
    for node in ["node-1", "node-2"] {
        let config = cluster.join(node).join(".config.yaml");
        assert!(fs::read_to_string(&config).expect("a file").contains("password"));
        assert_eq!(mode(&config), 0o600);
        assert_eq!(mode(&cluster.join(node).join("data")), 0o700);
    }
    assert_eq!((mode(&cluster), mode(&cluster.join("pki"))), (0o700, 0o700));
}

/// Claims of two namespaces, and a pod under the level `restricted` that looks for them.
const VOLUMES: &str = "---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: here}, provisioner: \
    setpoint.dev/local-path, volumeBindingMode: WaitForFirstConsumer, parameters: {path: PLACE}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: attacker}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: \
    [ReadWriteOnce], storageClassName: here, resources: {requests: {storage: 1Gi}}}}
---
apiVersion: v1
kind: Pod
metadata: {name: victim}
spec:
  restartPolicy: Never
  securityContext: {runAsUser: 1000, runAsGroup: 1000}
  containers:
  - {name: main, image: host, command: [sh, -c, 'echo victim >/data/file && id -u'],
     volumeMounts: [{name: data, mountPath: /data}]}
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
";

const ATTACKER: &str = "
apiVersion: v1
kind: Pod
metadata: {name: attacker, namespace: attacker}
spec:
  restartPolicy: Never
  securityContext: {runAsUser: 1000, runAsGroup: 1000, runAsNonRoot: true,
    seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: main
    image: host
    command: [sh, -c, 'cat PLACE/*/file 2>/dev/null; ls PLACE 2>/dev/null; echo done']
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
";

#[test]
fn a_volume_belongs_to_the_user_of_its_pod_and_to_no_other_pod() {
    let machine = Machine::start();
    let place = machine.sandbox.work().join("volumes");
    let name = place.display().to_string();
    machine.kubectl(&["apply", "-f", "-"], &VOLUMES.replace("PLACE", &name));
    machine.phase("victim", "Succeeded");
    assert_eq!(mode(&place), 0o700);
    let volume = fs::read_dir(&place).expect("it is there").flatten().next().expect("a volume");
    assert_eq!(mode(&volume.path()), 0o770);
    let owner = volume.metadata().expect("it is there").uid();
    assert_eq!(owner, 1000, "the volume belongs to the pod's user");
    machine.kubectl(&["apply", "-f", "-"], &ATTACKER.replace("PLACE", &name));
    let phase = "get pod -n attacker attacker -o jsonpath={.status.phase}";
    machine.until(phase, |phase| phase == "Succeeded");
    assert_eq!(machine.kubectl(&["logs", "-n", "attacker", "attacker"], ""), "done");
}
