//! The life of pods that really run, told as kubectl tells it: how they begin, fail, are probed and
//! end; what goes wrong with them and what the node says to it.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::node::Machine;

/// A pod of one container that runs a script; `more` is the rest of its specification.
fn pod(name: &str, script: &str, more: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{\
         terminationGracePeriodSeconds: 5, containers: [{{name: main, image: x, \
         command: [sh, -c, {script:?}]}}]{more}}}}}\n"
    )
}

fn apply(machine: &Machine, manifest: &str) {
    machine.kubectl(&["apply", "-f", "-"], manifest);
}

fn field(machine: &Machine, pod: &str, path: &str) -> String {
    let path = format!("jsonpath={{{path}}}");
    machine.kubectl(&["get", "pod", pod, "-o", &path], "")
}

/// Waits until a field of a pod is so.
#[track_caller]
fn until(machine: &Machine, pod: &str, path: &str, expected: &str) {
    machine.until(&format!("get pod {pod} -o jsonpath={{{path}}}"), |found| found == expected);
}

#[test]
fn the_status_column_says_what_people_know() {
    let machine = Machine::start();
    let init = |names: &str, script: &str| {
        let one = |name: &str| format!("{{name: {name}, image: x, command: [sh, -c, {script:?}]}}");
        let all: Vec<String> = names.split(' ').map(one).collect();
        format!(", initContainers: [{}]", all.join(", "))
    };
    let never = ", restartPolicy: Never";
    let missing = ", volumes: [{name: v, configMap: {name: none}}]";
    let manifests = [
        pod("completed", "true", never),
        pod("error", "exit 3", never),
        pod("crash", "exit 1", ""),
        pod("init-waits", "true", &init("a b", "sleep 1000")),
        pod("init-error", "true", &(init("a", "exit 1") + never)),
        pod("init-crash", "true", &init("a", "exit 1")),
        pod("creating", "true", missing),
        pod("running", "sleep 1000", ""),
    ];
    apply(&machine, &manifests.concat());
    for (name, expected) in [
        ("completed", "Completed"),
        ("error", "Error"),
        ("crash", "CrashLoopBackOff"),
        ("init-waits", "Init:0/2"),
        ("init-error", "Init:Error"),
        ("init-crash", "Init:CrashLoopBackOff"),
        ("creating", "ContainerCreating"),
        ("running", "Running"),
    ] {
        machine.until(&format!("get pod {name} --no-headers"), |row| {
            row.split_whitespace().nth(2) == Some(expected)
        });
    }
    let events = machine.until("get events", |events| {
        events.contains("MountVolume.SetUp failed for volume \"v\" : configmap \"none\" not found")
            && events.contains("Back-off restarting failed container main in pod crash_default(")
    });
    assert!(events.contains("FailedMount") && events.contains("BackOff"), "{events}");
    let message = field(&machine, "crash", ".status.containerStatuses[0].state.waiting.message");
    assert!(
        message.starts_with("back-off 10s restarting failed container=main pod=crash_default(")
    );
    assert_eq!(field(&machine, "completed", ".status.qosClass"), "BestEffort");
    let reason = r#".status.conditions[?(@.type=="Ready")].reason"#;
    assert_eq!(field(&machine, "completed", reason), "PodCompleted");
    assert_eq!(field(&machine, "error", reason), "PodFailed");
}

#[test]
fn restarts_are_counted_over_a_restart_of_the_program() {
    let mut machine = Machine::start();
    apply(&machine, &pod("crash", "exit 7", ""));
    let count = ".status.containerStatuses[0].restartCount";
    until(&machine, "crash", count, "1");
    machine.restart();
    // Ten seconds after its end, by the record of the run and not by ours.
    until(&machine, "crash", count, "2");
    let code = ".status.containerStatuses[0].lastState.terminated.exitCode";
    until(&machine, "crash", code, "7");
    // Another image: at once, whatever it waits for.
    machine.kubectl(&["set", "image", "pod/crash", "main=other"], "");
    until(&machine, "crash", ".status.containerStatuses[0].image", "other");
    let restarts: u32 = field(&machine, "crash", count).parse().expect("a number");
    assert!(restarts >= 3, "{restarts}");
    apply(&machine, &pod("stays", "sleep 1000", ", restartPolicy: Never"));
    machine.phase("stays", "Running");
    machine.kubectl(&["set", "image", "pod/stays", "main=other"], "");
    until(&machine, "stays", count, "1");
    machine.until("get events", |events| {
        events.contains("Container main definition changed, will be restarted")
    });
}

const ORDERED: &str = "
apiVersion: v1
kind: Pod
metadata: {name: ordered}
spec:
  terminationGracePeriodSeconds: 10
  initContainers:
  - {name: one, image: x, command: [sh, -c, 'echo one >>FILE']}
  - name: side
    image: x
    restartPolicy: Always
    command:
    - sh
    - -c
    - 'trap \"echo side ends >>FILE; exit 0\" TERM; echo side >>FILE; while :; do sleep 0.1; done'
    startupProbe: {exec: {command: [sh, -c, 'sleep 0.2; echo started >>FILE']}, periodSeconds: 1}
  - {name: two, image: x, command: [sh, -c, 'echo two >>FILE']}
  containers:
  - name: main
    image: x
    command:
    - sh
    - -c
    - 'trap \"sleep 0.3; echo main ends >>FILE; exit 0\" TERM; echo main >>FILE;
      while :; do sleep 0.1; done'
    lifecycle:
      postStart: {exec: {command: [sh, -c, 'sleep 0.3; echo hook >>FILE']}}
      preStop: {exec: {command: [sh, -c, 'echo stop >>FILE']}}
  - {name: beside, image: x, command: [sh, -c, 'trap exit TERM; while :; do sleep 0.1; done']}
";

#[test]
fn containers_begin_in_order_and_end_in_reverse() {
    let machine = Machine::start();
    let file = machine.sandbox.work().join("order");
    apply(&machine, &ORDERED.replace("FILE", &file.display().to_string()));
    machine.until("get pod ordered --no-headers", |row| row.contains("3/3"));
    machine.kubectl(&["delete", "pod", "ordered"], "");
    let order = std::fs::read_to_string(file).expect("they wrote");
    let order: Vec<&str> = order.lines().collect();
    let expected =
        ["one", "side", "started", "two", "main", "hook", "stop", "main ends", "side ends"];
    assert_eq!(order, expected);
}

#[test]
fn a_pod_that_goes_has_the_time_that_was_last_given() {
    let machine = Machine::start();
    let deaf = "trap '' TERM; while :; do sleep 0.1; done";
    let patient = |name: &str| {
        let patient = pod(name, deaf, "");
        patient.replace("terminationGracePeriodSeconds: 5", "terminationGracePeriodSeconds: 300")
    };
    apply(&machine, &[patient("slow"), patient("forced")].concat());
    machine.phase("slow", "Running");
    machine.phase("forced", "Running");
    machine.kubectl(&["delete", "pod", "slow", "--wait=false"], "");
    let row = machine.kubectl(&["get", "pod", "slow", "--no-headers"], "");
    assert!(row.contains("Terminating"), "{row}");
    // A shorter time is a shorter time.
    machine.kubectl(&["delete", "pod", "slow", "--grace-period=1"], "");
    machine.kubectl(&["delete", "pod", "forced", "--grace-period=0", "--force"], "");
    assert!(!machine.kubectl(&["get", "pods", "-o", "name"], "").contains("forced"));
    let records = machine.sandbox.data().join("node/pods");
    let began = Instant::now();
    while std::fs::read_dir(&records).is_ok_and(|mut left| left.next().is_some()) {
        assert!(began.elapsed() < Duration::from_secs(30), "its process must end");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn ends_are_told_with_their_last_words() {
    let machine = Machine::start();
    let never = ", restartPolicy: Never";
    let falls_back = |name: &str, script: &str| {
        pod(name, script, never).replace(
            "image: x",
            "image: x, terminationMessagePolicy: \
            FallbackToLogsOnError",
        )
    };
    let manifests = [
        pod("says", "printf hello >/dev/termination-log; echo log; exit 1", never),
        pod("long", "head -c 9000 /dev/zero | tr '\\\\0' x >/dev/termination-log", never),
        pod("silent", "echo log; exit 1", never),
        falls_back("logs", "for i in $(seq 100); do echo line $i; done; exit 1"),
        falls_back("good", "echo fine"),
        pod("late", "sleep 1000", ", restartPolicy: Never, activeDeadlineSeconds: 1"),
    ];
    apply(&machine, &manifests.concat());
    for name in ["says", "silent", "logs", "late"] {
        machine.phase(name, "Failed");
    }
    machine.phase("long", "Succeeded");
    machine.phase("good", "Succeeded");
    let said =
        |name: &str| field(&machine, name, ".status.containerStatuses[0].state.terminated.message");
    assert_eq!((said("says").as_str(), said("silent").as_str()), ("hello", ""));
    assert_eq!((said("long").len(), said("good").as_str()), (4096, ""));
    let logs = said("logs");
    assert!(logs.starts_with("line 21\n") && logs.ends_with("line 100"), "{logs}");
    assert_eq!(field(&machine, "late", ".status.reason"), "DeadlineExceeded");
    until(&machine, "late", ".status.containerStatuses[0].state.terminated.reason", "Error");
}

#[test]
fn probes_over_the_network_decide() {
    let machine = Machine::start();
    let serve = "cd $(mktemp -d); echo ok >ready; exec python3 -m http.server 8123 --bind 0.0.0.0";
    let probes = "ports: [{name: web, containerPort: 8123}], \
        startupProbe: {tcpSocket: {port: web}, periodSeconds: 1, failureThreshold: 60}, \
        readinessProbe: {httpGet: {port: web, path: /ready}, periodSeconds: 1}, \
        livenessProbe: {httpGet: {port: 8123, path: /gone}, periodSeconds: 1, \
        initialDelaySeconds: 4, \
        terminationGracePeriodSeconds: 2}";
    let served = pod("served", serve, "").replace("image: x", &format!("image: x, {probes}"));
    // The server itself speaks HTTPS with a certificate that probes have no reason to trust.
    let port = machine.api_port();
    let secret = format!(
        "image: x, readinessProbe: {{httpGet: {{scheme: HTTPS, host: 127.0.0.1, \
        port: {port}, path: /livez}}, periodSeconds: 1}}"
    );
    let secret = pod("secret", "sleep 1000", "").replace("image: x", &secret);
    let refused = pod("refused", "sleep 1000", "").replace(
        "image: x",
        "image: x, \
        livenessProbe: {grpc: {port: 9}, periodSeconds: 1, failureThreshold: 100}",
    );
    apply(&machine, &[served, secret, refused].concat());
    machine.until("get pod secret --no-headers", |row| row.contains("1/1"));
    machine.until("get pod served --no-headers", |row| row.contains("1/1"));
    until(&machine, "served", ".status.containerStatuses[0].restartCount", "1");
    machine.until("get events", |events| {
        events.contains("Liveness probe failed: HTTP probe failed with statuscode: 404")
            && events.contains("Container main failed liveness probe, will be restarted")
            && events.contains("Liveness probe failed: error: failed to connect service")
    });
    machine.kubectl(&["delete", "pod", "--all", "--grace-period=1"], "");
}

#[test]
fn what_cannot_run_says_why_and_the_node_stays_well() {
    let machine = Machine::start();
    machine.allow_privileged_pods();
    let node = machine.kubectl(&["get", "nodes", "-o", "jsonpath={.items[0].metadata.name}"], "");
    let here = format!(", nodeName: {node}");
    let many = "image: x, resources: {requests: {cpu: 4000}}";
    let port = "image: x, ports: [{containerPort: 80, hostPort: 18999}]";
    let unset = "image: x, env: [{name: A, valueFrom: {configMapKeyRef: {name: later, key: k}}}]";
    let manifests = [
        pod("command", "true", "").replace("[sh, -c, \"true\"]", "[/no/such/program]"),
        pod("typo", "true", ", restartPolicy: Never").replace("[sh, -c, \"true\"]", "[pyhton]"),
        pod("greedy", "true", &here).replace("image: x", many),
        pod("first", "sleep 1000", &here).replace("image: x", port),
        pod("unset", "echo $A; sleep 1000", "").replace("image: x", unset),
        pod("lost", "true", &format!("{here}, nodeSelector: {{zone: none}}")),
    ];
    apply(&machine, &manifests.concat());
    let waiting = ".status.containerStatuses[0].state.waiting.reason";
    until(&machine, "command", waiting, "RunContainerError");
    // What is not tried again has failed, and says of what.
    machine.phase("typo", "Failed");
    let ended = ".status.containerStatuses[0].state.terminated";
    assert_eq!(field(&machine, "typo", &format!("{ended}.reason")), "StartError");
    assert_eq!(field(&machine, "typo", &format!("{ended}.exitCode")), "128");
    assert!(field(&machine, "typo", &format!("{ended}.message")).contains("pyhton"));
    until(&machine, "unset", waiting, "CreateContainerConfigError");
    let message = ".status.containerStatuses[0].state.waiting.message";
    until(&machine, "unset", message, "configmap \"later\" not found");
    machine.phase("first", "Running");
    apply(&machine, &pod("second", "true", &here).replace("image: x", port));
    for (name, reason) in
        [("greedy", "OutOfcpu"), ("second", "NodePorts"), ("lost", "NodeAffinity")]
    {
        machine.phase(name, "Failed");
        assert_eq!(field(&machine, name, ".status.reason"), reason);
    }
    let why = field(&machine, "greedy", ".status.message");
    let begin = "Pod was rejected: Node didn't have enough resource: cpu, requested: 4000000";
    assert!(why.starts_with(begin), "{why}");
    // What was missing comes, and the container starts at once.
    machine.kubectl(&["create", "configmap", "later", "--from-literal=k=now"], "");
    machine.until("logs unset", |log| log == "now");
    let events = machine.until("get events", |events| events.contains("/no/such/program"));
    for reason in ["RegisteredNode", "NodeReady", "OutOfcpu", "Failed"] {
        assert!(events.contains(reason), "{reason}: {events}");
    }
    assert!(machine.kubectl(&["get", "nodes"], "").contains(" Ready "));
    machine.kubectl(&["delete", "pod", "--all", "--grace-period=1"], "");
}

#[test]
fn a_job_of_twenty_indexed_processes_completes() {
    let machine = Machine::start();
    let job = "
apiVersion: batch/v1
kind: Job
metadata: {name: many}
spec:
  completions: 20
  parallelism: 20
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: x, command: [sh, -c, 'echo index $JOB_COMPLETION_INDEX']}]
";
    apply(&machine, job);
    machine.kubectl(&["wait", "--for=condition=Complete", "job/many", "--timeout=90s"], "");
    let indexes =
        machine.kubectl(&["get", "job", "many", "-o", "jsonpath={.status.completedIndexes}"], "");
    assert_eq!(indexes, "0-19");
    let logs = machine.kubectl(&["logs", "-l", "job-name=many", "--tail=-1"], "");
    let mut lines: Vec<&str> = logs.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), 20, "{logs}");
    machine.kubectl(&["delete", "job", "many"], "");
}

/// What happened to objects of a kind since a revision: revision, type, object.
fn happened(machine: &Machine, path: &str, since: &str) -> Vec<(u64, String, Value)> {
    let query = format!("{path}?watch=true&resourceVersion={since}&timeoutSeconds=1");
    let lines = machine.kubectl(&["get", "--raw", &query], "");
    let read = |line: &str| {
        let event: Value = serde_json::from_str(line).expect("an event");
        let object = event["object"].clone();
        let revision = object["metadata"]["resourceVersion"].as_str().expect("a revision");
        (revision.parse().expect("a number"), event["type"].to_string(), object)
    };
    lines.lines().map(read).collect()
}

/// What people are promised, from a POST to a ready pod.
const BUDGET: Duration = Duration::from_secs(1);
/// Others may use the machine: one of so many tries must be within the budget.
const BUDGET_TRIES: usize = 5;

/// The steps in their order; and all of it within a second, as whoever asked for it sees it, who
/// starts two programs meanwhile.
#[test]
fn a_deployment_becomes_a_ready_pod_step_by_step_within_a_second() {
    let machine = Machine::start();
    // The account and its token have to be there first, as in a cluster that is not seconds old.
    machine.until("get serviceaccounts", |accounts| accounts.contains("default"));
    let mut took = Vec::new();
    while took.len() < BUDGET_TRIES && took.iter().all(|it| *it >= BUDGET) {
        took.push(becomes_ready_step_by_step(&machine));
    }
    assert!(took.iter().any(|it| *it < BUDGET), "never within {BUDGET:?}: {took:?}");
}

/// How long it took from before the request is sent until the pod is seen to be ready.
fn becomes_ready_step_by_step(machine: &Machine) -> Duration {
    let list = machine.kubectl(&["get", "--raw", "/api/v1/namespaces/default/pods"], "");
    let list: Value = serde_json::from_str(&list).expect("a list");
    let since = list["metadata"]["resourceVersion"].as_str().expect("a revision");
    let deployment = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: x, command: [sleep, '1000']}]
";
    let began = Instant::now();
    machine.kubectl(&["create", "-f", "-"], deployment);
    let ready = ["wait", "pod", "-l", "app=web", "--for=condition=Ready", "--timeout=60s"];
    // Until there is a pod there is nothing to wait for.
    while machine.run(&ready, "").code != Some(0) {
        assert!(began.elapsed() < Duration::from_secs(60), "it must become ready");
    }
    let took = began.elapsed();
    let mut steps = Vec::new();
    for (revision, kind, _) in
        happened(machine, "/apis/apps/v1/namespaces/default/deployments", since)
    {
        steps.push((revision, format!("Deployment {kind}")));
    }
    for (revision, kind, _) in
        happened(machine, "/apis/apps/v1/namespaces/default/replicasets", since)
    {
        steps.push((revision, format!("ReplicaSet {kind}")));
    }
    for (revision, kind, pod) in happened(machine, "/api/v1/namespaces/default/pods", since) {
        let (spec, status) = (&pod["spec"], &pod["status"]);
        let waiting = &status["containerStatuses"][0]["state"]["waiting"]["reason"];
        let what = match (&status["containerStatuses"][0]["ready"], waiting) {
            (Value::Bool(true), _) if status["phase"] == "Running" => "ready",
            (_, Value::String(reason)) => reason.as_str(),
            _ if spec["nodeName"].is_string() => "bound",
            _ => "Pending",
        };
        steps.push((revision, format!("Pod {kind} {what}")));
    }
    steps.sort();
    let texts: Vec<&str> = steps.iter().map(|(_, text)| text.as_str()).collect();
    let expected = [
        "Deployment \"ADDED\"",
        "ReplicaSet \"ADDED\"",
        "Pod \"ADDED\" Pending",
        "Pod \"MODIFIED\" bound",
        "Pod \"MODIFIED\" ContainerCreating",
        "Pod \"MODIFIED\" ready",
    ];
    let mut at = 0;
    for step in expected {
        let found = texts[at..].iter().position(|text| *text == step);
        at += found.unwrap_or_else(|| panic!("{step} is not after step {at} of {texts:#?}"));
    }
    machine.kubectl(&["delete", "deployment", "web"], "");
    machine.until("get pods -o name", str::is_empty);
    took
}

/// A node whose disk is full says so of the pod that needs it, and lives on.
#[test]
fn a_full_disk_is_the_pods_trouble_and_not_the_nodes() {
    let machine = Machine::start();
    let volumes = machine.sandbox.data().join("node/volumes");
    std::fs::create_dir_all(&volumes).expect("a directory");
    let place = volumes.display().to_string();
    let mount = ["-t", "tmpfs", "-o", "size=64k,nr_inodes=4", "none", &place];
    let mounted = Command::new("mount").args(mount).status().expect("mount must run");
    assert!(mounted.success(), "the test needs the right to mount");
    let empty = ", volumes: [{name: a, emptyDir: {}}, {name: b, emptyDir: {}}]";
    let at = |name: &str| format!("{{name: {name}, mountPath: /tmp/setpoint-full-{name}}}");
    let mounts = format!("image: x, volumeMounts: [{}, {}]", at("a"), at("b"));
    apply(&machine, &pod("full", "sleep 1000", empty).replace("image: x", &mounts));
    machine.until("get events", |events| {
        events.contains("FailedMount") && events.contains("No space left on device")
    });
    let row = machine.kubectl(&["get", "pod", "full", "--no-headers"], "");
    assert!(row.contains("ContainerCreating"), "{row}");
    assert!(machine.kubectl(&["get", "nodes"], "").contains(" Ready "));
    let unmounted = Command::new("umount").args(["-l", &place]).status().expect("umount must run");
    assert!(unmounted.success());
    machine.phase("full", "Running");
    machine.kubectl(&["delete", "pod", "full"], "");
}
