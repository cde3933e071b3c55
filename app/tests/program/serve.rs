//! `setpoint serve` with a graph of small processes that play a frontend and its workers: from a
//! file to an answer, and what is said when it cannot be; and the kinds of graphs as kubectl shows
//! them.

use crate::node::Machine;

/// Answers as frontends do.
const FRONTEND: &str = r#"
import http.server, json
class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        self.answer({"data": [{"id": "played"}]} if "models" in self.path else {})
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = asked["model"] + " heard " + asked["messages"][0]["content"]
        self.answer({"choices": [{"message": {"content": said}}]})
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("0.0.0.0", 8000), Handler).serve_forever()
"#;

const GRAPH: &str = r"
apiVersion: v1
kind: ConfigMap
metadata: {name: played-settings}
data: {greeting: hello}
---
apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata: {name: played}
spec:
  components:
  - name: Frontend
    type: frontend
    podTemplate: {spec: {containers: [{name: main, image: 'x:1.0.0', command: [python3, FILE],
      readinessProbe: {httpGet: {path: /health, port: http}, periodSeconds: 1}}]}}
  - name: Worker
    type: worker
    replicas: 2
    podTemplate: {spec: {containers: [{name: main, image: 'x:1.0.0', command: [sleep, '1000'],
      startupProbe: {exec: {command: ['true']}}, livenessProbe: {exec: {command: ['true']}},
      readinessProbe: {exec: {command: ['true']}}}]}}
";

fn machine() -> Machine {
    let machine = Machine::start();
    machine.until("get validatingwebhookconfigurations -o name", |all| {
        all.contains("dynamo-operator-validating")
    });
    let file = machine.sandbox.work().join("frontend.py");
    machine.sandbox.write("frontend.py", FRONTEND);
    machine.sandbox.write("graph.yaml", &GRAPH.replace("FILE", &file.display().to_string()));
    machine
}

#[test]
fn a_graph_of_a_file_is_watched_shown_drawn_scaled_and_asked() {
    let machine = machine();
    let serve = |words: &[&str]| machine.sandbox.run(&[&["serve"], words].concat());
    let ended = serve(&["-f", "graph.yaml", "--watch"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    // What the graph needs is in the same file, as users have it.
    let begins = "configmap/played-settings created\ngraph played created\n[played] ";
    assert!(ended.stdout.starts_with(begins), "{ended:?}");
    let line = "[played] successful  Frontend 1/1  Worker 2/2";
    assert!(ended.stdout.lines().any(|one| one == line), "{ended:?}");
    assert!(ended.stdout.contains("[played] serves at http://"), "{ended:?}");
    // What is ready of each component is told on the way.
    assert!(ended.stdout.matches("Worker ").count() > 1, "{ended:?}");

    let shown = serve(&["show", "played"]);
    let begins = "played is successful\n  Frontend  1 of 1 ready\n  Worker  2 of 2 ready\nhttp://";
    assert!(shown.stdout.starts_with(begins), "{shown:?}");
    let shown = serve(&["show", "played", "-o", "json"]).json();
    assert_eq!(
        (&shown["state"], &shown["components"][1]["ready"]),
        (&"successful".into(), &2.into())
    );
    let listed = serve(&["ls", "-o", "json"]).json();
    assert_eq!(listed[0]["name"], "played");
    let drawn = serve(&["graph", "played"]).stdout;
    let begins = "played (successful)\n└─ Frontend [frontend] 1/1 ready\n   └─ Worker [worker] 2/2";
    assert!(drawn.starts_with(begins), "{drawn}");
    assert_eq!(serve(&["chat", "played", "hello"]).stdout, "played heard hello\n");
    let other = serve(&["chat", "played", "hello", "--model", "another"]);
    assert_eq!(other.stdout, "another heard hello\n");
    assert_eq!(serve(&["scale", "played", "worker", "1"]).code, Some(0));
    machine
        .until("get dgd played -o jsonpath={.status.components.Worker.readyReplicas}", |count| {
            count == "1"
        });
    an_update_is_drawn_with_both_forms(&machine);
    // What is not there, and what is none, is said.
    let missing = serve(&["show", "nothing"]);
    assert!(missing.code == Some(5) && missing.stderr.contains("nothing"), "{missing:?}");
    machine.sandbox.write("pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n");
    let none = serve(&["-f", "pod.yaml"]);
    assert!(none.error().contains("has no DynamoGraphDeployment in it"), "{none:?}");
    graphs_are_replaced_and_removed(&machine);
}

/// The words of apply are true, a model must exist, and graphs are deleted with their pods.
fn graphs_are_replaced_and_removed(machine: &Machine) {
    let serve = |words: &[&str]| machine.sandbox.run(&[&["serve"], words].concat());
    let graph = |words: &[&str]| {
        let ended = serve(words);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.stdout.lines().last().unwrap_or_default().to_owned()
    };
    assert_eq!(graph(&["-f", "graph.yaml"]), "graph played configured");
    assert_eq!(graph(&["-f", "graph.yaml"]), "graph played unchanged");
    let uid = "get dgd played -o jsonpath={.metadata.uid}";
    let before = machine.until(uid, |uid| !uid.is_empty());
    assert_eq!(graph(&["-f", "graph.yaml", "--replace"]), "graph played created");
    machine.until(uid, |uid| !uid.is_empty() && uid != before);
    assert_eq!(graph(&["rm", "played"]), "dynamographdeployment/played deleted");
    assert_eq!(serve(&["rm", "played"]).code, Some(5));
    machine.until("get pods -o name", str::is_empty);
    let missing = serve(&["./nonexist", "--engine", "mocker"]);
    assert!(missing.error().contains("model directory \"./nonexist\" not found"), "{missing:?}");
    assert_eq!(machine.kubectl(&["get", "dgd", "-o", "name"], ""), "");
}

#[test]
fn a_second_interruption_deletes_the_graph_that_the_command_made() {
    let machine = machine();
    let text = std::fs::read_to_string(machine.sandbox.work().join("graph.yaml")).expect("it is");
    let ready = "readinessProbe: {exec: {command: ['true']}}";
    let stuck = text.replace(ready, "readinessProbe: {exec: {command: ['false']}}");
    machine.sandbox.write("stuck.yaml", &stuck);
    let words = ["serve", "-f", "stuck.yaml", "--watch", "-o", "json"];
    let started = machine.sandbox.start_command(&words);
    machine.until("get dgd -o name", |names| !names.is_empty());
    let (code, told) = started.interrupt_until_ended();
    assert_eq!(code, Some(130), "{told}");
    assert!(told.contains("Ctrl-C again within 3 s deletes it"), "{told}");
    assert!(told.contains("graph played deleted"), "{told}");
    machine.until("get dgd -o name", str::is_empty);
}

/// Workers of another form that never serve: the old ones serve on, and both are drawn.
fn an_update_is_drawn_with_both_forms(machine: &Machine) {
    let text = std::fs::read_to_string(machine.sandbox.work().join("graph.yaml")).expect("it is");
    let ready = "readinessProbe: {exec: {command: ['true']}}";
    let other = text.replace(ready, "readinessProbe: {exec: {command: ['false']}}");
    machine.sandbox.write("other.yaml", &other.replace("replicas: 2", "replicas: 1"));
    let told = machine.sandbox.run(&["serve", "-f", "other.yaml"]);
    assert_eq!(told.code, Some(0), "{told:?}");
    machine.until("get dcd -o name", |all| all.lines().count() == 3);
    let serve =
        |words: &[&str]| machine.sandbox.run(&[&["serve", "graph", "played"], words].concat());
    let drawn = serve(&["-o", "json"]).json();
    let worker = &drawn["components"][1];
    let mut forms: Vec<(i64, i64)> = worker["revisions"]
        .as_array()
        .expect("forms")
        .iter()
        .map(|one| (one["ready"].as_i64().expect("one"), one["desired"].as_i64().expect("one")))
        .collect();
    forms.sort_unstable();
    assert_eq!(forms, [(0, 1), (1, 1)], "{drawn}");
    let text = serve(&[]).stdout;
    let line = text.lines().last().expect("lines");
    assert!(line.starts_with("   └─ Worker [worker] 1/1 ready ("), "{text}");
    assert!(line.contains(" 1/1") && line.contains(" 0/1"), "{text}");
}

#[test]
fn a_graph_that_cannot_be_made_says_why_to_whoever_watches() {
    let machine = machine();
    let text = std::fs::read_to_string(machine.sandbox.work().join("graph.yaml")).expect("it is");
    // Workers of two engines cannot be of one graph.
    let other = text
        .replace("[python3, FILE]", "[sleep, '1']")
        .replace("type: frontend", "type: decode")
        .replace("command: [sleep, '1000']", "command: [python3, -m, dynamo.vllm]")
        .replace("command: [python3, /", "command: [python3, -m, dynamo.sglang, /");
    machine.sandbox.write("mixed.yaml", &other);
    let ended = machine.sandbox.run(&["serve", "-f", "mixed.yaml", "--watch"]);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert!(ended.stdout.contains("multiple backend frameworks detected"), "{ended:?}");
}

#[test]
fn kinds_of_graphs_have_their_names_columns_warnings_and_counts() {
    let machine = machine();
    let kinds = "dgd,dcd,dgdr,dgdsa,dm,dckpt,dwm";
    machine.kubectl(&["get", kinds], "");
    let older = "apiVersion: nvidia.com/v1alpha1\nkind: DynamoGraphDeployment\n\
                 metadata: {name: older}\nspec: {services: {Front: {componentType: frontend, \
                 extraPodSpec: {mainContainer: {image: 'x:1.0.0', command: [sleep, '1000']}}}}}\n";
    let made = machine.run(&["create", "-f", "-"], older);
    let warning = "Warning: nvidia.com/v1alpha1 DynamoGraphDeployment is deprecated; use \
                   nvidia.com/v1beta1 DynamoGraphDeployment";
    assert!(made.code == Some(0) && made.stderr.contains(warning), "{made:?}");
    let heads = [
        ("dgd", "NAME READY BACKEND AGE"),
        ("dcd", "NAME AVAILABLE BACKEND AGE"),
        (
            "dynamocomponentdeployments.v1alpha1.nvidia.com",
            "NAME DYNAMOCOMPONENT AVAILABLE BACKEND AGE",
        ),
    ];
    machine.until("get dcd -o name", |names| names.contains("older-front"));
    for (kind, head) in heads {
        let table = machine.kubectl(&["get", kind], "");
        let words: Vec<&str> =
            table.lines().next().unwrap_or_default().split_whitespace().collect();
        assert_eq!(words.join(" "), head);
    }
    columns_are_as_documented(&machine);
    // Looks that fail are counted by why.
    let stray = "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeploymentScalingAdapter\n\
                 metadata: {name: stray}\nspec: {replicas: 1, dgdRef: {name: nothing, \
                 componentName: decode}}\n";
    machine.kubectl(&["create", "-f", "-"], stray);
    let failed = "dynamo_operator_reconcile_errors_total{resource_type=\
                  \"DynamoGraphDeploymentScalingAdapter\",namespace=\"default\",error_type=";
    machine.until("get --raw /metrics", |text| text.contains(failed));
    let metrics = machine.kubectl(&["get", "--raw", "/metrics"], "");
    let of = "resource_type=\"DynamoGraphDeployment\",namespace=\"default\"";
    for line in [
        format!("dynamo_operator_reconcile_total{{{of},result=\"success\"}}"),
        format!(
            "dynamo_operator_reconcile_duration_seconds_bucket{{{of},result=\"success\",\
             le=\"0.005\"}}"
        ),
        "dynamo_operator_webhook_duration_seconds_bucket{resource_type=\"DynamoGraphDeployment\",\
         operation=\"CREATE\",le=\"0.001\"}"
            .to_owned(),
        "dynamo_operator_webhook_requests_total{resource_type=\"DynamoGraphDeployment\",\
         operation=\"CREATE\",result=\"allowed\"}"
            .to_owned(),
    ] {
        assert!(metrics.contains(&line), "{line} in {metrics}");
    }
    let counted = "dynamo_operator_resources_total{resource_type=\"DynamoGraphDeployment\"";
    machine.until("get --raw /metrics", |text| text.contains(counted));
    machine.kubectl(&["delete", "dgd,dgdsa", "--all"], "");
    machine.until("get pods -o name", str::is_empty);
}

/// What tables show of each kind, in every version that it is served in.
fn columns_are_as_documented(machine: &Machine) {
    for (plural, expected) in [
        ("dynamographdeployments", "v1alpha1 Ready Backend Age;v1beta1 Ready Backend Age;"),
        (
            "dynamocomponentdeployments",
            "v1alpha1 DynamoComponent Available Backend Age;v1beta1 Available Backend Age;",
        ),
        (
            "dynamographdeploymentrequests",
            "v1alpha1 Model Backend State DGD-State Age;\
             v1beta1 Model Backend Phase Profiling Reason Message DGD Age;",
        ),
        (
            "dynamographdeploymentscalingadapters",
            "v1alpha1 DGD SERVICE REPLICAS AGE;v1beta1 DGD COMPONENT REPLICAS AGE;",
        ),
        ("dynamomodels", "v1alpha1 BaseModel Type Ready Total Age;"),
        ("dynamocheckpoints", "v1alpha1 Model Backend Phase CheckpointID Age;"),
        ("dynamoworkermetadatas", "v1alpha1 Age;"),
    ] {
        let path = "jsonpath={range .spec.versions[*]}{.name}\
                    {range .additionalPrinterColumns[*]} {.name}{end};{end}";
        let name = format!("{plural}.nvidia.com");
        let columns = machine.kubectl(&["get", "crd", &name, "-o", path], "");
        let mut versions: Vec<&str> = columns.split_inclusive(';').collect();
        versions.sort_unstable();
        assert_eq!(versions.concat(), expected, "{plural}");
    }
}

#[test]
fn a_graph_goes_where_its_file_says_and_why_its_pods_crash_is_shown() {
    let machine = machine();
    machine.kubectl(&["create", "namespace", "team"], "");
    let text = std::fs::read_to_string(machine.sandbox.work().join("graph.yaml")).expect("it is");
    let text = text.replace("{name: played}", "{name: played, namespace: team}");
    let crashing = "command: [sh, -c, 'echo the disk is full; exit 3']";
    machine.sandbox.write("crash.yaml", &text.replace("command: [sleep, '1000']", crashing));
    for manner in ["--watch", "--wait"] {
        let ended = machine.sandbox.run(&["serve", "-f", "crash.yaml", manner]);
        assert_eq!(ended.code, Some(4), "{ended:?}");
        // It was given time to come round, and what it waited for was told meanwhile.
        let is_told = ended.stdout.contains("/main: CrashLoopBackOff: ");
        assert_eq!(is_told, manner == "--watch", "{ended:?}");
        assert!(ended.stderr.contains("graph played failed: pod/played-"), "{ended:?}");
        assert!(ended.stderr.contains("the disk is full"), "{ended:?}");
    }
    assert!(machine.kubectl(&["get", "dgd", "-o", "name"], "").is_empty());
    // A program that is not there is not waited for either; nor are pods that an update replaces.
    let missing = "command: [/no/such/program]";
    machine.sandbox.write("crash.yaml", &text.replace("command: [sleep, '1000']", missing));
    let ended = machine.sandbox.run(&["serve", "-f", "crash.yaml", "--watch"]);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert!(ended.stderr.contains("RunContainerError"), "{ended:?}");
    machine.sandbox.write("good.yaml", &text);
    let ended = machine.sandbox.run(&["serve", "-f", "good.yaml", "--watch"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("[played] serves at http://"), "{ended:?}");
    machine.kubectl(&["delete", "dgd", "played", "-n", "team"], "");
    machine.until("get pods -n team -o name", str::is_empty);
}

#[test]
fn whoever_stops_watching_is_told_how_to_look_again() {
    let machine = machine();
    let text = std::fs::read_to_string(machine.sandbox.work().join("graph.yaml")).expect("it is");
    let ready = "readinessProbe: {exec: {command: ['true']}}";
    let stuck = text.replace(ready, "readinessProbe: {exec: {command: ['false']}}");
    let (_, graph) = stuck.split_once("---\n").expect("two objects");
    machine.sandbox.write("stuck.yaml", graph);
    for manner in ["--watch", "--wait"] {
        let words = ["serve", "-f", "stuck.yaml", manner, "-o", "json"];
        let started = machine.sandbox.start_command(&words);
        assert_eq!(started.ready["name"], "played");
        machine.until("get pods -o jsonpath={.items[*].status.phase}", |phases| {
            phases == "Running Running Running"
        });
        started.signal("INT");
        let (code, told) = started.wait();
        assert_eq!(code, Some(130), "{told}");
        assert!(told.contains("graph played continues in the background"), "{told}");
        assert!(told.contains("setpoint serve show played"), "{told}");
    }
    machine.kubectl(&["delete", "dgd", "played"], "");
    machine.until("get pods -o name", str::is_empty);
}
