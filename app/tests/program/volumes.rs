//! Volumes of pods that really run: what is in them, when it changes, whose it is, when it goes.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tokio::time::Instant;

use crate::node::Machine;

fn apply(machine: &Machine, manifest: &str) {
    machine.kubectl(&["apply", "-f", "-"], manifest);
}

/// A pod of one container: its script, its mounts and its volumes.
fn pod(name: &str, script: &str, mounts: &str, volumes: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, labels: {{color: red}}}}, \
         spec: {{\
         restartPolicy: Never, terminationGracePeriodSeconds: 1, containers: [{{name: main, \
         image: x, command: [sh, -c, {script:?}], volumeMounts: [{mounts}]}}], \
         volumes: [{volumes}]}}}}\n"
    )
}

fn is_mounted(part: &str) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("/proc must be there");
    mounts.contains(part)
}

#[test]
fn objects_become_files_that_change_with_them() {
    let machine = Machine::start();
    let objects = "
apiVersion: v1
kind: ConfigMap
metadata: {name: map}
data: {color: blue, b: two}
---
apiVersion: v1
kind: Secret
metadata: {name: secret}
stringData: {word: open}
---
";
    let volumes = "{name: map, configMap: {name: map, defaultMode: 0400}}, \
        {name: some, configMap: {name: map, items: [{key: b, path: deep/b, mode: 0440}]}}, \
        {name: none, configMap: {name: none, optional: true}}, \
        {name: all, projected: {sources: [{secret: {name: secret}}, \
          {downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}, \
          {configMap: {name: map, items: [{key: color, path: color}]}}]}}";
    let mounts = "{name: map, mountPath: /tmp/map}, {name: some, mountPath: /tmp/some}, \
        {name: none, mountPath: /tmp/none}, {name: all, mountPath: /tmp/all}, \
        {name: map, mountPath: /tmp/fixed, subPath: color}";
    let script = "cd /tmp; cat map/color some/deep/b all/word all/color fixed; ls none | wc -l; \
        stat -L -c %a map/color some/deep/b; stat -f -c %T all/; readlink map/color; \
        touch map/new || echo read-only; \
        while :; do cat map/color all/labels fixed all/word; echo; sleep 0.1; done";
    apply(&machine, &format!("{objects}{}", pod("files", script, mounts, volumes)));
    let begin = "bluetwoopenblueblue0\n400\n440\ntmpfs\n..data/color\n";
    let log = machine.until("logs files", |log| log.contains("read-only"));
    assert!(log.starts_with(begin), "{log}");
    let map = r#"{"data": {"color": "green"}}"#;
    machine.kubectl(&["patch", "configmap", "map", "--type=merge", "-p", map], "");
    machine.kubectl(&["label", "pod", "files", "color=black", "--overwrite"], "");
    let secret = r#"{"stringData": {"word": "shut"}}"#;
    machine.kubectl(&["patch", "secret", "secret", "--type=merge", "-p", secret], "");
    // What is mounted by itself stays as it was.
    let began = Instant::now();
    machine.until("logs files --tail=2", |log| log.contains("greencolor=\"black\"blueshut"));
    assert!(began.elapsed() < Duration::from_secs(10), "changes must be seen soon");
    let uid = machine.kubectl(&["get", "pod", "files", "-o", "jsonpath={.metadata.uid}"], "");
    assert!(is_mounted(&format!("{uid}/objects")));
    machine.kubectl(&["delete", "pod", "files"], "");
    machine.until("get pods", str::is_empty);
    assert!(!is_mounted(&uid));
    assert!(!machine.sandbox.data().join("node/volumes").join(uid).exists());
}

#[test]
fn directories_are_what_they_are_said_to_be() {
    let machine = Machine::start();
    machine.allow_privileged_pods();
    let work = machine.sandbox.work();
    std::fs::create_dir_all(work.join("host")).expect("a directory");
    std::fs::write(work.join("file"), "").expect("a file");
    std::os::unix::fs::symlink("/etc", work.join("host/out")).expect("a link");
    let host = |kind: &str, path: &str| {
        format!("{{name: v, hostPath: {{type: {kind:?}, path: {}/{path}}}}}", work.display())
    };
    let here = "{name: v, mountPath: /tmp/v}";
    let part = |part: &str| format!("{{name: v, mountPath: /tmp/v, subPath: {part}}}");
    let memory = "{name: v, emptyDir: {medium: Memory, sizeLimit: 1Mi}}";
    let size = "stat -f -c %T /tmp/v; df -k --output=size /tmp/v | tail -1; stat -c %a /tmp/v; \
        head -c 2000000 /dev/zero >/tmp/v/x || echo full";
    let grouped = pod(
        "grouped",
        "stat -c '%g %a' /tmp/v; touch /tmp/v/f; stat -c %g /tmp/v/f",
        here,
        "{name: v, emptyDir: {}}",
    );
    let grouped =
        grouped.replace("restartPolicy", "securityContext: {fsGroup: 4242}, restartPolicy");
    let read_only = "{name: v, mountPath: /tmp/v, readOnly: true}";
    let manifests = [
        pod("memory", size, here, memory),
        grouped,
        pod("made", "pwd", here, &host("DirectoryOrCreate", "made")),
        pod("kept", "touch /tmp/v/x || echo no", read_only, &host("Directory", "host")),
        pod("part", "echo here >/tmp/v/f", &part("a/b"), &host("Directory", "host")),
        pod("wrong", "true", here, &host("Directory", "file")),
        pod("missing", "true", here, &host("File", "none")),
        pod("out", "true", &part("out"), &host("Directory", "host")),
    ];
    apply(&machine, &manifests.concat());
    for name in ["memory", "grouped", "made", "kept", "part"] {
        machine.phase(name, "Succeeded");
    }
    let words = |name: &str| -> Vec<String> {
        let log = machine.kubectl(&["logs", name], "");
        log.lines().map(|line| line.trim().to_owned()).collect()
    };
    assert_eq!(words("memory")[..3], ["tmpfs", "1024", "777"].map(str::to_owned));
    assert!(words("memory").contains(&"full".to_owned()));
    assert_eq!(words("grouped"), ["4242 2777", "4242"].map(str::to_owned));
    assert!(words("kept").contains(&"no".to_owned()));
    assert!(work.join("made").is_dir() && work.join("host/a/b/f").is_file());
    let events = machine.until("get events", |events| {
        ["is not a directory", "is not a file"].iter().all(|text| events.contains(text))
    });
    let wrong = format!("hostPath type check failed: {}/file is not a directory", work.display());
    assert!(events.contains(&wrong), "{events}");
    let reason = "get pod out -o jsonpath={.status.containerStatuses[0].state.waiting.reason}";
    machine.until(reason, |reason| reason == "CreateContainerConfigError");
    let up = pod("up", "true", &part("../x"), &host("Directory", "host"));
    let refused = machine.run(&["apply", "-f", "-"], &up);
    assert!(refused.stderr.contains("must not contain '..'"), "{refused:?}");
    // What is over holds no memory.
    let uid = machine.kubectl(&["get", "pod", "memory", "-o", "jsonpath={.metadata.uid}"], "");
    machine.until("get pod memory", |_| !is_mounted(&format!("{uid}/empty-dir")));
    machine.kubectl(&["delete", "pod", "--all"], "");
}

#[test]
fn the_containers_of_a_pod_share_memory_with_nobody_else() {
    let machine = Machine::start();
    machine.allow_privileged_pods();
    let container = |name: &str, script: &str| {
        format!("{{name: {name}, image: of-{name}, command: [sh, -c, {script:?}]}}")
    };
    let pod = |name: &str, more: &str, containers: &[String]| {
        format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{restartPolicy: \
             Never, {more}terminationGracePeriodSeconds: 1, containers: [{}]}}}}\n",
            containers.join(", ")
        )
    };
    let mark = format!("setpoint-{}", std::process::id());
    let writes = format!("echo shared >/dev/shm/{mark}; sleep 1000");
    let reads = format!(
        "until cat /dev/shm/{mark}; do sleep 0.1; done 2>/dev/null; \
        df -k --output=size /dev/shm | tail -1; stat -c %a /dev/shm"
    );
    let alone = format!("cat /dev/shm/{mark} 2>/dev/null || echo nothing");
    let both = [container("one", &writes), container("two", &reads)];
    apply(&machine, &pod("both", "", &both));
    let told = machine.until("logs both -c two", |log| log.ends_with("1777"));
    let told: Vec<&str> = told.lines().map(str::trim).collect();
    assert_eq!(told, ["shared", "65536", "1777"]);
    assert!(!Path::new("/dev/shm").join(&mark).exists());
    apply(&machine, &pod("other", "", &[container("main", &alone)]));
    let host = "stat -f -c %b /dev/shm";
    apply(&machine, &pod("host", "hostIPC: true, ", &[container("main", host)]));
    machine.phase("other", "Succeeded");
    assert_eq!(machine.kubectl(&["logs", "other"], ""), "nothing");
    machine.phase("host", "Succeeded");
    let size = Command::new("sh").args(["-c", host]).output().expect("sh runs").stdout;
    let size = String::from_utf8_lossy(&size).trim().to_owned();
    assert_eq!(machine.kubectl(&["logs", "host"], "").trim(), size);
    // What was run from is told with the node.
    let images = "get nodes -o jsonpath={.items[0].status.images[*].names[*]}";
    let images = machine.until(images, |images| images.contains("of-two"));
    assert_eq!(images.matches("of-one").count(), 1, "{images}");
    let uid = machine.kubectl(&["get", "pod", "both", "-o", "jsonpath={.metadata.uid}"], "");
    assert!(is_mounted(&format!("{uid}/shared-memory")));
    machine.kubectl(&["delete", "pod", "--all"], "");
    machine.until("get pods", str::is_empty);
    assert!(!is_mounted(&uid));
}

#[test]
fn claims_become_directories_that_go_with_them() {
    let machine = Machine::start();
    let place = machine.sandbox.work().join("volumes").display().to_string();
    let class = format!(
        "---\n{{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {{name: here}}, \
         provisioner: setpoint.dev/local-path, volumeBindingMode: WaitForFirstConsumer, \
         allowVolumeExpansion: true, parameters: {{path: {place}}}}}\n"
    );
    let claim = "accessModes: [ReadWriteOnce], storageClassName: here, \
        resources: {requests: {storage: 1Gi}}";
    let claims = format!(
        "---\n{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: data}}, \
         spec: {{{claim}}}}}\n"
    );
    apply(&machine, &format!("{class}{claims}"));
    let here = "{name: v, mountPath: /tmp/v}";
    let named = "{name: v, persistentVolumeClaim: {claimName: data}}";
    apply(&machine, &pod("writer", "echo kept >/tmp/v/f; stat -c %a /tmp/v", here, named));
    machine.phase("writer", "Succeeded");
    assert_eq!(machine.kubectl(&["logs", "writer"], ""), "770");
    apply(&machine, &pod("reader", "cat /tmp/v/f", here, named));
    machine.phase("reader", "Succeeded");
    assert_eq!(machine.kubectl(&["logs", "reader"], ""), "kept");
    let grow = r#"{"spec": {"resources": {"requests": {"storage": "2Gi"}}}}"#;
    machine.kubectl(&["patch", "pvc", "data", "--type=merge", "-p", grow], "");
    machine.until("get pvc data -o jsonpath={.status.capacity.storage}", |size| size == "2Gi");

    let ephemeral =
        format!("{{name: scratch, ephemeral: {{volumeClaimTemplate: {{spec: {{{claim}}}}}}}}}");
    let mount = "{name: scratch, mountPath: /tmp/v}";
    apply(&machine, &pod("brief", "echo x >/tmp/v/f; sleep 1000", mount, &ephemeral));
    machine.phase("brief", "Running");
    let owner = "jsonpath={.metadata.ownerReferences[0].name} {.status.phase}";
    assert_eq!(machine.kubectl(&["get", "pvc", "brief-scratch", "-o", owner], ""), "brief Bound");
    let count = || std::fs::read_dir(&place).map_or(0, Iterator::count);
    assert_eq!(count(), 2);
    machine.kubectl(&["delete", "pod", "brief"], "");
    machine.until("get pvc --no-headers", |claims| !claims.contains("brief"));
    machine.kubectl(&["delete", "pod", "writer", "reader"], "");
    machine.kubectl(&["delete", "pvc", "data"], "");
    machine.until("get pv", str::is_empty);
    let began = Instant::now();
    while count() > 0 {
        assert!(began.elapsed() < Duration::from_secs(30), "the directories must go");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn nothing_of_a_pod_that_went_while_nobody_looked_is_left() {
    let mut machine = Machine::start();
    let memory = "{name: v, emptyDir: {medium: Memory}}";
    apply(&machine, &pod("gone", "sleep 1000", "{name: v, mountPath: /tmp/v}", memory));
    machine.phase("gone", "Running");
    let uid = machine.kubectl(&["get", "pod", "gone", "-o", "jsonpath={.metadata.uid}"], "");
    assert!(is_mounted(&format!("{uid}/empty-dir/v")));
    // As if it had been deleted by others while this node was away.
    let volumes = machine.sandbox.data().join("node/volumes");
    let orphan = volumes.join("00000000-0000-0000-0000-000000000000/empty-dir/v");
    std::fs::create_dir_all(&orphan).expect("a directory");
    let place = orphan.display().to_string();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "none", &place]).status();
    assert!(mounted.expect("mount must run").success());
    machine.restart();
    let began = Instant::now();
    while Path::new(&place).exists() {
        assert!(began.elapsed() < Duration::from_secs(30), "it must be removed");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!is_mounted(&place));
    machine.phase("gone", "Running");
    assert!(is_mounted(&format!("{uid}/empty-dir/v")));
    machine.kubectl(&["delete", "pod", "gone"], "");
    assert!(!is_mounted(&uid));
}
