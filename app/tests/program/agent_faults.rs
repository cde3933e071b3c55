//! The program is killed between the things its agent does for a pod besides its containers:
//! volumes, the network, what it tells the server. Whoever comes after it finds one container or
//! none, never two, and nothing is left.

use std::fs;
use std::path::{Path, PathBuf};

use node::failpoints::{OF_AGENT, VARIABLE};

use crate::node::Machine;
use crate::sandbox::Sandbox;

const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: one}
spec:
  terminationGracePeriodSeconds: 5
  containers:
  - name: main
    image: x
    command: [sh, -c, 'trap exit TERM; echo begun >>FILE; while :; do sleep 0.05; done']
    volumeMounts: [{name: memory, mountPath: /memory}]
  volumes: [{name: memory, emptyDir: {medium: Memory}}]
";

#[test]
fn a_program_that_is_killed_while_it_makes_or_clears_a_pod_leaves_one_or_none() {
    for point in OF_AGENT {
        let mut sandbox = Sandbox::new();
        sandbox.set(VARIABLE, point);
        let mut machine = Machine { sandbox, started: None };
        machine.begin();
        let file = machine.sandbox.work().join("begun");
        // The server may be gone before it answers.
        let _ =
            machine.run(&["create", "-f", "-"], &POD.replace("FILE", &file.display().to_string()));
        let is_deleted = point == "pod:cleared" || point == "pod:deleted";
        if is_deleted {
            machine.phase("one", "Running");
            let _ = machine.run(&["delete", "pod", "one", "--wait=false"], "");
        }
        let (code, _) = machine.started.take().expect("it runs").wait();
        assert_ne!(code, Some(0), "{point}: it was not killed");
        machine.sandbox.set(VARIABLE, "");
        machine.begin();
        let mut uids = Vec::new();
        if !is_deleted {
            machine.phase("one", "Running");
            uids.push(
                machine.kubectl(&["get", "pod", "one", "-o", "jsonpath={.metadata.uid}"], ""),
            );
            machine.kubectl(&["delete", "pod", "one"], "");
        }
        machine.until("get pods -o name", str::is_empty);
        let begun = fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(begun, "begun\n", "{point}: it began once");
        let data = machine.sandbox.data();
        assert_eq!(left(&uids, &data), [] as [String; 0], "{point}");
        for place in ["node/pods", "node/volumes"] {
            let count = fs::read_dir(data.join(place)).map_or(0, Iterator::count);
            assert_eq!(count, 0, "{point}: something is left in {place}");
        }
    }
}

/// What is left on the machine of pods that are gone: namespaces, interfaces, control groups,
/// mounts.
pub fn left(uids: &[String], data: &Path) -> Vec<String> {
    let mut left = Vec::new();
    let names = |directory: &str| -> Vec<String> {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let is_of_pod = |text: &str| uids.iter().any(|uid| text.contains(uid));
    left.extend(names("/run/netns").into_iter().filter(|name| is_of_pod(name)));
    let settings = fs::read_to_string(data.join("node/network/settings")).unwrap_or_default();
    let settings: serde_json::Value = serde_json::from_str(&settings).expect("its settings");
    let mark = format!("sp{}-", settings["id"].as_str().expect("its mark"));
    left.extend(names("/sys/class/net").into_iter().filter(|name| name.starts_with(&mark)));
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let volumes = data.join("node/volumes").display().to_string();
    let is_ours = |line: &&str| is_of_pod(line) || line.contains(&volumes);
    left.extend(mounts.lines().filter(is_ours).map(str::to_owned));
    left.extend(groups(Path::new("/sys/fs/cgroup")).into_iter().filter(|path| is_of_pod(path)));
    left
}

/// Every control group. Others may go meanwhile.
fn groups(directory: &Path) -> Vec<String> {
    let mut found = vec![directory.display().to_string()];
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let inner = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let inner: Vec<PathBuf> = inner.map(|entry| entry.path()).collect();
    inner.iter().for_each(|path| found.extend(groups(path)));
    found
}
