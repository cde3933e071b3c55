//! Everything for a user who is not root: with slirp4netns pods have a network of their own,
//! without it names of the cluster are in their `/etc/hosts`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use tokio::time::Instant;

use crate::network::curl;
use crate::node::Machine;
use crate::sandbox::Sandbox;

/// A user without privileges on any host.
const NOBODY: u32 = 65_534;
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);
/// Seconds for all parts of the demonstration, on a busy host.
const DEMO_SECONDS_MAX: &str = "240";
const SLIRP: &str = "slirp4netns";

/// Two servers on the same privileged port, a Service with a node port, and a client.
const WEB: &str = "
apiVersion: v1
kind: Pod
metadata: {name: one, labels: {app: web}}
spec:
  hostname: one
  subdomain: all
  containers:
  - name: main
    image: x
    command: [python3, -m, http.server, '80', --directory, /etc]
    readinessProbe: {httpGet: {port: 80, path: /hostname}, periodSeconds: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: two, labels: {app: web}}
spec:
  containers:
  - name: main
    image: x
    command: [python3, -m, http.server, '80', --directory, /etc]
    readinessProbe: {tcpSocket: {port: 80}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: NodePort
  selector: {app: web}
  ports: [{port: 80}]
---
apiVersion: v1
kind: Service
metadata: {name: all}
spec:
  clusterIP: None
  selector: {app: web}
---
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: x, command: [sleep, '10000']}]
";

/// Asks a server by its name from within the pod `client`.
fn ask(machine: &Machine, url: &str) -> String {
    let script = format!(
        "import urllib.request as r; print(r.urlopen('{url}', timeout=10).read().decode(), end='')"
    );
    machine.kubectl(&["exec", "client", "--", "python3", "-c", &script], "")
}

fn assert_web_answers(machine: &Machine) {
    for name in ["web", "web.default", "web.default.svc.cluster.local"] {
        let answer = ask(machine, &format!("http://{name}/hostname"));
        assert!(answer == "one" || answer == "two", "{name}: {answer}");
    }
    assert_eq!(ask(machine, "http://one.all/hostname"), "one");
    let port =
        machine.kubectl(&["get", "service/web", "-o", "jsonpath={.spec.ports[0].nodePort}"], "");
    let answer = curl(&format!("http://127.0.0.1:{port}/hostname"));
    assert!(answer == "one\n" || answer == "two\n", "{answer}");
}

#[test]
fn pods_of_a_user_have_a_network_that_survives_a_restart() {
    let mut machine = Machine::start_as(NOBODY);
    machine.kubectl(&["apply", "-f", "-"], WEB);
    machine.kubectl(&["wait", "--for=condition=Ready", "pod", "--all", "--timeout=30s"], "");
    let addresses =
        machine.kubectl(&["get", "pods", "-o", "jsonpath={.items[*].status.podIP}"], "");
    assert!(addresses.split(' ').all(|address| address.starts_with("10.42.")), "{addresses}");
    assert_web_answers(&machine);
    let api = "curl -sk https://kubernetes.default.svc/version";
    let version = machine.kubectl(&["exec", "client", "--", "sh", "-c", api], "");
    assert!(version.contains("gitVersion"), "{version}");
    let raw = |kind: &str, name: &str| {
        let path = format!("/api/v1/namespaces/default/{kind}/{name}:80/proxy/hostname");
        machine.kubectl(&["get", "--raw", &path], "")
    };
    assert_eq!(raw("pods", "two"), "two");
    assert!(["one", "two"].contains(&&*raw("services", "web")));
    let forwarded = Forwarded::start(&machine, "pod/one");
    assert_eq!(curl(&format!("http://127.0.0.1:{}/hostname", forwarded.port)), "one\n");
    drop(forwarded);
    machine.restart();
    assert_web_answers(&machine);
    assert_eq!(raw_restarts(&machine), "0 0 0");
    let down = machine.sandbox.run(&["down", "--pods"]);
    assert_eq!(down.code, Some(0), "{down:?}");
    let root = machine.sandbox.work().display().to_string();
    let left = processes(&root.replace("/work", ""));
    assert_eq!(left, [] as [String; 0], "nothing of the network is left");
}

fn raw_restarts(machine: &Machine) -> String {
    let path = "jsonpath={.items[*].status.containerStatuses[0].restartCount}";
    machine.kubectl(&["get", "pods", "-o", path], "")
}

/// Command lines of helper processes of networks below a directory.
fn processes(root: &str) -> Vec<String> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let line = |entry: fs::DirEntry| {
        let bytes = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\0', " ")
    };
    all.map(line).filter(|line| line.contains("network-helper") && line.contains(root)).collect()
}

/// `kubectl port-forward` to port 80, until dropped.
struct Forwarded {
    child: Child,
    /// Kept open: kubectl writes a line for every connection.
    _output: BufReader<ChildStdout>,
    port: u16,
}

impl Forwarded {
    fn start(machine: &Machine, to: &str) -> Forwarded {
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(machine.sandbox.data().join("kubeconfig"));
        command.args(["port-forward", to, ":80"]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("kubectl runs");
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        output.read_line(&mut line).expect("a line");
        let port = line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next());
        let port = port.and_then(|port| port.parse().ok());
        let port = port.unwrap_or_else(|| panic!("a port: {line}"));
        Forwarded { child, _output: output, port }
    }
}

impl Drop for Forwarded {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn without_slirp4netns_names_are_in_the_hosts_file() {
    let mut sandbox = Sandbox::of_user(NOBODY);
    sandbox.hide_program(SLIRP);
    let mut machine = Machine { sandbox, started: None };
    machine.begin();
    let network = machine.sandbox.run(&["doctor"]).stdout;
    assert!(network.contains("slirp4netns is not installed"), "{network}");
    assert!(network.contains("apt-get install slirp4netns"), "{network}");
    machine.kubectl(&["run", "client", "--image=x", "--command", "--", "sleep", "10000"], "");
    machine.phase("client", "Running");
    // The client runs before the names are known.
    let high = WEB.replace("'80'", "'28113'").replace("port: 80", "port: 28113");
    let one = high.split("---").next().expect("a pod").to_owned();
    let services: Vec<&str> = high.split("---").filter(|it| it.contains("kind: Service")).collect();
    machine.kubectl(&["apply", "-f", "-"], &format!("{one}---{}", services.join("---")));
    machine.kubectl(&["wait", "--for=condition=Ready", "pod/one", "--timeout=30s"], "");
    for name in ["web", "web.default.svc", "one.all", "one.all.default.svc.cluster.local"] {
        until_asked(&machine, &format!("http://{name}:28113/hostname"), "one");
    }
    machine.kubectl(&["delete", "service", "all", "--wait=true"], "");
    let began = Instant::now();
    while machine.kubectl(&["exec", "client", "--", "cat", "/etc/hosts"], "").contains("one.all") {
        assert!(began.elapsed() < PATIENCE, "names that are gone are removed");
        std::thread::sleep(LOOK);
    }
    let low = "apiVersion: v1\nkind: Service\nmetadata: {name: low}\n\
               spec: {selector: {app: web}, ports: [{port: 80}]}\n";
    machine.kubectl(&["apply", "-f", "-"], low);
    machine.until("get events --field-selector involvedObject.name=low", |events| {
        events.contains("PortNotBound") && events.contains("20080")
    });
}

/// Asks until the answer is there: names follow a moment after their objects.
fn until_asked(machine: &Machine, url: &str, expected: &str) {
    let script = format!("import urllib.request as r; print(r.urlopen('{url}').read().decode())");
    let began = Instant::now();
    loop {
        let ended = machine.run(&["exec", "client", "--", "python3", "-c", &script], "");
        if ended.stdout.trim() == expected {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{url}: {ended:?}");
        std::thread::sleep(LOOK);
    }
}

/// Runs the demonstration as a user, and returns its report.
fn demo(sandbox: &mut Sandbox, words: &[&str]) -> serde_json::Value {
    let temporary = sandbox.work().join("tmp");
    fs::create_dir_all(&temporary).expect("a directory");
    std::os::unix::fs::chown(&temporary, Some(NOBODY), Some(NOBODY)).expect("it is given");
    sandbox.set("TMPDIR", temporary.display().to_string());
    let like = sandbox.command(&[&["demo", "-o", "json"], words].concat());
    let mut command = Command::new("timeout");
    command.arg(DEMO_SECONDS_MAX).arg(like.get_program()).args(like.get_args());
    command.current_dir(sandbox.work()).env_clear().stdin(Stdio::null());
    command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ended = command.output().expect("it runs");
    let (told, said) = (ended.stdout, String::from_utf8_lossy(&ended.stderr).into_owned());
    assert_eq!(ended.status.code(), Some(0), "{}{said}", String::from_utf8_lossy(&told));
    let left: Vec<_> = fs::read_dir(&temporary).expect("it is there").flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(processes(&temporary.display().to_string()), [] as [String; 0]);
    serde_json::from_slice(&told).expect("JSON")
}

#[test]
fn the_demonstration_succeeds_for_a_user() {
    let mut sandbox = Sandbox::of_user(NOBODY);
    sandbox.set("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
    let told = demo(&mut sandbox, &[]);
    let parts = told["parts"].as_array().expect("parts").iter();
    let is_good = |part: &&serde_json::Value| part["state"] == "succeeded";
    let expected = if Path::new("/usr/bin/qemu-system-x86_64").exists() { 3 } else { 2 };
    assert_eq!(parts.filter(is_good).count(), expected, "{told}");
}

#[test]
fn training_on_several_nodes_needs_no_other_program() {
    let mut sandbox = Sandbox::of_user(NOBODY);
    sandbox.hide_program(SLIRP);
    let told = demo(&mut sandbox, &["--only", "training"]);
    assert_eq!(told["succeeded"], true, "{told}");
}
