//! The network of pods, used by programs in pods and through kubectl: services, names, addresses.
//!
//! With privilege every pod has a network of its own. What a machine without it can do is tested
//! beside it, as another user.

use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::node::Machine;
use crate::sandbox::Sandbox;

/// A server that says its name, and a Service in front of three of them.
const WEB: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: program}
data:
  serve.py: |
    import http.server, os
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = 'HTTP/1.1'
        def do_GET(self):
            if self.headers.get('Upgrade'):
                self.send_response(101)
                self.send_header('Connection', 'Upgrade')
                self.send_header('Upgrade', 'echo')
                self.end_headers()
                self.wfile.write(b'echo ' + self.rfile.readline())
                self.close_connection = True
                return
            body = (os.environ['NAME'] + ' ' + os.environ['ADDRESS'] + ' ' + self.path).encode()
            self.send_response(200)
            self.send_header('Content-Length', str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        def do_HEAD(self):
            self.send_response(200)
            self.send_header('Content-Length', '12345')
            self.end_headers()
        def log_message(self, *arguments): pass
    http.server.ThreadingHTTPServer.request_queue_size = 128
    place = (os.environ.get('BIND', ''), int(os.environ.get('PORT', '80')))
    http.server.ThreadingHTTPServer(place, Handler).serve_forever()
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
      - name: main
        image: x
        command: [python3, /program/serve.py]
        env:
        - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: ADDRESS, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
        ports: [{name: http, containerPort: 80}]
        readinessProbe: {httpGet: {path: /, port: http}, periodSeconds: 1}
        lifecycle: {preStop: {sleep: {seconds: 1}}}
        volumeMounts: [{name: program, mountPath: /program}]
      volumes: [{name: program, configMap: {name: program}}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: NodePort
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: http}]
---
apiVersion: v1
kind: Service
metadata: {name: nobody}
spec:
  selector: {app: nobody}
  ports: [{port: 80}]
---
apiVersion: v1
kind: Service
metadata: {name: alias}
spec: {type: ExternalName, externalName: web.default.svc.cluster.local}
";

/// A pod that runs a script once.
pub fn script(name: &str, text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("        {line}")).collect();
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: x
    command:
    - sh
    - -c
    - |
{}
",
        lines.join("\n")
    )
}

/// What a script in a pod writes; it must end well.
#[track_caller]
pub fn in_a_pod(machine: &Machine, name: &str, text: &str) -> String {
    machine.kubectl(&["apply", "-f", "-"], &script(name, text));
    let line = format!("get pod {name} -o jsonpath={{.status.phase}}");
    let phase = machine.until(&line, |phase| ["Succeeded", "Failed"].contains(&phase));
    let log = machine.kubectl(&["logs", name], "");
    assert_eq!(phase, "Succeeded", "{log}");
    machine.kubectl(&["delete", "pod", name, "--wait=false"], "");
    log
}

pub fn curl(url: &str) -> String {
    let ended = Command::new("curl").args(["-sS", "-m", "10", url]).output().expect("curl runs");
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success(), "{url}: {told}");
    String::from_utf8_lossy(&ended.stdout).into_owned()
}

pub fn start_web() -> Machine {
    let machine = Machine::start();
    machine.kubectl(&["apply", "-f", "-"], WEB);
    machine.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"], "");
    machine.until("get endpointslices -o yaml", |text| text.matches("ready: true").count() >= 3);
    machine
}

/// The names in answers, each once.
fn names(answers: &str) -> Vec<&str> {
    let mut names: Vec<&str> =
        answers.lines().filter_map(|line| line.split_whitespace().next()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

pub fn jsonpath(machine: &Machine, object: &str, path: &str) -> String {
    machine.kubectl(&["get", object, "-o", &format!("jsonpath={path}")], "")
}

#[test]
fn services_are_reached_by_name_by_address_and_by_port_of_the_node() {
    let machine = start_web();
    let asked = in_a_pod(
        &machine,
        "client",
        "set -e
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  curl -sS -m 10 http://web.default.svc.cluster.local/$i; echo
  curl -sS -m 10 http://web/$i; echo
  curl -sS -m 10 http://alias/$i; echo
done",
    );
    assert_eq!(asked.lines().count(), 60, "{asked}");
    assert_eq!(names(&asked).len(), 3, "{asked}");
    let refused = in_a_pod(
        &machine,
        "refused",
        "curl -sS -m 10 http://nobody/ 2>&1; echo code $?
getent hosts missing.default.svc; echo $?",
    );
    assert!(refused.contains("code 7"), "{refused}");
    assert!(refused.ends_with('2'), "{refused}");
    // From the machine: the service's address, a port of the node, a pod.
    let address = jsonpath(&machine, "service/web", "{.spec.clusterIP}");
    let port = jsonpath(&machine, "service/web", "{.spec.ports[0].nodePort}");
    let node = jsonpath(&machine, "nodes", "{.items[0].status.addresses[0].address}");
    let pods = jsonpath(&machine, "pods", "{.items[*].status.podIP}");
    for to in [address, format!("127.0.0.1:{port}"), format!("{node}:{port}")] {
        assert!(curl(&format!("http://{to}/x")).starts_with("web-"), "{to}");
    }
    let pod = pods.split(' ').next().expect("an address").to_owned();
    let answer = curl(&format!("http://{pod}/"));
    assert!(answer.contains(&pod), "a pod knows its address: {answer}");
    // Names of kinds that programs rarely ask for.
    let service = ["get", "service", "-n", "kube-system", "kube-dns"];
    let dns = machine.kubectl(&[&service[..], &["-o", "jsonpath={.spec.clusterIP}"]].concat(), "");
    assert_eq!(dns, "10.96.0.10");
    // Other clusters of this machine have the same: the server itself is asked.
    let slices = ["get", "endpointslices", "-n", "kube-system", "-o"];
    let at = "jsonpath={.items[0].endpoints[0].addresses[0]}:{.items[0].ports[0].port}";
    let dns = machine.kubectl(&[&slices[..], &[at]].concat(), "");
    let dns: SocketAddr = dns.parse().expect("an address");
    let (code, records) = lookup(dns, "_http._tcp.web.default.svc.cluster.local", 33);
    assert_eq!((code, records), (0, 1));
    assert_eq!(lookup(dns, "nobody-here.default.svc.cluster.local", 1), (3, 0));
}

/// The code and the number of records that a DNS server answers.
fn lookup(server: SocketAddr, name: &str, kind: u8) -> (u8, u8) {
    let mut bytes = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).expect("a label is short"));
        bytes.extend(label.as_bytes());
    }
    bytes.extend([0, 0, kind, 0, 1]);
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a limit");
    socket.send_to(&bytes, server).expect("it is sent");
    let mut answer = [0; 512];
    socket.recv_from(&mut answer).expect("an answer");
    (answer[3] & 0x0f, answer[7])
}

#[test]
fn a_rolling_update_loses_no_request() {
    let machine = start_web();
    let load = "
from urllib.request import urlopen
import os, sys, time
good = bad = 0
print('began', flush=True)
while not os.path.exists('STOP'):
    try:
        urlopen('http://web/', timeout=10).read()
        good += 1
    except Exception as error:
        bad += 1
        print('failed', error, flush=True)
print('good', good > 50, 'bad', bad, flush=True)";
    let stop = machine.sandbox.work().join("stop");
    let load = load.replace("STOP", &stop.display().to_string());
    let text = script("load", "exec python3 -c \"$PROGRAM\"");
    let indented: String = load.lines().map(|line| format!("        {line}\n")).collect();
    let env = format!("    env:\n    - name: PROGRAM\n      value: |\n{indented}    command:\n");
    machine.kubectl(&["apply", "-f", "-"], &text.replacen("    command:\n", &env, 1));
    machine.until("logs load", |log| log.contains("began"));
    machine.kubectl(&["set", "env", "deployment/web", "GENERATION=2"], "");
    machine.kubectl(&["rollout", "status", "deployment/web", "--timeout=90s"], "");
    let left = "get pods -l app=web -o name";
    machine.until(left, |pods| pods.lines().count() == 3);
    std::fs::write(&stop, "").expect("a file");
    let log = machine.until("logs load", |log| log.contains("good"));
    assert!(log.ends_with("good True bad 0"), "{log}");
    // Without a preStop hook a server ends at once when it is told to: not before Services have
    // stopped to send connections to it.
    let without_hook =
        r#"[{"op": "remove", "path": "/spec/template/spec/containers/0/lifecycle"}]"#;
    let patch = ["patch", "deployment/web", "--type=json", "-p", without_hook];
    machine.kubectl(&patch, "");
    machine.kubectl(&["rollout", "status", "deployment/web", "--timeout=90s"], "");
    machine.until(left, |pods| pods.lines().count() == 3);
    let address = format!("{}:80", jsonpath(&machine, "service/web", "{.spec.clusterIP}"));
    let connections = Connections::start(address.parse().expect("an address"));
    machine.kubectl(&["rollout", "restart", "deployment/web"], "");
    machine.kubectl(&["rollout", "status", "deployment/web", "--timeout=90s"], "");
    machine.until(left, |pods| pods.lines().count() == 3);
    let (made, failed) = connections.stop();
    assert!(made > 50 && failed.is_empty(), "{made} connections, failed: {failed:?}");
}

/// Connects to a server again and again, until told to stop.
struct Connections {
    is_stopped: Arc<AtomicBool>,
    thread: JoinHandle<(usize, Vec<io::Error>)>,
}

impl Connections {
    fn start(address: SocketAddr) -> Connections {
        const LIMIT: Duration = Duration::from_secs(5);
        let is_stopped = Arc::new(AtomicBool::new(false));
        let told = is_stopped.clone();
        let thread = std::thread::spawn(move || {
            let (mut made, mut failed) = (0, Vec::new());
            while !told.load(Ordering::Relaxed) {
                match TcpStream::connect_timeout(&address, LIMIT) {
                    Ok(_) => made += 1,
                    Err(error) => failed.push(error),
                }
            }
            (made, failed)
        });
        Connections { is_stopped, thread }
    }

    fn stop(self) -> (usize, Vec<io::Error>) {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.thread.join().expect("connections do not panic")
    }
}

const PEERS: &str = "
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {clusterIP: None, selector: {app: db}, ports: [{name: sql, port: 5432}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 1
      hostAliases: [{ip: 192.0.2.77, hostnames: [far.example]}]
      containers:
      - name: main
        image: x
        command: [sh, -c]
        args:
        - until getent ahostsv4 db-0.db && getent ahostsv4 db-1.db; do sleep 0.2; done;
          echo both; cat /etc/hostname /etc/hosts /etc/resolv.conf; getent hosts far.example;
          echo done; sleep 1000
";

#[test]
fn pods_of_a_stateful_set_find_each_other_and_keep_their_addresses() {
    let mut machine = Machine::start();
    machine.kubectl(&["apply", "-f", "-"], PEERS);
    let addresses = "get pods -l app=db -o jsonpath={.items[*].status.podIP}";
    for pod in ["db-0", "db-1"] {
        let log = machine.until(&format!("logs {pod}"), |log| log.ends_with("done"));
        for text in [
            &format!("both\n{pod}\n# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"),
            &format!("\t{pod}.db.default.svc.cluster.local\t{pod}\n"),
            "\n# Entries added by HostAliases.\n192.0.2.77\tfar.example\n",
            "search default.svc.cluster.local svc.cluster.local cluster.local",
            "nameserver 10.96.0.10\noptions ndots:5\n",
        ] {
            assert!(log.contains(text), "{pod}: {text:?} in {log}");
        }
    }
    let before = machine.kubectl(&addresses.split(' ').collect::<Vec<_>>(), "");
    let started = machine.started.take().expect("it runs");
    started.signal("KILL");
    started.wait();
    machine.begin();
    machine.kubectl(&["rollout", "status", "statefulset/db", "--timeout=60s"], "");
    assert_eq!(machine.kubectl(&addresses.split(' ').collect::<Vec<_>>(), ""), before);
    assert_eq!(before.split(' ').count(), 2);
    // Those that come later get others, and find those that are there.
    let found = in_a_pod(&machine, "later", "getent ahostsv4 db-0.db; getent ahostsv4 db");
    assert!(before.split(' ').all(|address| found.contains(address)), "{before}: {found}");
    machine.kubectl(&["delete", "statefulset,service", "db"], "");
    machine.until("get pods -o name", str::is_empty);
    // What carries the mark of this node is gone with it.
    let settings = machine.sandbox.data().join("node/network/settings");
    let settings = std::fs::read_to_string(settings).expect("the node has a mark");
    let settings: serde_json::Value = serde_json::from_str(&settings).expect("it is JSON");
    let mark = settings["id"].as_str().expect("a mark").to_owned();
    let started = machine.started.take().expect("it runs");
    started.signal("TERM");
    started.wait();
    for (program, arguments) in [("ip", "-o link"), ("ip", "netns"), ("ip", "route")] {
        let told = Command::new(program).args(arguments.split(' ')).output().expect("it runs");
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        assert!(!told.contains(&format!("sp{mark}")), "{told}");
        assert!(!told.contains(&format!("setpoint-{mark}")), "{told}");
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("it is there");
    assert!(!mounts.contains(&format!("setpoint-{mark}")), "{mounts}");
}

const READER: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: default, namespace: default}]
";

#[test]
fn a_pod_asks_the_server_as_itself_and_everybody_has_all_ports() {
    let machine = Machine::start();
    machine.allow_privileged_pods();
    machine.kubectl(&["apply", "-f", "-"], READER);
    let asked = in_a_pod(
        &machine,
        "asks",
        "cd /var/run/secrets/kubernetes.io/serviceaccount
for host in kubernetes.default.svc $KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT; do
  curl -sS -m 10 --cacert ca.crt -H \"Authorization: Bearer $(cat token)\" \\
    https://$host/api/v1/namespaces/default/pods | grep '\"kind\":'
done
echo $KUBERNETES_SERVICE_HOST",
    );
    assert_eq!(asked.matches("PodList").count(), 2, "{asked}");
    assert!(asked.ends_with("10.96.0.1"), "{asked}");
    // The same port twice; a port of the machine leads to one of them.
    let port = 20_000 + std::process::id() % 10_000;
    for name in ["one", "two"] {
        let ports = match name {
            "one" => {
                format!("    ports: [{{containerPort: 80, hostPort: {port}}}]\n    command:\n")
            }
            _ => "    command:\n".to_owned(),
        };
        let text = format!(
            "mkdir -p /tmp/{name}-{port}; cd /tmp/{name}-{port}; echo {name} >index.html
trap 'rm -r /tmp/{name}-{port}; exit' TERM
python3 -m http.server 80 & wait"
        );
        let manifest = script(name, &text).replacen("    command:\n", &ports, 1);
        machine.kubectl(&["apply", "-f", "-"], &manifest);
        machine.phase(name, "Running");
    }
    let ask = "for pod in ONE TWO; do until curl -sS -m 5 http://$pod/; do sleep 0.1; done; done";
    let ask = ask
        .replace("ONE", &jsonpath(&machine, "pod/one", "{.status.podIP}"))
        .replace("TWO", &jsonpath(&machine, "pod/two", "{.status.podIP}"));
    let log = in_a_pod(&machine, "both", &ask);
    assert!(log.ends_with("one\ntwo"), "{log}");
    assert_eq!(curl(&format!("http://127.0.0.1:{port}/")), "one\n");
    machine.kubectl(&["delete", "pod", "one", "two"], "");
}

/// Who has no privilege on any machine.
const NOBODY: u32 = 65_534;

#[test]
fn without_privilege_pods_have_addresses_and_services_are_relayed() {
    let mut sandbox = Sandbox::of_user(NOBODY);
    // With it pods would have a network of their own.
    sandbox.hide_program("slirp4netns");
    let mut machine = Machine { sandbox, started: None };
    machine.begin();
    // Each at its own address, since all share the ports of the machine.
    let address = "        - {name: ADDRESS, valueFrom: {fieldRef: {fieldPath: status.podIP}}}\n";
    let more = "        - {name: BIND, value: $(ADDRESS)}\n        - {name: PORT, value: '8080'}\n";
    let web = WEB
        .replace(address, &format!("{address}{more}"))
        .replace("containerPort: 80", "containerPort: 8080");
    machine.kubectl(&["apply", "-f", "-"], &web);
    machine.kubectl(&["apply", "-f", "-"], ECHO);
    machine.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"], "");
    machine.kubectl(&["rollout", "status", "deployment/echo", "--timeout=60s"], "");
    let pods = jsonpath(&machine, "pods", "{.items[*].status.podIP}");
    assert!(pods.split(' ').all(|address| address.starts_with("127.")), "{pods}");
    let log = in_a_pod(
        &machine,
        "client",
        "for i in 1 2 3 4 5 6; do
  curl -sS -m 10 http://$WEB_SERVICE_HOST:$WEB_SERVICE_PORT/$i || exit 1; echo
done
curl -s -m 10 http://$NOBODY_SERVICE_HOST:$NOBODY_SERVICE_PORT/; echo code $?
echo dns $SETPOINT_DNS",
    );
    // Lines are told apart by what they say: two streams may come in any order.
    let said = |what: &str| log.lines().find_map(|line| line.strip_prefix(what));
    let dns = said("dns ").unwrap_or_else(|| panic!("where names are asked for: {log}"));
    assert!(said("code ").is_some_and(|code| code != "0"), "{log}");
    let answers: Vec<&str> = log.lines().filter(|line| line.starts_with("web-")).collect();
    assert_eq!(names(&answers.join("\n")).len(), 3, "{log}");
    let port = jsonpath(&machine, "service/web", "{.spec.ports[0].nodePort}");
    assert!(curl(&format!("http://127.0.0.1:{port}/")).starts_with("web-"));
    let name = "web.default.svc.cluster.local";
    assert_eq!(lookup(dns.parse().expect("an address"), name, 1), (0, 1));
    let raw = "/api/v1/namespaces/default/services/web/proxy/x";
    assert!(machine.kubectl(&["get", "--raw", raw], "").starts_with("web-"));
    // Datagrams too: every client gets one of the two, and all it says goes there.
    let said = in_a_pod(&machine, "datagrams", ASK);
    let mut answers: Vec<&str> = said.lines().collect();
    assert!(answers.iter().all(|line| line.ends_with(" twice")), "{said}");
    answers.sort_unstable();
    answers.dedup();
    assert_eq!(answers.len(), 2, "{said}");
    machine.kubectl(&["delete", "deployment", "web", "echo"], "");
}

/// Two servers that answer datagrams with their name, and a Service in front of them.
const ECHO: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: echo}
spec:
  replicas: 2
  selector: {matchLabels: {app: echo}}
  template:
    metadata: {labels: {app: echo}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: x
        env:
        - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: ADDRESS, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
        command: [python3, -c]
        args:
        - |
          import os, socket
          server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
          server.bind((os.environ['ADDRESS'], 5300))
          while True:
              text, client = server.recvfrom(100)
              server.sendto(os.environ['NAME'].encode() + b' ' + text, client)
---
apiVersion: v1
kind: Service
metadata: {name: echo}
spec:
  selector: {app: echo}
  ports: [{port: 53, protocol: UDP, targetPort: 5300}]
";

/// Six clients; a lost datagram is sent again, as programs do.
const ASK: &str = "exec python3 - <<'END'
import os, socket
place = (os.environ['ECHO_SERVICE_HOST'], int(os.environ['ECHO_SERVICE_PORT']))
def ask(client):
    for _ in range(40):
        client.send(b'twice')
        try: return client.recv(100).decode()
        except (TimeoutError, ConnectionRefusedError): pass
    raise SystemExit('no answer')
for _ in range(6):
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    client.settimeout(1)
    client.connect(place)
    first = ask(client)
    print(first if ask(client) == first else 'two of them answered')
END";
