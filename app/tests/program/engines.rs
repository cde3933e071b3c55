//! Pods in containers of real engines, Docker and Podman, used through kubectl. The image is made
//! of the machine's busybox; no registry is asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use servers::Engine;

use crate::engine_pods::{mounts, whole_pod};
use crate::node::Machine;
use crate::sandbox::Sandbox;

pub const IMAGE: &str = "setpoint.test/shell:1";
/// It has a program and arguments of its own.
pub const PROGRAM: &str = "setpoint.test/program:1";

fn machine(engine: &Engine, name: &str) -> Machine {
    engine.make_shell(IMAGE).expect("an image is made");
    engine.make_program(PROGRAM).expect("an image is made");
    machine_at(engine.socket(), name)
}

/// A node whose runtime is at a socket.
pub fn machine_at(socket: &Path, name: &str) -> Machine {
    let mut machine = Machine { sandbox: Sandbox::new(), started: None };
    machine.sandbox.set("SETPOINT_RUNTIME", name);
    let socket = socket.display();
    machine.sandbox.set("CONTAINER_RUNTIME_ENDPOINT", format!("unix://{socket}"));
    machine.begin();
    let version = "get nodes -o jsonpath={.items[0].status.nodeInfo.containerRuntimeVersion}";
    machine.until(version, |version| version.starts_with(&format!("{name}://")));
    machine
}

/// A pod of one container that runs a script.
pub fn pod(name: &str, script: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{\
         terminationGracePeriodSeconds: 2, containers: [{{name: main, image: {IMAGE:?}, \
         stdin: true, command: [sh, -c, {script:?}]}}]}}}}\n"
    )
}

#[test]
fn pods_run_in_containers_of_docker() {
    if !Engine::is_possible() {
        return;
    }
    let engine = Engine::docker().expect("dockerd starts");
    everything(&engine, "docker");
}

#[test]
fn pods_run_in_containers_of_podman() {
    if !Engine::is_possible() {
        return;
    }
    let engine = Engine::podman().expect("podman starts");
    everything(&engine, "podman");
}

fn everything(engine: &Engine, name: &str) {
    let mut machine = machine(engine, name);
    machine.kubectl(
        &["apply", "-f", "-"],
        &pod("hello", "echo hi; hostname; while :; do cat; sleep 1; done"),
    );
    machine.kubectl(&["wait", "pod/hello", "--for=condition=Ready", "--timeout=60s"], "");
    let (_, list) = engine.ask(("GET", "/containers/json"), b"").expect("it answers");
    assert!(list.contains("/k8s_default_hello_main\""), "{list}");
    streams(&machine);
    refusals(&machine);
    commands(&machine);
    ends(&machine, engine);
    ports(&machine);
    services(&machine);
    let fields = "['containerID','restartCount']";
    let told = format!("get pod hello -o jsonpath={{.status.containerStatuses[0]{fields}}}");
    let before = machine.until(&told, |told| told.starts_with(&format!("{name}://")));
    machine.restart();
    machine.until("exec hello -- echo again", |said| said == "again");
    assert_eq!(machine.until(&told, |told| !told.is_empty()), before);
    training(&machine);
    whole_pod(&machine);
    machine.kubectl(&["delete", "trainjob,deployment,pod", "--all", "--timeout=60s"], "");
    let left = || engine.ask(("GET", "/containers/json?all=1"), b"").expect("it answers").1;
    machine.until("get pods -o name", |pods| pods.is_empty() && !left().contains("k8s_"));
    machine.until("get pods -o name", |_| mounts(&machine).is_empty());
}

/// logs, exec, attach, cp, port-forward.
pub fn streams(machine: &Machine) {
    machine.until("logs hello", |log| log == "hi\nhello");
    assert_eq!(machine.kubectl(&["logs", "hello", "--tail=1"], ""), "hello");
    let stamped = machine.kubectl(&["logs", "hello", "--timestamps", "--tail=1"], "");
    assert!(stamped.starts_with("20") && stamped.ends_with(" hello"), "{stamped}");
    let said = machine.kubectl(&["exec", "-i", "hello", "--", "sh", "-c", "cat; id -u"], "in\n");
    assert_eq!(said, "in\n0");
    let failed = machine.run(&["exec", "hello", "--", "sh", "-c", "echo oops >&2; exit 3"], "");
    assert_eq!((failed.code, failed.stderr.contains("oops")), (Some(3), true), "{failed:?}");
    let attached = ["attach", "-i", "hello", "-c", "main", "--pod-running-timeout=30s"];
    let kubeconfig = machine.sandbox.data().join("kubeconfig");
    let command = |words: &[&str]| {
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(&kubeconfig).args(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().expect("kubectl starts")
    };
    let mut client = command(&attached);
    let mut stdin = client.stdin.take().expect("a pipe");
    let mut stdout = BufReader::new(client.stdout.take().expect("a pipe"));
    // Before it is attached nobody hears it.
    let mut line = String::new();
    stdin.write_all(b"through\n").expect("it is taken");
    stdin.flush().expect("it is taken");
    stdout.read_line(&mut line).expect("it comes back");
    assert_eq!(line, "through\n");
    client.kill().expect("it ends");
    client.wait().expect("it ended");
    machine.sandbox.write("source/a.txt", &"text".repeat(10_000));
    machine.kubectl(&["cp", "source", "hello:/tmp/copy"], "");
    machine.kubectl(&["cp", "hello:/tmp/copy", "back"], "");
    let back = std::fs::read(machine.sandbox.work().join("back/a.txt")).expect("it is there");
    assert_eq!(back.len(), 40_000);
    let serve = "mkdir /www; echo page > /www/index.html; exec httpd -f -p 8080 -h /www";
    machine.kubectl(&["apply", "-f", "-"], &pod("page", serve));
    machine.kubectl(&["wait", "pod/page", "--for=condition=Ready", "--timeout=60s"], "");
    machine.until("exec page -- wget -qO- http://127.0.0.1:8080/", |page| page == "page");
    let mut client = command(&["port-forward", "pod/page", ":8080"]);
    let mut line = String::new();
    let mut stdout = BufReader::new(client.stdout.take().expect("a pipe"));
    stdout.read_line(&mut line).expect("it says where it listens");
    let address = line.split_whitespace().nth(2).expect("an address");
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("it is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.ends_with("page\n"), "{answer}");
    client.kill().expect("it ends");
    client.wait().expect("it ended");
}

/// What cannot run says why.
pub fn refusals(machine: &Machine) {
    let one = |name: &str, image: &str, policy: &str, command: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{containers: \
             [{{name: main, image: {image:?}, imagePullPolicy: {policy}, \
             command: [{command}]}}]}}}}\n"
        )
    };
    let pods = [
        one("never", "setpoint.test/none:1", "Never", "sh"),
        one("nowhere", "127.0.0.1:1/none:1", "IfNotPresent", "sh"),
        one("invalid", "UPPER/case", "IfNotPresent", "sh"),
        one("wrong", IMAGE, "IfNotPresent", "/no/such/program"),
    ];
    machine.kubectl(&["apply", "-f", "-"], &pods.concat());
    for (name, reason) in [
        ("never", "ErrImageNeverPull"),
        ("nowhere", "ImagePullBackOff"),
        ("invalid", "InvalidImageName"),
        ("wrong", "RunContainerError"),
    ] {
        let line = format!(
            "get pod {name} -o jsonpath={{.status.containerStatuses[0].state.waiting.reason}}"
        );
        machine.until(&line, |found| found == reason);
    }
    let events = machine.until("get events", |events| events.contains("Back-off pulling image"));
    for text in [
        "is not present with pull policy of Never",
        "Pulling image \"127.0.0.1:1/none:1\"",
        "Failed to pull image \"127.0.0.1:1/none:1\":",
        "Error: ErrImagePull",
        "couldn't parse image name \"UPPER/case\": invalid reference format",
        "already present on machine",
        "/no/such/program",
    ] {
        assert!(events.contains(text), "{text}: {events}");
    }
    let said = machine.run(&["logs", "nowhere"], "").stderr;
    assert!(said.contains("trying and failing to pull image"), "{said}");
    let pods = ["never", "nowhere", "invalid", "wrong"];
    machine.kubectl(&[&["delete", "pod", "--wait=false"][..], &pods].concat(), "");
}

/// Command and arguments of a container take the places of those of its image, each of its own.
pub fn commands(machine: &Machine) {
    let cases = [
        ("as-it-is", "", "entry usual"),
        ("commanded", ", command: [echo, own]", "own"),
        ("argued", ", args: [given]", "entry given"),
        ("both", ", command: [echo, own], args: ['$(A)', '$$(A)']", "own a $(A)"),
    ];
    for (name, more, _) in cases {
        let pod = format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{\
             restartPolicy: Never, containers: [{{name: main, image: {PROGRAM:?}, \
             env: [{{name: A, value: a}}]{more}}}]}}}}"
        );
        machine.kubectl(&["apply", "-f", "-"], &pod);
    }
    for (name, _, said) in cases {
        machine.phase(name, "Succeeded");
        assert_eq!(machine.kubectl(&["logs", name], ""), said, "{name}");
        machine.kubectl(&["delete", "pod", name, "--wait=false"], "");
    }
}

/// How a container ended is told as the engine knows it.
fn ends(machine: &Machine, engine: &Engine) {
    let one = |name: &str, script: &str, more: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{restartPolicy: \
             Never, containers: [{{name: main, image: {IMAGE:?}, \
             command: [sh, -c, {script:?}]{more}}}]}}}}\n"
        )
    };
    let limit = ", resources: {limits: {memory: 32Mi}}";
    let greedy = "x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done";
    let pods = [one("ended", "sleep 1; exit 3", ""), one("greedy", greedy, limit)];
    machine.kubectl(&["apply", "-f", "-"], &pods.concat());
    for name in ["ended", "greedy"] {
        machine.phase(name, "Failed");
        let path = "jsonpath={.status.containerStatuses[0].state.terminated}";
        let told = machine.kubectl(&["get", "pod", name, "-o", path], "");
        let told: Value = serde_json::from_str(&told).expect("how it ended");
        let path = format!("/containers/k8s_default_{name}_main/json");
        let (_, known) = engine.ask(("GET", &path), b"").expect("it answers");
        let known: Value = serde_json::from_str(&known).expect("JSON");
        let known = &known["State"];
        let reason = match known["OOMKilled"] == true {
            true => "OOMKilled",
            false => "Error",
        };
        assert_eq!((&told["exitCode"], &told["reason"]), (&known["ExitCode"], &reason.into()));
        // Podman does not notice it with every kind of control groups.
        let is_known = known["OOMKilled"] == true || machine_is_podman(machine);
        assert!(is_known || name != "greedy", "{known}");
        let seconds = |value: &Value| value.as_str().and_then(|it| it.get(..19)).map(str::to_owned);
        for (ours, theirs) in [("startedAt", "StartedAt"), ("finishedAt", "FinishedAt")] {
            assert_eq!(seconds(&told[ours]), seconds(&known[theirs]), "{told} {known}");
        }
        machine.kubectl(&["delete", "pod", name, "--wait=false"], "");
    }
}

fn machine_is_podman(machine: &Machine) -> bool {
    let version = "jsonpath={.items[0].status.nodeInfo.containerRuntimeVersion}";
    machine.kubectl(&["get", "nodes", "-o", version], "").starts_with("podman")
}

/// A port of the machine leads to the pod that asks for it.
pub fn ports(machine: &Machine) {
    machine.allow_privileged_pods();
    let port = 21_000 + std::process::id() % 9_000;
    let serve = "mkdir /www; echo at-a-port > /www/index.html; exec httpd -f -p 8080 -h /www";
    let pod = pod("at-a-port", serve).replace(
        "stdin: true",
        &format!("ports: [{{containerPort: 8080, hostPort: {port}}}, {{containerPort: 8081}}]"),
    );
    machine.kubectl(&["apply", "-f", "-"], &pod);
    machine.kubectl(&["wait", "pod/at-a-port", "--for=condition=Ready", "--timeout=60s"], "");
    machine.until("exec at-a-port -- wget -qO- http://127.0.0.1:8080/", |page| page == "at-a-port");
    let url = format!("http://127.0.0.1:{port}/");
    let fetched = Command::new("curl").args(["-s", "-m", "20", "--retry", "9", &url]).output();
    let fetched = fetched.expect("curl runs");
    assert_eq!(String::from_utf8_lossy(&fetched.stdout), "at-a-port\n");
    machine.kubectl(&["delete", "pod", "at-a-port", "--wait=false"], "");
}

const WEB: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: page}
data: {word: first}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: IMAGE
        command: [sh, -c, 'mkdir /www; echo $GENERATION > /www/index.html; exec httpd -f -p 80 -h /www']
        env: [{name: GENERATION, valueFrom: {configMapKeyRef: {name: page, key: word}}}]
        ports: [{name: http, containerPort: 80}]
        readinessProbe: {httpGet: {path: /, port: http}, periodSeconds: 1}
        resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {memory: 64Mi}}
        volumeMounts: [{name: page, mountPath: /page/word, subPath: word}]
      volumes: [{name: page, configMap: {name: page}}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}
";

/// Services by name, files of a volume, and an update that rolls.
pub fn services(machine: &Machine) {
    machine.kubectl(&["apply", "-f", "-"], &WEB.replace("IMAGE", IMAGE));
    machine.kubectl(&["rollout", "status", "deployment/web", "--timeout=90s"], "");
    let by_name = "exec hello -- wget -qO- http://web.default.svc.cluster.local/";
    machine.until(by_name, |page| page == "first");
    assert_eq!(machine.kubectl(&["exec", "deploy/web", "--", "cat", "/page/word"], ""), "first");
    machine.kubectl(&["set", "env", "deployment/web", "GENERATION=second"], "");
    machine.kubectl(&["rollout", "status", "deployment/web", "--timeout=90s"], "");
    machine.until("get pods -l app=web -o name", |pods| pods.lines().count() == 2);
    machine.until(by_name, |page| page == "second");
}

const TRAINING: &str = "
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: shell}
spec:
  mlPolicy: {numNodes: 1, torch: {}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            backoffLimit: 0
            template:
              spec:
                restartPolicy: Never
                terminationGracePeriodSeconds: 1
                containers:
                - {name: node, image: IMAGE, command: [sleep, '1000']}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: shell}
spec:
  runtimeRef: {kind: TrainingRuntime, name: shell}
  trainer: {numNodes: 2, command: [sh, -c, 'echo rank $PET_NODE_RANK of $PET_NNODES']}
";

/// A job of two ranks whose trainer is a script.
pub fn training(machine: &Machine) {
    machine.kubectl(&["apply", "-f", "-"], &TRAINING.replace("IMAGE", IMAGE));
    machine.kubectl(&["wait", "trainjob/shell", "--for=condition=Complete", "--timeout=90s"], "");
    let label = "jobset.sigs.k8s.io/jobset-name=shell";
    let logs = machine.kubectl(&["logs", "-l", label, "--tail=-1"], "");
    assert!(logs.contains("rank 0 of 2") && logs.contains("rank 1 of 2"), "{logs}");
}
