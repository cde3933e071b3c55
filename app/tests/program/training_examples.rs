//! The examples for training: all are told of and accepted, and the smallest one really runs. Those
//! that need more of a machine are run by `trained.rs`.

use std::path::{Path, PathBuf};

use crate::node::Machine;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/training")
}

#[test]
fn every_example_is_accepted_and_the_smallest_one_completes() {
    let machine = Machine::start();
    machine.until("get clustertrainingruntimes -o name", |names| {
        names.contains("plain-local") && names.contains("torch-distributed")
    });
    let read = |file: &str| std::fs::read_to_string(directory().join(file)).expect("readable");
    let listed = read("README.md");
    let entries = std::fs::read_dir(directory()).expect("there are examples").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut files: Vec<String> = names.filter(|name| name.ends_with(".yaml")).collect();
    files.sort();
    assert!(files.len() >= 5, "{files:?}");
    for file in &files {
        assert!(listed.contains(&format!("`{file}`")), "{file} is not told of");
        // A file may bring the runtime of its job, which is not there while nothing is written.
        let path = directory().join(file).display().to_string();
        let applied = machine.run(&["apply", "-f", &path, "--dry-run=server"], "");
        let brings_runtime = read(file).contains("kind: TrainingRuntime\n");
        assert!(applied.code == Some(0) || brings_runtime, "{file}: {applied:?}");
    }
    let smallest = directory().join("smallest.yaml").display().to_string();
    let ended = machine.sandbox.run(&["train", "-f", &smallest, "--watch"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for node in 0..2 {
        let line = format!("[node-{node}] node {node} is done");
        assert!(ended.stdout.lines().any(|one| one == line), "{ended:?}");
    }
    machine.kubectl(&["delete", "trainjob", "smallest"], "");
}
