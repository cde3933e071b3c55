//! What the mission promises of nodes, pods, Deployments and scheduling, where no other test says
//! it in its whole: one test for each group of rows. `rows.txt` says which row is shown where.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::node::Machine;
use crate::sandbox::Sandbox;

/// What has to be done within a second is tried so often: the machine may be busy with others.
const TRIES: usize = 5;
const SECOND: Duration = Duration::from_secs(1);
/// More than any queue is long.
const MANY: usize = 1_000;
const MANY_FULL: usize = 5_000;

/// A cluster of simulated nodes, in memory.
fn simulated(arguments: &[&str]) -> Machine {
    let sandbox = Sandbox::new();
    let started = sandbox.start(&[&["--store", "memory"], arguments].concat());
    Machine { sandbox, started: Some(started) }
}

fn json(machine: &Machine, line: &str) -> Value {
    let words: Vec<&str> = line.split(' ').chain(["-o", "json"]).collect();
    serde_json::from_str(&machine.kubectl(&words, "")).expect("it is JSON")
}

fn field(machine: &Machine, what: &str, path: &str) -> String {
    let path = format!("jsonpath={{{path}}}");
    machine.kubectl(&["get", what, "-o", &path], "")
}

/// The shortest of a few tries; the first that is short enough ends them.
#[track_caller]
fn soon(mut attempt: impl FnMut(usize) -> Duration) {
    let mut took = Vec::new();
    for number in 0..TRIES {
        took.push(attempt(number));
        if took[number] < SECOND {
            return;
        }
    }
    panic!("never within a second: {took:?}");
}

/// B1, B2, and A7: a node that is stopped and comes back is the same, and so is what runs there.
#[test]
fn a_node_says_what_people_look_for_and_is_the_same_after_a_stop() {
    let mut machine = Machine::start();
    let run = ["run", "stays", "--image=x", "--command", "--", "sleep", "1000"];
    machine.kubectl(&run, "");
    machine.phase("stays", "Running");
    let node = json(&machine, "get nodes")["items"][0].clone();
    says_everything(&machine, &node);
    let name = node["metadata"]["name"].as_str().expect("a name").to_owned();
    let lease = json(&machine, &format!("get lease -n kube-node-lease {name}"));
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 40);
    let container = field(&machine, "pod/stays", ".status.containerStatuses[0].containerID");

    let started = machine.started.take().expect("it runs");
    assert_eq!(started.stop().0, Some(0));
    machine.begin();
    machine.until("get pod stays --no-headers", |row| row.contains("1/1"));
    let nodes = json(&machine, "get nodes");
    assert_eq!(nodes["items"].as_array().map(Vec::len), Some(1));
    for kept in ["uid", "creationTimestamp"] {
        assert_eq!(nodes["items"][0]["metadata"][kept], node["metadata"][kept]);
    }
    let status = json(&machine, "get pod stays")["status"]["containerStatuses"][0].clone();
    assert_eq!((&status["containerID"], &status["restartCount"]), (&container.into(), &0.into()));
    // Renewed every ten seconds.
    let renewed = format!("get lease -n kube-node-lease {name} -o jsonpath={{.spec.renewTime}}");
    let first = machine.until(&renewed, |at| !at.is_empty());
    let began = Instant::now();
    machine.until(&renewed, |at| at != first);
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
    // What is there is told when something is reported at all.
    machine.until("get nodes -o jsonpath={.items[0].status.images[0].names[0]}", |it| it == "x");
    machine.kubectl(&["delete", "pod", "stays", "--grace-period=1"], "");
}

fn says_everything(machine: &Machine, node: &Value) {
    let (metadata, status) = (&node["metadata"], &node["status"]);
    let name = &metadata["name"];
    let labels = &metadata["labels"];
    assert_eq!(&labels["kubernetes.io/hostname"], name);
    for kind in ["os", "arch"] {
        let said = &labels[format!("kubernetes.io/{kind}")];
        assert!(said.is_string(), "{labels}");
        assert_eq!(said, &labels[format!("beta.kubernetes.io/{kind}")]);
    }
    let kinds: Vec<&Value> =
        status["addresses"].as_array().into_iter().flatten().map(|it| &it["type"]).collect();
    assert_eq!(kinds, ["InternalIP", "Hostname"]);
    for amount in ["cpu", "memory", "ephemeral-storage", "pods"] {
        assert!(status["capacity"][amount].is_string(), "{amount}: {status}");
        assert!(status["allocatable"][amount].is_string(), "{amount}: {status}");
    }
    assert_eq!(status["capacity"]["pods"], "110");
    let info = &status["nodeInfo"];
    for part in ["kernelVersion", "osImage", "kubeletVersion", "bootID", "systemUUID"] {
        assert!(info[part].as_str().is_some_and(|text| !text.is_empty()), "{part}: {info}");
    }
    let machine_id = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    assert_eq!(info["machineID"], machine_id.trim());
    let runtime = info["containerRuntimeVersion"].as_str().unwrap_or_default();
    assert!(runtime.starts_with("process://"), "{runtime}");
    assert!(status["daemonEndpoints"]["kubeletEndpoint"]["Port"].as_u64() > Some(0));
    let wide = machine.kubectl(&["get", "nodes", "-o", "wide", "--no-headers"], "");
    assert!(!wide.contains("<unknown>") && wide.matches("<none>").count() <= 2, "{wide}");
}

/// C2, C5: what a pod is when it is made is the server's to say.
#[test]
fn a_pod_begins_pending_with_an_identity_of_its_own() {
    let machine = simulated(&["--components", "api"]);
    let pod = "---\n{apiVersion: v1, kind: Pod, metadata: {name: a, uid: mine, creationTimestamp: \
               '2001-01-01T00:00:00Z'}, spec: {containers: [{name: a, image: a}]}, \
               status: {phase: Running, podIP: 1.2.3.4}}";
    let mut uids = Vec::new();
    for _ in 0..2 {
        machine.kubectl(&["create", "-f", "-"], pod);
        let made = json(&machine, "get pod a");
        assert_eq!(
            (&made["status"]["phase"], &made["status"]["podIP"]),
            (&"Pending".into(), &Value::Null)
        );
        assert_eq!(made["status"]["conditions"], Value::Null, "as Kubernetes has it");
        let at = made["metadata"]["creationTimestamp"].as_str().expect("a time");
        assert!(!at.starts_with("2001") && at.len() == "2001-01-01T00:00:00Z".len(), "{at}");
        uids.push(made["metadata"]["uid"].as_str().expect("a uid").to_owned());
        machine.kubectl(&["delete", "pod", "a", "--grace-period=0", "--force"], "");
    }
    assert_ne!(uids[0], uids[1]);
    for uid in uids {
        let parts: Vec<usize> = uid.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12], "{uid}");
        assert_eq!(&uid[14..15], "4", "{uid}");
    }
}

const PROBED: &str = "
apiVersion: v1
kind: Pod
metadata: {name: probed, finalizers: [example.com/held]}
spec:
  terminationGracePeriodSeconds: 1
  initContainers:
  - {name: first, image: x, command: [sleep, '1']}
  containers:
  - name: main
    image: x
    command: [sleep, '1000']
    readinessProbe: {exec: {command: [test, -e, FILE]}, periodSeconds: 1}
";

/// C3, C4, C7, C8: conditions and container states from beginning to end, as clients wait for them.
#[test]
fn conditions_come_in_turn_and_change_only_when_they_do() {
    let machine = Machine::start();
    let file = machine.sandbox.work().join("ready");
    let manifest = PROBED.replace("FILE", &file.display().to_string());
    machine.kubectl(&["apply", "-f", "-"], &manifest);
    let wait = |condition: &str| {
        machine.kubectl(
            &["wait", "pod/probed", &format!("--for=condition={condition}"), "--timeout=60s"],
            "",
        )
    };
    wait("PodScheduled");
    let main = "get pod probed -o jsonpath={.status.containerStatuses[0]}";
    let waiting = machine.until(main, |status| status.contains("PodInitializing"));
    let waiting: Value = serde_json::from_str(&waiting).expect("a status");
    assert_eq!((&waiting["ready"], &waiting["started"]), (&false.into(), &false.into()));
    assert_eq!((&waiting["restartCount"], &waiting["imageID"]), (&0.into(), &"".into()));
    wait("PodReadyToStartContainers");
    wait("Initialized");
    machine.phase("probed", "Running");
    let condition = |kind: &str| {
        let pod = json(&machine, "get pod probed");
        let all = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        all.into_iter().find(|it| it["type"] == kind).unwrap_or_default()
    };
    let unready = condition("Ready");
    assert_eq!(
        (&unready["status"], &unready["reason"]),
        (&"False".into(), &"ContainersNotReady".into())
    );
    let before = ["PodScheduled", "Initialized"].map(condition);
    std::fs::write(&file, "").expect("a file");
    wait("Ready");
    wait("ContainersReady");
    let ready = condition("Ready");
    // A time is a second long; another may have begun.
    assert!(ready["lastTransitionTime"].as_str() >= unready["lastTransitionTime"].as_str());
    std::fs::remove_file(&file).expect("it was there");
    machine.kubectl(&["wait", "pod/probed", "--for=condition=Ready=False", "--timeout=60s"], "");
    assert!(
        condition("Ready")["lastTransitionTime"].as_str() > ready["lastTransitionTime"].as_str()
    );
    let after = ["PodScheduled", "Initialized"].map(condition);
    assert_eq!(before, after, "nothing else has changed");

    // Held by somebody, it stays as an object when nothing of it runs.
    machine.kubectl(&["delete", "pod", "probed", "--wait=false"], "");
    let ended =
        "get pod probed -o jsonpath={.status.containerStatuses[0].state.terminated.exitCode}";
    machine.until(ended, |code| !code.is_empty());
    let held = json(&machine, "get pod probed");
    assert!(held["metadata"]["deletionTimestamp"].is_string(), "{held}");
    let free = r#"[{"op": "remove", "path": "/metadata/finalizers"}]"#;
    machine.kubectl(&["patch", "pod", "probed", "--type=json", "-p", free], "");
    machine.until("get pods -o name", str::is_empty);
}

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: 'web:1'}]}
";

/// D1, D2: as many pods as are asked for, under names that say whose they are, and soon again.
#[test]
fn a_deployment_has_its_number_of_pods_and_has_it_again_within_a_second() {
    let machine = simulated(&["--fake-nodes", "2"]);
    machine.kubectl(&["create", "-f", "-"], WEB);
    for count in ["5", "2"] {
        machine.kubectl(&["scale", "deployment/web", &format!("--replicas={count}")], "");
        let ready = "get deployment web -o jsonpath={.status.readyReplicas}:{.status.replicas}";
        machine.until(ready, |said| said == format!("{count}:{count}"));
        machine.until("get pods -o name", |pods| pods.lines().count().to_string() == count);
    }
    let hash = field(&machine, "replicasets", ".items[0].metadata.labels.pod-template-hash");
    let names = || machine.kubectl(&["get", "pods", "-o", "name"], "");
    for name in names().lines() {
        let tail =
            name.strip_prefix(&format!("pod/web-{hash}-")).unwrap_or_else(|| panic!("{name}"));
        let alphabet = "bcdfghjklmnpqrstvwxz2456789";
        assert!(tail.len() == 5 && tail.chars().all(|it| alphabet.contains(it)), "{name}");
    }
    soon(|_| {
        let victim = names().lines().next().expect("a pod").to_owned();
        machine.kubectl(&["delete", &victim, "--wait=false"], "");
        let began = Instant::now();
        let ready = "get deployment web -o jsonpath={.status.readyReplicas}";
        machine
            .until("get pods -o name", |pods| pods.lines().count() == 2 && !pods.contains(&victim));
        machine.until(ready, |count| count == "2");
        began.elapsed()
    });
}

/// E2: a pod that waits is bound within a second of the first node that can take it.
#[test]
fn a_pod_that_waits_gets_the_node_that_comes_within_a_second() {
    let machine = simulated(&["--components", "api,controllers,scheduler"]);
    soon(|number| {
        let pod = format!("p{number}");
        machine.kubectl(&["run", &pod, "--image=x"], "");
        let condition = format!(
            "get pod {pod} -o jsonpath={{.status.conditions[0].reason}}:\
             {{.status.conditions[0].message}}"
        );
        let why = machine.until(&condition, |said| said.starts_with("Unschedulable:"));
        assert!(
            why.contains("no nodes available") || why.contains("nodes are available: "),
            "{why}"
        );
        machine.until("get events", |events| events.contains("FailedScheduling"));
        let node = format!("---\n{{apiVersion: v1, kind: Node, metadata: {{name: n{number}}}}}");
        machine.kubectl(&["create", "-f", "-"], &node);
        let status = r#"{"status": {"capacity": {"cpu": "1", "pods": "1", "memory": "1Gi"},
            "allocatable": {"cpu": "1", "pods": "1", "memory": "1Gi"},
            "conditions": [{"type": "Ready", "status": "True"}]}}"#;
        let node = format!("n{number}");
        let patch = ["patch", "node", &node, "--subresource=status", "--type=merge", "-p", status];
        machine.kubectl(&patch, "");
        let began = Instant::now();
        let bound = format!("get pod {pod} -o jsonpath={{.spec.nodeName}}");
        machine.until(&bound, |found| found == node);
        began.elapsed()
    });
}

/// E4: what fits in one way only is put so, and what is too much waits.
#[test]
fn what_fits_in_one_way_only_is_put_so() {
    let resources = "cpu=4,memory=8Gi";
    let machine = simulated(&["--fake-nodes", "3", "--fake-node-resources", resources]);
    machine.kubectl(&["label", "node", "fake-0", "disk=fast"], "");
    let pod = |name: &str, cpu: u32, more: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, labels: \
             {{size: '{cpu}'}}}}, spec: {{containers: [{{name: a, image: a, \
             resources: {{requests: {{cpu: {cpu}}}}}}}]{more}}}}}\n"
        )
    };
    let fast = ", nodeSelector: {disk: fast}";
    let apart = ", affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: \
                 [{topologyKey: kubernetes.io/hostname, \
                 labelSelector: {matchLabels: {size: '3'}}}]}}";
    // One with four on the fast one; two with three, apart; two of one beside them.
    machine.kubectl(&["create", "-f", "-"], &pod("whole", 4, fast));
    machine.kubectl(&["wait", "pod/whole", "--for=condition=Ready", "--timeout=60s"], "");
    let large = [pod("large-1", 3, apart), pod("large-2", 3, apart)].concat();
    machine.kubectl(&["create", "-f", "-"], &large);
    machine.kubectl(&["wait", "pod", "--all", "--for=condition=Ready", "--timeout=60s"], "");
    let small = [pod("small-1", 1, ""), pod("small-2", 1, "")].concat();
    machine.kubectl(&["create", "-f", "-"], &small);
    machine.kubectl(&["wait", "pod", "--all", "--for=condition=Ready", "--timeout=60s"], "");
    let node = |pod: &str| field(&machine, &format!("pod/{pod}"), ".spec.nodeName");
    assert_eq!(node("whole"), "fake-0");
    let (mut large, mut small) =
        (["large-1", "large-2"].map(node), ["small-1", "small-2"].map(node));
    large.sort();
    small.sort();
    assert_eq!((&large, &small), (&["fake-1", "fake-2"].map(str::to_owned), &large.clone()));
    machine.kubectl(&["create", "-f", "-"], &pod("more", 1, ""));
    machine.until("describe pod more", |text| text.contains("3 Insufficient cpu"));
}

/// C1: no event is lost, whoever is slow: all pods are bound and run, and a watcher that reads
/// nothing until then hears of all of them.
#[test]
fn of_thousands_of_pods_at_once_none_is_forgotten() {
    let many = if std::env::var_os("SETPOINT_TEST_FULL").is_some() { MANY_FULL } else { MANY };
    let resources = format!("cpu=1000,memory=1000Gi,pods={many}");
    let machine = simulated(&["--fake-nodes", "2", "--fake-node-resources", &resources]);
    let kubeconfig = machine.sandbox.data().join("kubeconfig");
    let revision = json(&machine, "get pods")["metadata"]["resourceVersion"].clone();
    let list: Value = serde_json::from_str(
        &machine.kubectl(&["get", "--raw", "/api/v1/namespaces/default/pods"], ""),
    )
    .expect("a list");
    let revision = revision.as_str().filter(|it| !it.is_empty()).map(str::to_owned);
    let revision = revision.unwrap_or_else(|| {
        list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
    });
    let path = format!("/api/v1/namespaces/default/pods?watch=true&resourceVersion={revision}");
    let mut slow = Command::new("kubectl")
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(["get", "--raw", &path])
        .stdout(Stdio::piped())
        .spawn()
        .expect("kubectl starts");
    let web = WEB.replace("replicas: 0", &format!("replicas: {many}"));
    machine.kubectl(&["create", "-f", "-"], &web);
    let ready = "get deployment web -o jsonpath={.status.readyReplicas}";
    machine.until(ready, |count| count == many.to_string());
    let mut added = 0;
    let lines = BufReader::new(slow.stdout.take().expect("a pipe")).lines();
    for line in lines {
        let line = line.expect("text");
        added += usize::from(line.starts_with("{\"type\":\"ADDED\""));
        if added == many {
            break;
        }
    }
    assert_eq!(added, many);
    slow.kill().expect("it runs");
    slow.wait().expect("it ended");
}

/// F3: without a runtime all the rest works, pods wait and say why, and one warning is enough.
#[test]
fn without_a_runtime_everything_else_works() {
    let sandbox = Sandbox::new();
    let started = sandbox.start(&["--store", "memory", "--runtime", "none"]);
    let mut machine = Machine { sandbox, started: Some(started) };
    machine.until("get nodes", |nodes| nodes.contains(" NotReady "));
    let node = json(&machine, "get nodes")["items"][0].clone();
    let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let ready = conditions.iter().find(|it| it["type"] == "Ready").expect("a condition");
    assert_eq!(ready["reason"], "KubeletNotReady");
    let why = ready["message"].as_str().unwrap_or_default();
    assert!(why.starts_with("container runtime is not available"), "{why}");
    machine.kubectl(&["create", "-f", "-"], &WEB.replace("replicas: 0", "replicas: 2"));
    machine.until("get pods --no-headers", |pods| pods.matches(" Pending ").count() == 2);
    machine.until("get events", |events| events.contains("FailedScheduling"));
    // Others go on: a namespace has what it needs, and what is deleted goes with its children.
    machine.kubectl(&["create", "namespace", "apart"], "");
    machine.until("-n apart get serviceaccount,configmap -o name", |all| {
        all.contains("serviceaccount/default") && all.contains("configmap/kube-root-ca.crt")
    });
    machine.kubectl(&["delete", "deployment", "web"], "");
    machine.until("get pods,replicasets -o name", str::is_empty);
    let (code, stderr) = machine.started.take().expect("it runs").stop();
    assert_eq!(code, Some(0));
    assert!(stderr.contains("RuntimeController(none)"), "{stderr}");
    let warnings = stderr.lines().filter(|line| line.contains("WARN") && line.contains("runtime"));
    assert_eq!(warnings.count(), 1, "{stderr}");
}

/// F9: only ports of the machine that are asked for lead to a pod, unless all are to.
#[test]
fn ports_are_published_when_they_are_asked_for() {
    for all in [false, true] {
        let mut machine = Machine { sandbox: Sandbox::new(), started: None };
        let config = format!("publish_container_ports: {all}\n");
        machine.sandbox.write(".config.yaml", &config);
        machine.begin();
        let page = machine.sandbox.work().join("page");
        std::fs::create_dir_all(&page).expect("a directory");
        std::fs::write(page.join("index.html"), "page").expect("a file");
        let pod = format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: served}}, spec: {{\
             terminationGracePeriodSeconds: 1, containers: [{{name: main, image: x, \
             ports: [{{containerPort: 8000}}], workingDir: '{}', \
             command: [python3, -m, http.server, '8000']}}]}}}}",
            page.display()
        );
        machine.kubectl(&["apply", "-f", "-"], &pod);
        machine.phase("served", "Running");
        let told = machine.kubectl(&["get", "events", "-o", "jsonpath={.items[*].message}"], "");
        let marker = "Port 8000/TCP is port ";
        assert_eq!(told.contains(marker), all, "{told}");
        if all {
            let port = told.split(marker).nth(1).and_then(|rest| rest.split(' ').next());
            let url = format!("http://127.0.0.1:{}/", port.expect("a port"));
            let began = Instant::now();
            loop {
                let got = Command::new("curl").args(["-s", "-m", "5", &url]).output();
                if got.expect("curl runs").stdout == b"page" {
                    break;
                }
                assert!(began.elapsed() < Duration::from_secs(30), "{url} does not answer");
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        machine.kubectl(&["delete", "pod", "served"], "");
    }
}
