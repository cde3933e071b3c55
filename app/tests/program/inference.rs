//! Graphs of model servers, as users make them: the real frontend and real workers of Dynamo, each
//! a process of this machine, found through the API of this server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::node::Machine;

/// Processes of Python that import much take long to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);
const LOOK: Duration = Duration::from_millis(200);
/// How long one answer may take.
const ANSWER: Duration = Duration::from_secs(60);
const TINY_MODEL: &str = include_str!("../dynamo/make_tiny_model.py");

/// A machine that has Dynamo, and a model that takes no room.
pub struct Dynamo {
    pub machine: Machine,
    pub python: PathBuf,
    pub model: PathBuf,
}

impl Dynamo {
    pub fn start() -> Dynamo {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a target");
        let python = servers::python_dynamo(target).expect("it is installed");
        let machine = Machine::start();
        machine.sandbox.write("model.py", TINY_MODEL);
        let model = machine.sandbox.work().join("tiny");
        let script = machine.sandbox.work().join("model.py");
        let made = Command::new("python3").arg(script).arg(&model).status().expect("Python runs");
        assert!(made.success());
        machine.until("get crd -o name", |all| all.contains("dynamographdeployments"));
        machine.until("get validatingwebhookconfigurations -o name", |all| {
            all.contains("dynamo-operator-validating")
        });
        Dynamo { machine, python, model }
    }

    /// A frontend, and workers that say of themselves what they are.
    fn graph(&self, name: &str, workers: &[(&str, &str, &str)]) -> String {
        let mut yaml = self.graph_with("", name, "");
        for (worker, kind, flags) in workers {
            let model = self.model.display();
            let words = format!(
                "-m, dynamo.mocker, --model-path, {model}, --model-name, tiny, --speedup-ratio, \
                 '0', --num-gpu-blocks-override, '1024'{flags}"
            );
            yaml.push_str(&self.worker(worker, kind, &words));
        }
        yaml
    }

    /// A frontend of a graph with annotations and variables of its own.
    pub fn graph_with(&self, annotations: &str, name: &str, env: &str) -> String {
        let python = self.python.display();
        format!(
            "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeployment\n\
             metadata: {{name: {name}, annotations: {{{annotations}}}}}\nspec:\n  \
             env: [{{name: HF_HUB_OFFLINE, value: '1'}}{env}]\n  \
             components:\n  - name: Frontend\n    type: frontend\n    podTemplate: {{spec: \
             {{containers: [{{name: main, image: 'local/dynamo:1.6.1', \
             command: [{python}, -m, dynamo.frontend], args: [--router-mode, round-robin], \
             env: [{{name: DYN_MIGRATION_LIMIT, value: '3'}}], \
             readinessProbe: {{httpGet: {{path: /health, port: http}}, periodSeconds: 1}}}}]}}}}\n"
        )
    }

    /// A worker that Python runs with these words.
    pub fn worker(&self, name: &str, kind: &str, words: &str) -> String {
        let python = self.python.display();
        format!(
            "  - name: {name}\n    type: {kind}\n    modelRef: {{name: tiny}}\n    \
             podTemplate: {{spec: {{containers: [{{name: main, image: 'local/dynamo:1.6.1', \
             command: [{python}], args: [{words}], readinessProbe: {{httpGet: {{path: /health, \
             port: system}}, periodSeconds: 1, timeoutSeconds: 4}}, startupProbe: {{httpGet: \
             {{path: /live, port: system}}, periodSeconds: 1, timeoutSeconds: 5, \
             failureThreshold: 600}}}}]}}}}\n"
        )
    }

    pub fn apply(&self, manifest: &str) {
        self.machine.kubectl(&["apply", "-f", "-"], manifest);
    }

    #[track_caller]
    pub fn until(&self, line: &str, holds: impl Fn(&str) -> bool) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        let began = Instant::now();
        loop {
            let ended = self.machine.run(&words, "");
            if holds(ended.stdout.trim_end()) {
                return ended.stdout.trim_end().to_owned();
            }
            if began.elapsed() >= PATIENCE {
                let all = self.machine.run(&["get", "dgd,dcd,deploy,pods,events", "-A"], "").stdout;
                let log = ["logs", "-l", "nvidia.com/dynamo-namespace", "--tail=30", "--prefix"];
                let logs = self.machine.run(&log, "").stdout;
                panic!("kubectl {line}: {ended:?}\n{all}\n{logs}");
            }
            std::thread::sleep(LOOK);
        }
    }

    #[track_caller]
    pub fn until_state(&self, graph: &str, state: &str) {
        let line = format!("get dgd {graph} -o jsonpath={{.status.state}}");
        self.until(&line, |found| found == state);
    }

    /// Where the frontend of a graph listens.
    pub fn frontend(&self, graph: &str) -> String {
        let line = format!("get service {graph}-frontend -o jsonpath={{.spec.clusterIP}}");
        format!("{}:8000", self.until(&line, |address| !address.is_empty()))
    }

    /// Ends a load of which every question must have been answered well.
    #[track_caller]
    fn assert_none_failed(&self, load: Load) {
        let (answered, failed) = load.end();
        if let Some(first) = failed.first() {
            let log = ["logs", "-l", "nvidia.com/dynamo-component", "--tail=-1", "--prefix"];
            let logs = self.machine.run(&log, "").stdout;
            // Most of it is about questions that were answered.
            let told = logs.lines().filter(|line| !line.contains(" INFO"));
            let told = told.collect::<Vec<_>>().join("\n");
            panic!("{} of {answered} failed: {first}\n{told}", failed.len());
        }
    }

    /// Asks until it is answered well.
    #[track_caller]
    pub fn until_answered(&self, address: &str) -> String {
        self.until_answered_by("tiny", address)
    }

    #[track_caller]
    pub fn until_answered_by(&self, model: &str, address: &str) -> String {
        let began = Instant::now();
        loop {
            match chat_with(model, address, "hello", "false") {
                Ok((200, body)) => return body,
                other => assert!(began.elapsed() < PATIENCE, "{other:?}"),
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// One question to a frontend.
fn chat(address: &str, text: &str, stream: &str) -> std::io::Result<(u16, String)> {
    chat_with("tiny", address, text, stream)
}

fn chat_with(
    model: &str,
    address: &str,
    text: &str,
    stream: &str,
) -> std::io::Result<(u16, String)> {
    let body = format!(
        "{{\"model\":\"{model}\",\"messages\":[{{\"role\":\"user\",\"content\":\"{text}\"}}],\
         \"max_tokens\":8,\"stream\":{stream}}}"
    );
    ask(address, "POST", "/v1/chat/completions", &body)
}

pub fn ask(address: &str, method: &str, path: &str, body: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(ANSWER))?;
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    Ok((code, answer))
}

/// Asks again and again until dropped, and counts.
struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    failed: Arc<std::sync::Mutex<Vec<String>>>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Load {
    fn begin(address: &str, threads: usize) -> Load {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let failed = Arc::new(std::sync::Mutex::new(Vec::new()));
        let one = || {
            let (stop, answered, failed) = (stop.clone(), answered.clone(), failed.clone());
            let address = address.to_owned();
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    match chat(&address, "go on", "false") {
                        Ok((200, _)) => {
                            answered.fetch_add(1, Ordering::Relaxed);
                        }
                        other => failed.lock().expect("unpoisoned").push(format!("{other:?}")),
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
            })
        };
        let threads = (0..threads).map(|_| one()).collect();
        Load { stop: stop.clone(), answered: answered.clone(), failed: failed.clone(), threads }
    }

    /// Waits until so many more were answered.
    #[track_caller]
    fn until_more(&self, count: usize) {
        let (began, before) = (Instant::now(), self.answered.load(Ordering::Relaxed));
        while self.answered.load(Ordering::Relaxed) < before + count {
            let failed = self.failed.lock().expect("unpoisoned").len();
            assert!(began.elapsed() < PATIENCE, "no answers, {failed} failed");
            std::thread::sleep(LOOK);
        }
    }

    /// How many were answered, and what failed.
    fn end(mut self) -> (usize, Vec<String>) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("it ends");
        }
        (self.answered.load(Ordering::Relaxed), self.failed.lock().expect("unpoisoned").clone())
    }
}

#[test]
fn a_graph_of_real_workers_answers_and_is_scaled_by_its_adapter() {
    let dynamo = Dynamo::start();
    let mut yaml = dynamo.graph("g", &[("Decode", "decode", "")]);
    yaml.push_str("    scalingAdapter: {}\n");
    dynamo.apply(&yaml);
    dynamo.until_state("g", "successful");
    let address = dynamo.frontend("g");
    let body = dynamo.until_answered(&address);
    assert!(body.contains("\"object\":\"chat.completion\""), "{body}");
    let (code, streamed) = chat(&address, "hello", "true").expect("answered");
    assert!(code == 200 && streamed.contains("data: [DONE]"), "{streamed}");
    let machine = &dynamo.machine;
    let hash = machine.kubectl(
        &[
            "get",
            "dgd",
            "g",
            "-o",
            r"jsonpath={.metadata.annotations.nvidia\.com/current-worker-hash-v2}",
        ],
        "",
    );
    let names = machine.kubectl(&["get", "dcd,deploy,dgdsa,sa,role,rolebinding", "-o", "name"], "");
    for name in [
        "dynamocomponentdeployment.nvidia.com/g-frontend".to_owned(),
        format!("dynamocomponentdeployment.nvidia.com/g-decode-{hash}"),
        format!("deployment.apps/g-decode-{hash}"),
        "dynamographdeploymentscalingadapter.nvidia.com/g-decode".to_owned(),
        "serviceaccount/g-k8s-service-discovery".to_owned(),
        "serviceaccount/planner-serviceaccount".to_owned(),
        "role.rbac.authorization.k8s.io/g-k8s-service-discovery-role".to_owned(),
    ] {
        assert!(names.lines().any(|line| line == name), "{name} in {names}");
    }
    let said = machine.run(
        &[
            "patch",
            "dgd",
            "g",
            "--type=json",
            "-p",
            "[{\"op\":\"replace\",\"path\":\"/spec/components/1/replicas\",\"value\":2}]",
        ],
        "",
    );
    assert!(said.stderr.contains("cannot be modified directly when scaling adapter"), "{said:?}");
    // As autoscalers ask: how many there are to be, are, and by what they are found.
    let path = "/apis/nvidia.com/v1beta1/namespaces/default/\
                dynamographdeploymentscalingadapters/g-decode/scale";
    let scale = machine.kubectl(&["get", "--raw", path], "");
    let selector = "nvidia.com/dynamo-component=Decode,nvidia.com/dynamo-graph-deployment-name=g";
    assert!(scale.contains(selector) && scale.contains("\"replicas\":1"), "{scale}");
    // More come and go again, and nobody who asks meanwhile is turned away.
    let load = Load::begin(&address, 2);
    for count in ["3", "1"] {
        machine.kubectl(&["scale", "dgdsa/g-decode", &format!("--replicas={count}")], "");
        let ready = "get dgd g -o jsonpath={.status.components.Decode.readyReplicas}";
        dynamo.until(ready, |ready| ready == count);
        dynamo.until_state("g", "successful");
        load.until_more(20);
    }
    let workers = "get pods -l nvidia.com/dynamo-component=Decode -o name";
    dynamo.until(workers, |pods| pods.lines().count() == 1);
    load.until_more(20);
    dynamo.assert_none_failed(load);
    machine.kubectl(&["delete", "dgd", "g"], "");
    dynamo.until("get dcd,deploy,pods,dwm -o name", str::is_empty);
}

/// Kills every process of a worker that serves, as a crash would.
const CRASH: &str = "for p in /proc/[0-9]*; do if tr '\\0' ' ' < $p/cmdline 2>/dev/null | \
                     grep -q 'dynamo[.]mocker'; then kill -9 ${p#/proc/}; fi; done";

#[test]
fn prefill_and_decode_serve_together_and_a_crash_is_mended() {
    let dynamo = Dynamo::start();
    let prefill = ", --disaggregation-mode, prefill, --bootstrap-ports, '19300'";
    let decode = ", --disaggregation-mode, decode";
    let workers = [("Prefill", "prefill", prefill), ("Decode", "decode", decode)];
    dynamo.apply(&dynamo.graph("split", &workers));
    dynamo.until_state("split", "successful");
    let address = dynamo.frontend("split");
    dynamo.until_answered(&address);
    let machine = &dynamo.machine;
    let decode = "get pods -l nvidia.com/dynamo-component=Decode -o jsonpath=";
    let pod = dynamo.until(&format!("{decode}{{.items[0].metadata.name}}"), |pod| !pod.is_empty());
    machine.run(&["exec", &pod, "--", "sh", "-c", CRASH], "");
    let restarts = "{.items[0].status.containerStatuses[0].restartCount}";
    dynamo.until(&format!("{decode}{restarts}"), |count| count == "1");
    dynamo.until_state("split", "successful");
    dynamo.until_answered(&address);
}

#[test]
fn a_worker_that_is_killed_under_load_is_replaced_and_questions_go_on() {
    let dynamo = Dynamo::start();
    let mut yaml = dynamo.graph("lossy", &[("Worker", "worker", "")]);
    yaml.push_str("    replicas: 2\n");
    dynamo.apply(&yaml);
    dynamo.until_state("lossy", "successful");
    let address = dynamo.frontend("lossy");
    dynamo.until_answered(&address);
    let pods = "get pods -l nvidia.com/dynamo-component=Worker -o jsonpath=";
    let pod = dynamo.until(&format!("{pods}{{.items[0].metadata.name}}"), |pod| !pod.is_empty());
    let load = Load::begin(&address, 2);
    load.until_more(20);
    dynamo.machine.run(&["exec", &pod, "--", "sh", "-c", CRASH], "");
    // The other one answers while this one is down, and both when it is back.
    load.until_more(20);
    let container =
        "{.status.containerStatuses[0].restartCount}{.status.containerStatuses[0].ready}";
    dynamo.until(&format!("get pod {pod} -o jsonpath={container}"), |found| found == "1true");
    dynamo.until_state("lossy", "successful");
    let ready = "get dgd lossy -o jsonpath={.status.components.Worker.readyReplicas}";
    dynamo.until(ready, |ready| ready == "2");
    let (answered, failed) = load.end();
    // What was being answered by the one that was killed may be lost,
    assert!(failed.len() * 5 < answered, "{} of {answered}: {:?}", failed.len(), failed.first());
    // and nothing once there is another in its place.
    let load = Load::begin(&address, 2);
    load.until_more(40);
    dynamo.assert_none_failed(load);
}

#[test]
fn workers_are_replaced_under_load_and_no_question_fails() {
    let dynamo = Dynamo::start();
    let mut yaml = dynamo.graph("roll", &[("Worker", "worker", "")]);
    yaml.push_str("    replicas: 2\n");
    dynamo.apply(&yaml);
    dynamo.until_state("roll", "successful");
    let address = dynamo.frontend("roll");
    dynamo.until_answered(&address);
    let (code, streamed) = chat(&address, "hello", "true").expect("answered");
    assert!(code == 200 && streamed.contains("data: [DONE]"), "{streamed}");
    let hash =
        r"get dgd roll -o jsonpath={.metadata.annotations.nvidia\.com/current-worker-hash-v2}";
    let before = dynamo.until(hash, |hash| !hash.is_empty());
    let load = Load::begin(&address, 2);
    dynamo
        .apply(&yaml.replace("--speedup-ratio, '0'", "--speedup-ratio, '0', --startup-time, '1'"));
    let phase = "get dgd roll -o jsonpath={.status.rollingUpdate.phase}";
    dynamo.until(phase, |phase| phase == "Completed");
    dynamo.until_state("roll", "successful");
    load.until_more(20);
    dynamo.assert_none_failed(load);
    assert_ne!(dynamo.until(hash, |hash| !hash.is_empty()), before);
    dynamo.until("get dcd -o name", |all| all.lines().count() == 2);
}

#[test]
fn a_model_is_served_asked_drawn_and_scaled_from_the_command_line() {
    let dynamo = Dynamo::start();
    let serve = |words: &[&str]| dynamo.machine.sandbox.run(&[&["serve"], words].concat());
    let (model, python) = (dynamo.model.display().to_string(), dynamo.python.display().to_string());
    assert_eq!(serve(&["ls"]).stdout, "nothing serves\n");
    let words = [&*model, "--engine", "mocker", "--python", &*python, "--name", "cli", "--watch"];
    let ended = serve(&words);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("[cli] successful  Frontend 1/1  Worker 1/1"), "{ended:?}");
    assert!(ended.stdout.contains("[cli] serves at http://"), "{ended:?}");
    dynamo.until_answered(&dynamo.frontend("cli"));
    let asked = serve(&["chat", "cli", "hello"]);
    assert!(asked.code == Some(0) && asked.stdout.trim().len() > 1, "{asked:?}");
    let drawn = serve(&["graph", "cli"]);
    let front =
        "cli (successful)\n└─ Frontend [frontend] 1/1 ready\n   └─ Worker [worker] 1/1 ready (";
    assert!(drawn.stdout.starts_with(front), "{drawn:?}");
    assert_eq!(serve(&["scale", "cli", "worker", "0"]).stdout, "Worker of cli scaled to 0\n");
    dynamo.until("get pods -l nvidia.com/dynamo-component=Worker -o name", str::is_empty);
    assert!(serve(&["ls"]).stdout.contains("cli   successful    Frontend 1/1  Worker 0/0"));
    let wrong = serve(&["scale", "cli", "nobody", "1"]);
    assert!(wrong.stderr.contains("it has Frontend, Worker"), "{wrong:?}");
}
