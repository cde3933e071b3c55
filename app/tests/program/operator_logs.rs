//! What operators log: a line names the kind that it is about at every level, a file says which
//! lines are told and how, and where an operator is a part of the program its lines are kept.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::dynamo_operator::{FILE, Followed, graph, until};
use crate::sandbox::Sandbox;

/// Workers of two engines are of no graph.
fn mixed_graph() -> String {
    let worker = |name: &str, engine: &str| {
        json!({"name": name, "type": "worker", "podTemplate": {"spec": {"containers": [
            {"name": "main", "image": "x:1.0.0", "command": ["python3", "-m", engine]}]}}})
    };
    json!({"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": {"namespace": "default", "name": "mixed"}, "spec": {"components": [
            worker("a", "dynamo.vllm"), worker("b", "dynamo.sglang")]}})
    .to_string()
}

/// Of a component that the graph does not have.
fn stray_adapter(graph: &str) -> String {
    json!({"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeploymentScalingAdapter",
        "metadata": {"namespace": "default", "name": "stray"}, "spec": {"replicas": 1,
            "dgdRef": {"name": graph, "componentName": "nobody"}}})
    .to_string()
}

#[test]
fn lines_of_every_level_name_their_kind_and_a_file_says_which_are_told() {
    let sandbox = Sandbox::new();
    let server = sandbox.start(&["--store", "memory", "--components", "api,controllers"]);
    let kubeconfig = crate::sandbox::text(&server.ready, "kubeconfig");
    let kubectl = |line: &str, manifest: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        sandbox.kubectl(&[&["--kubeconfig", &kubeconfig], &words[..]].concat(), manifest)
    };
    let until_said = |line: &str, word: &str| {
        until(line, || match kubectl(line, "") {
            ended if ended.stdout.contains(word) => Ok(()),
            ended => Err(format!("{ended:?}")),
        });
    };
    // What one process logs, from a graph that is made to one that cannot be.
    let logged = |file: &str, name: &str| {
        let run = ["operator", "--enable", "dynamo", "--kubeconfig", &kubeconfig, "--config"];
        let started =
            sandbox.start_command(&[&run[..], &[file, "--install", "-o", "json"]].concat());
        until("a graph that is made", || match kubectl("create -f -", &graph("default", name)) {
            ended if ended.code == Some(0) => Ok(()),
            ended => Err(format!("{ended:?}")),
        });
        until_said("get deployment -o name", &format!("{name}-frontend"));
        for object in [mixed_graph(), stray_adapter(name)] {
            assert_eq!(kubectl("create -f -", &object).code, Some(0));
        }
        until_said("get dgd mixed -o jsonpath={.status.state}", "failed");
        let regarding = "get events.events.k8s.io -A -o jsonpath={.items[*].regarding.name}";
        until_said(regarding, "stray");
        for kind in ["dgd", "dgdsa", "events.events.k8s.io"] {
            assert_eq!(kubectl(&format!("delete {kind} --all"), "").code, Some(0));
        }
        let (code, stderr) = started.stop();
        assert_eq!(code, Some(0), "{stderr}");
        stderr
    };
    sandbox.write("all.yaml", FILE);
    let text = logged("all.yaml", "first");
    let lines: Vec<Value> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    for (level, kind) in [
        ("DEBUG", "DynamoComponentDeployment"),
        ("INFO", "DynamoComponentDeployment"),
        ("WARN", "DynamoGraphDeploymentScalingAdapter"),
        ("ERROR", "DynamoGraphDeployment"),
    ] {
        let is_it = |line: &Value| line["level"] == level && line["kind"] == kind;
        assert!(lines.iter().any(is_it), "{level} {kind} in {text}");
    }
    // Fewer lines, for people.
    sandbox.write("few.yaml", &FILE.replace("debug, format: json", "error, format: console"));
    let text = logged("few.yaml", "second");
    let is_told = |level: &str| text.lines().any(|line| line.contains(&format!(" {level} ")));
    assert!(is_told("ERROR") && !is_told("WARN") && !is_told("INFO"), "{text}");
    let is_named = |line: &str| line.contains("ERROR") && line.contains("DynamoGraphDeployment");
    assert!(text.lines().any(is_named), "{text}");
}

#[test]
fn the_log_of_an_operator_is_read_by_its_name() {
    let sandbox = Sandbox::new();
    let nothing = sandbox.run(&["logs", "--operator", "dynamo"]);
    assert_eq!(nothing.code, Some(5), "{nothing:?}");
    let unknown = sandbox.run(&["logs", "--operator", "dinamo"]);
    let expected = "no operator \"dinamo\"; operators: trainer, jobset, dynamo, lws";
    assert!(unknown.code == Some(2) && unknown.stderr.contains(expected), "{unknown:?}");
    let parts = ["--store", "memory", "--components", "api,controllers,inference"];
    let server = sandbox.start(&parts);
    let kubeconfig = crate::sandbox::text(&server.ready, "kubeconfig");
    let create = |manifest: &str| {
        until("a graph that is made", || {
            let words = ["--kubeconfig", &kubeconfig, "create", "-f", "-"];
            match sandbox.kubectl(&words, manifest) {
                ended if ended.code == Some(0) => Ok(()),
                ended => Err(format!("{ended:?}")),
            }
        });
    };
    create(&graph("default", "first"));
    let mut follow = sandbox.command(&["logs", "--operator", "dynamo", "-f"]);
    follow.stderr(Stdio::null());
    let mut follow = Followed::start(follow);
    let line = follow.until_says("object=default/first-frontend");
    assert!(line.contains(" INFO ") && line.contains("kind=DynamoComponentDeployment"), "{line}");
    create(&graph("default", "second"));
    follow.until_says("object=default/second-frontend");
    let words = ["logs", "--operator", "dynamo", "--tail", "1", "-o", "json"];
    let last = sandbox.run(&words).json();
    assert!(last["number"].as_u64() > Some(1) && last["controller"].is_string(), "{last}");
    let others = sandbox.run(&["logs", "--operator", "lws"]);
    assert!(others.code == Some(0) && others.stdout.is_empty(), "{others:?}");
}
