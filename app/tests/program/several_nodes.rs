//! Several nodes, the mission's way: processes with names of their own on one MySQL or etcd.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::sandbox::{Ended, Sandbox, Started, text};

/// A node is missed after forty seconds, and a loaded machine is slow.
const PATIENCE: Duration = Duration::from_secs(150);
const LOOK: Duration = Duration::from_millis(200);
/// Who holds it, leads the controllers.
pub const LEASE: &str = "kube-controller-manager";

/// Every start is written down; every answer names the node.
const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 6
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      tolerations:
      - key: node.kubernetes.io/not-ready
        operator: Exists
        effect: NoExecute
        tolerationSeconds: 0
      - key: node.kubernetes.io/unreachable
        operator: Exists
        effect: NoExecute
        tolerationSeconds: 0
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: ScheduleAnyway
        labelSelector: {matchLabels: {app: web}}
      containers:
      - name: web
        image: none
        command:
        - sh
        - -c
        - |
          echo $NAME >> RECORD; mkdir /tmp/$NAME; cd /tmp/$NAME; echo $NODE > node
          exec python3 -m http.server 8000
        env:
        - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
        readinessProbe: {httpGet: {path: /node, port: 8000}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8000}]}
";

const ASK: &str = "
apiVersion: v1
kind: Pod
metadata: {name: ask-NODE}
spec:
  nodeName: NODE
  restartPolicy: Never
  containers:
  - name: ask
    image: none
    command:
    - sh
    - -c
    - for i in $(seq 40); do curl -s -m 5 http://web/node; done | sort -u > FILE
";

pub struct Nodes {
    pub sandbox: Sandbox,
    pub api: Started,
    nodes: BTreeMap<String, Started>,
}

impl Nodes {
    pub fn start(storage: &str, settings: &str) -> Nodes {
        let mut sandbox = Sandbox::new();
        sandbox.set("PATH", std::env::var("PATH").unwrap_or_default());
        let create = ["cluster", "create", "--nodes", "2", "--storage", storage];
        assert_eq!(sandbox.run(&create).code, Some(0));
        let configured = |node: &str| {
            let path = format!(".k3/{node}/.config.yaml");
            sandbox.write(&path, &format!("storage:\n  type: {storage}\n  {settings}\n"));
            (path, format!(".k3/{node}/data"))
        };
        let places = ["node-1", "node-2"].map(|node| (node, configured(node)));
        let (_, (config, data)) = &places[0];
        let place = ["--config", config, "--data-dir", data, "-o", "json"];
        let api = [&["storage", "--listen", "127.0.0.1:0"], &place[..]].concat();
        let api = sandbox.start_command(&api);
        let mut nodes = BTreeMap::new();
        for (node, (config, data)) in &places {
            sandbox.set("NODE_NAME", *node);
            let place = ["--config", config, "--data-dir", data, "-o", "json"];
            let started = sandbox.start_command(&[&["controller"], &place[..]].concat());
            nodes.insert((*node).to_owned(), started);
        }
        Nodes { sandbox, api, nodes }
    }

    /// On a database of their own.
    pub fn on_mariadb(name: &str) -> Nodes {
        let mariadb = servers::shared_mariadb().expect("MariaDB must start");
        let (host, port, user) = (&mariadb.host, mariadb.port, mariadb.user);
        let database = format!("{name}_{}", std::process::id());
        let password = mariadb.password;
        let settings = format!(
            "mysql: {{host: {host}, port: {port}, user: {user}, password: \"{password}\", \
             database: {database}}}"
        );
        Nodes::start("mysql", &settings)
    }

    pub fn on_etcd(etcd: &servers::Etcd) -> Nodes {
        Nodes::start("etcd", &format!("etcd: {{endpoints: [\"{}\"]}}", etcd.endpoint()))
    }

    pub fn are_ready(&self) {
        self.until("get nodes --no-headers", |said| said.matches(" Ready ").count() == 2);
    }

    /// Waits until somebody holds a lease who is not that node; answers who.
    pub fn leader(&self, lease: &str, not: &str) -> String {
        let path = "jsonpath={.spec.holderIdentity}";
        let holder = format!("-n kube-system get lease {lease} --ignore-not-found -o {path}");
        let is_other = |holder: &str| !holder.is_empty() && holder.split('_').next() != Some(not);
        let holder = self.until(&holder, is_other);
        holder.split('_').next().unwrap_or_default().to_owned()
    }

    pub fn signal(&self, node: &str, name: &str) {
        self.nodes[node].signal(name);
    }

    /// Ends a node as its user would; answers with what it wrote.
    pub fn stop(&mut self, node: &str) -> String {
        let (code, stderr) = self.nodes.remove(node).expect("it runs").stop();
        assert_eq!(code, Some(0), "{stderr}");
        stderr
    }

    pub fn kubectl(&self, line: &str, manifest: &str) -> String {
        let ended = self.run_kubectl(line, manifest);
        assert_eq!(ended.code, Some(0), "kubectl {line}: {ended:?}");
        ended.stdout
    }

    fn try_kubectl(&self, line: &str) -> Ended {
        self.run_kubectl(line, "")
    }

    fn run_kubectl(&self, line: &str, manifest: &str) -> Ended {
        let kubeconfig = text(&self.api.ready, "kubeconfig");
        let mut words = vec!["--kubeconfig", &kubeconfig];
        words.extend(line.split(' '));
        self.sandbox.kubectl(&words, manifest)
    }

    #[track_caller]
    pub fn until(&self, line: &str, holds: impl Fn(&str) -> bool) -> String {
        let began = Instant::now();
        loop {
            let said = self.kubectl(line, "");
            if holds(&said) {
                return said;
            }
            assert!(began.elapsed() < PATIENCE, "kubectl {line}: {said}");
            std::thread::sleep(LOOK);
        }
    }

    /// The nodes of the pods that are ready.
    fn placed(&self) -> Vec<String> {
        let pods = self.kubectl("get pods -l app=web -o json", "");
        let pods: Value = serde_json::from_str(&pods).expect("a list");
        // Those of a node that is gone end when it comes back.
        let pods = pods["items"].as_array().into_iter().flatten();
        let pods = pods.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        let ready = pods.filter(|pod| pod["status"]["containerStatuses"][0]["ready"] == true);
        ready.map(|pod| text(&pod["spec"], "nodeName")).collect()
    }

    /// Works, loses the node that leads, and works on.
    fn prove(mut self) {
        self.are_ready();
        let record = self.sandbox.work().join("record").display().to_string();
        self.kubectl("create -f -", &WEB.replace("RECORD", &record));
        self.kubectl("rollout status deployment/web --timeout=120s", "");
        let placed: BTreeSet<String> = self.placed().into_iter().collect();
        assert_eq!(placed.len(), 2, "both nodes run some");
        let starts = || fs::read_to_string(&record).unwrap_or_default();
        let count = starts().lines().count();
        let names: BTreeSet<String> = starts().lines().map(str::to_owned).collect();
        assert_eq!((count, names.len()), (6, 6), "each pod is started once: {}", starts());

        self.ask_from_each_node();
        let pods = self.stream_from_each_node();
        let leader = self.leader(LEASE, "");
        let killed = self.nodes.remove(&leader).unwrap_or_else(|| panic!("{leader} leads"));
        killed.signal("KILL");
        killed.wait();
        self.is_refused(&leader, &pods[&leader]);
        self.leader(LEASE, &leader);
        let survivor = self.nodes.keys().next().expect("one is left").clone();
        let ready = "get deployment web -o jsonpath={.status.readyReplicas}";
        self.until("get nodes --no-headers", |said| said.contains("NotReady"));
        self.until(ready, |count| {
            count == "6" && { self.placed().iter().all(|node| *node == survivor) }
        });
        let starts = starts();
        let names: BTreeSet<&str> = starts.lines().collect();
        assert_eq!(names.len(), starts.lines().count(), "no pod ran twice: {starts}");
        self.comes_back(&leader);
        self.end();
    }

    /// From a pod of each node those of both are reached.
    fn ask_from_each_node(&self) {
        for node in self.nodes.keys() {
            let answers = self.sandbox.work().join(format!("answers-{node}"));
            let pod = ASK.replace("NODE", node).replace("FILE", &answers.display().to_string());
            self.kubectl("create -f -", &pod);
            let phase = format!("get pod ask-{node} -o jsonpath={{.status.phase}}");
            self.until(&phase, |phase| phase == "Succeeded");
            let answers = fs::read_to_string(&answers).unwrap_or_default();
            assert_eq!(answers, "node-1\nnode-2\n", "from {node}");
        }
    }

    /// The server that is asked has no node: what it shows of pods comes from other processes.
    fn stream_from_each_node(&self) -> BTreeMap<String, String> {
        let name = "-o jsonpath={.items[0].metadata.name}";
        let select = |node: &String| {
            let select = format!("get pods -l app=web --field-selector spec.nodeName={node}");
            (node.clone(), self.kubectl(&format!("{select} {name}"), ""))
        };
        let pods: BTreeMap<String, String> = self.nodes.keys().map(select).collect();
        for (node, pod) in &pods {
            self.until(&format!("logs {pod}"), |said| said.contains("GET /node"));
            let file = format!("/tmp/{pod}/node");
            let said = self.kubectl(&format!("exec -i {pod} -- cat {file} -"), "typed\n");
            assert_eq!(said, format!("{node}\ntyped\n"));
            let path = format!("/api/v1/namespaces/default/pods/{pod}:8000/proxy/node");
            assert_eq!(self.kubectl(&format!("get --raw {path}"), ""), format!("{node}\n"));
            assert_eq!(self.forwarded(pod), format!("{node}\n"));
            let ended = self.try_kubectl(&format!("exec {pod} -- sh -c exit\t7"));
            assert_eq!(ended.code, Some(7), "{ended:?}");
        }
        pods
    }

    /// What a pod answers through `kubectl port-forward`.
    fn forwarded(&self, pod: &str) -> String {
        let kubeconfig = text(&self.api.ready, "kubeconfig");
        let mut forward = Command::new("kubectl")
            .args(["--kubeconfig", &kubeconfig, "port-forward", pod, ":8000"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("kubectl must start");
        let mut said = String::new();
        // Held to the end: kubectl dies of an output that nobody has.
        let mut stdout = BufReader::new(forward.stdout.take().expect("its output is taken"));
        stdout.read_line(&mut said).expect("it must say where it listens");
        let address = said.split(' ').nth(2).unwrap_or_default();
        let mut stream = TcpStream::connect(address).expect("it must listen");
        stream.write_all(b"GET /node HTTP/1.0\r\n\r\n").expect("it must take the request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it must answer");
        forward.kill().expect("it runs");
        forward.wait().expect("it ended");
        answer.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned()
    }

    /// A process that is gone is named, with what to do.
    fn is_refused(&self, node: &str, pod: &str) {
        for line in [format!("logs {pod}"), format!("exec {pod} -- true")] {
            let ended = self.try_kubectl(&line);
            assert_ne!(ended.code, Some(0), "{ended:?}");
            let expected = format!("node \"{node}\" does not answer");
            assert!(ended.stderr.contains(&expected), "{line}: {ended:?}");
        }
    }

    /// A node that starts again is ready, and nothing is held against it.
    fn comes_back(&mut self, node: &str) {
        let taints = format!("get node {node} -o jsonpath={{.spec.taints[*].key}}");
        self.until(&taints, |keys| keys.contains("node.kubernetes.io/unreachable"));
        self.sandbox.set("NODE_NAME", node);
        let (config, data) = (format!(".k3/{node}/.config.yaml"), format!(".k3/{node}/data"));
        let command = ["controller", "--config", &config, "--data-dir", &data, "-o", "json"];
        let started = self.sandbox.start_command(&command);
        self.nodes.insert(node.to_owned(), started);
        self.are_ready();
        self.until(&taints, str::is_empty);
        let left = format!("get pods -l app=web --field-selector spec.nodeName={node} -o name");
        self.until(&left, str::is_empty);
    }

    pub fn end(mut self) {
        for (_, node) in std::mem::take(&mut self.nodes) {
            assert_eq!(node.stop().0, Some(0));
        }
    }
}

impl Drop for Nodes {
    /// Containers outlive the program; a test that fails must leave none.
    fn drop(&mut self) {
        self.nodes.clear();
        let cleared = self.sandbox.run(&["cluster", "clear", "--force"]);
        assert!(std::thread::panicking() || cleared.code == Some(0), "{cleared:?}");
    }
}

#[test]
fn two_nodes_on_one_mariadb_and_one_dies() {
    Nodes::on_mariadb("several").prove();
}

#[test]
fn two_nodes_on_one_etcd_and_one_dies() {
    let etcd = servers::Etcd::start().expect("etcd must start");
    Nodes::on_etcd(&etcd).prove();
}
