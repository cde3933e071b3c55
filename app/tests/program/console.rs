//! The web console, walked through in a browser: every page against a cluster in which a job
//! trains, a graph answers and a machine has booted. The steps are in `console/test/`.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::booted::{manifests, serve};
use crate::node::Machine;
use crate::sandbox::{Sandbox, Started};

/// Objects of one kind that are scrolled through.
const MANY: usize = 20_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the workspace")
}

fn walk() -> PathBuf {
    let walk = root().join("console/test");
    let installed = root().join("console/node_modules/playwright-core");
    assert!(installed.exists(), "playwright-core is not installed; run `npm ci` in console/");
    walk
}

/// A child that goes with the test.
struct Helper(Child);

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Failing pods, a failing job, deployment and graph, a healthy deployment, and a user with few
/// rights. The pod `gone` is deleted before the walk: only its events stay.
const FIRST: &str = "
apiVersion: v1
kind: Pod
metadata: {name: broken}
spec:
  containers:
  - {name: main, image: x, command: [sh, -c, 'echo no model; exit 3']}
---
apiVersion: v1
kind: Pod
metadata: {name: large}
spec:
  containers:
  - {name: main, image: x, command: [sleep, '1000'], resources: {requests: {cpu: '900'}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: ends}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: main, image: x, command: [sh, -c, 'echo disk quota exceeded; exit 1']}
---
apiVersion: v1
kind: Pod
metadata: {name: gone}
spec:
  containers:
  - {name: main, image: x, command: ['false']}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: site}
spec:
  replicas: 2
  selector: {matchLabels: {app: site}}
  template:
    metadata: {labels: {app: site}}
    spec:
      containers:
      - {name: main, image: x, command: [sh, -c, 'echo bind: permission denied; exit 1']}
---
apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata: {name: crashing}
spec:
  components:
  - name: Frontend
    type: frontend
    runtimeVersionOverride: 1.6.1
    podTemplate:
      spec:
        containers:
        - name: main
          image: python:3-slim
          command: [python3, -c, import no_such_module]
  - name: Worker
    type: worker
    runtimeVersionOverride: 1.6.1
    podTemplate:
      spec:
        containers:
        - name: main
          image: python:3-slim
          command: [python3, -c, 'raise RuntimeError(''CUDA is not available'')']
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: hello}
spec:
  replicas: 2
  selector: {matchLabels: {app: hello}}
  template:
    metadata: {labels: {app: hello}}
    spec:
      containers:
      - {name: main, image: x, command: [sleep, '100000']}
---
apiVersion: v1
kind: Namespace
metadata: {name: many}
---
apiVersion: v1
kind: Namespace
metadata: {name: tenant}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: ada, namespace: tenant}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: ada, namespace: tenant}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: ada, namespace: tenant}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: ada, namespace: many}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{kind: ServiceAccount, name: ada, namespace: tenant}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: sees-little}
rules:
- {apiGroups: [trainer.kubeflow.org], resources: [trainjobs], verbs: [get, list, watch]}
- {apiGroups: [nvidia.com], resources: [dynamographdeployments], verbs: [get, list, watch]}
- {apiGroups: [kubevirt.io], resources: [virtualmachines], verbs: [get, list, watch]}
- {apiGroups: [apps], resources: [deployments], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: sees-little}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: sees-little}
subjects: [{kind: ServiceAccount, name: ada, namespace: tenant}]
";

fn fill(machine: &Machine) {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a target");
    let image = serve(&servers::guest_image(target).expect("an image"));
    let python = servers::python_dynamo(target).expect("it is installed");
    machine.until("get crd -o name", |names| {
        names.contains("virtualmachinerestores") && names.contains("dynamographdeployments")
    });
    machine.until("get validatingwebhookconfigurations -o name", |names| {
        names.contains("novasphere-validating") && names.contains("dynamo-operator-validating")
    });
    machine.kubectl(&["apply", "-f", "-"], &manifests(&machine.sandbox, &image));
    let graph = root().join("examples/inference/disaggregated.yaml");
    let graph = std::fs::read_to_string(graph).expect("an example");
    let graph = graph.replace("python3", &python.display().to_string());
    machine.kubectl(&["apply", "-f", "-"], &graph);
    let echo = root().join("examples/inference/echo.yaml");
    let echo = std::fs::read_to_string(echo).expect("examples/inference/echo.yaml is readable");
    machine.kubectl(&["apply", "-f", "-"], &echo);
    machine.kubectl(&["apply", "-f", "-"], FIRST);
    let events = "get events --field-selector reason=BackOff,involvedObject.name=gone";
    machine.until(events, |events| events.contains("BackOff"));
    machine.kubectl(&["delete", "pod", "gone", "--grace-period=0", "--force"], "");
    machine.until("get clustertrainingruntimes -o name", |names| names.contains("torch-local"));
    let script = root().join("examples/training/linear.py").display().to_string();
    let given = ["--pause", "0.2", "--steps", "2000"];
    let train = [&["train", &script, "--nodes", "3", "--name", "line", "--"][..], &given].concat();
    assert_eq!(machine.sandbox.run(&train).code, Some(0));
    let script = root().join("console/test/moons.py").display().to_string();
    let train = ["train", &script, "--nodes", "2", "--name", "two-moons"];
    assert_eq!(machine.sandbox.run(&train).code, Some(0));
}

#[test]
fn every_page_is_walked_through_in_a_browser() {
    let walk = walk();
    let sandbox = Sandbox::new();
    sandbox.write(".config.yaml", "machines: {images: everything}\n");
    let mut machine = Machine { sandbox, started: None };
    machine.begin();
    let machine = &machine;
    fill(machine);
    let tenant = machine.kubectl(&["create", "token", "ada", "-n", "tenant"], "");
    let mut makes = Command::new("node");
    makes.arg(walk.join("many.mjs")).args([&machine.api_port(), &tenant, &MANY.to_string()]);
    let _makes = Helper(makes.spawn().expect("node runs"));

    let opened = machine.sandbox.run(&["ui", "--no-browser", "-o", "json"]);
    let link = opened.json()["url"].as_str().expect("an address").to_owned();
    let base = link.split("/console/").next().expect("a beginning");
    let given = json!({"base": base, "link": link, "tenant": tenant, "machine": "w-vm",
        "many": MANY, "isFull": std::env::var_os("SETPOINT_TEST_FULL").is_some(),
        "directory": machine.sandbox.work()});
    machine.sandbox.write("walk.json", &given.to_string());
    let mut walks = Command::new("node");
    walks.arg(walk.join("walk.mjs")).arg(machine.sandbox.work().join("walk.json"));
    let walked = walks.stdin(Stdio::null()).output().expect("node runs");
    let said = String::from_utf8_lossy(&walked.stdout);
    let problem = String::from_utf8_lossy(&walked.stderr);
    println!("{said}");
    assert!(walked.status.success() && said.ends_with("walked\n"), "{said}\n{problem}");
    keep(&machine.sandbox.work().join("pictures"));
}

/// The next line of the walk, which must be the expected one.
#[track_caller]
fn expect_line(lines: &mut impl BufRead, expected: &str) {
    let mut line = String::new();
    lines.read_line(&mut line).expect("the output of node is readable");
    assert_eq!(line.trim_end(), expected);
}

#[test]
fn a_browser_stays_signed_in_while_the_server_restarts_and_follows_a_new_link() {
    let walk = walk();
    let sandbox = Sandbox::new();
    let start = |address: &str| {
        let parts = ["--store", "embedded", "--components", "api,controllers"];
        let start = ["start", "-o", "json", "--listen", address];
        sandbox.start_command(&[&start, &parts[..]].concat())
    };
    let link = || {
        let opened = sandbox.run(&["ui", "--no-browser", "-o", "json"]);
        opened.json()["url"].as_str().expect("`ui` prints a URL").to_owned()
    };
    let started = start("127.0.0.1:0");
    let address = started.address();
    let first = link();
    let base = first.split("/console/").next().expect("the URL has a base");
    let given = json!({"base": base, "link": first, "directory": sandbox.work()});
    sandbox.write("restart.json", &given.to_string());
    let mut command = Command::new("node");
    command.arg(walk.join("restart.mjs")).arg(sandbox.work().join("restart.json"));
    let mut browser =
        Helper(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("node runs"));
    let mut input = browser.0.stdin.take().expect("stdin is piped");
    let mut lines = BufReader::new(browser.0.stdout.take().expect("stdout is piped"));
    expect_line(&mut lines, "signed in");

    started.signal("KILL");
    started.wait();
    let _started = start(&address);
    let kubeconfig = sandbox.data().join("kubeconfig").display().to_string();
    let create = ["--kubeconfig", &kubeconfig, "create", "configmap", "made-after-the-restart"];
    assert_eq!(sandbox.kubectl(&create, "").code, Some(0));
    writeln!(input, "restarted").expect("node reads its input");
    expect_line(&mut lines, "still signed in");
    writeln!(input, "{}", link()).expect("node reads its input");
    expect_line(&mut lines, "walked");
}

/// Copies the pictures to `target/console-pictures`.
fn keep(pictures: &Path) {
    let place = root().join("target/console-pictures");
    std::fs::create_dir_all(&place).expect("a place for pictures");
    for entry in std::fs::read_dir(pictures).into_iter().flatten().flatten() {
        let _ = std::fs::copy(entry.path(), place.join(entry.file_name()));
    }
}

fn anonymous(started: &Started, path: &str) -> (u16, String) {
    started.get_anonymously(path, "")
}

#[test]
fn pages_are_for_everybody_and_nothing_else_is() {
    let sandbox = Sandbox::new();
    let started = sandbox.start(&["--store", "memory"]);
    let (code, page) = anonymous(&started, "/console/");
    assert_eq!(code, 200);
    assert!(page.contains("Setpoint"), "{page}");
    assert_eq!(anonymous(&started, "/console/any/view?at=5").0, 200);
    assert_eq!(anonymous(&started, "/console/assets/none.js").0, 404);
    let (code, page) = anonymous(&started, "/docs/training");
    assert_eq!(code, 200, "{page}");
    assert!(page.contains("<h1 id=\"training\">Training</h1>"), "{page}");
    for (path, code) in [("/docs", 308), ("/docs/", 200), ("/docs/none", 404), ("/docsx", 403)] {
        assert_eq!(anonymous(&started, path).0, code, "{path}");
    }
    // A token of a session that nobody began, and one that is none, are refused alike.
    for token in ["setpoint-console-guess", "guess"] {
        let header = format!("Authorization: Bearer {token}\r\n");
        assert_eq!(started.get_anonymously("/api/v1/pods", &header).0, 401, "{token}");
    }
    let text = sandbox.run(&["ui", "--no-browser"]);
    assert!(text.stdout.contains("/console/#code="), "{text:?}");
    assert!(text.stdout.contains("works once, within 5 minutes"), "{text:?}");
    drop(started);
    for words in [&["ui", "--no-browser"][..], &["ui", "--no-browser", "--data-dir", "none"]] {
        let ended = sandbox.run(words);
        assert!(ended.error().contains("Start one with `setpoint up`"), "{ended:?}");
    }
}
