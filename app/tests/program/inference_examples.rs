//! The examples for inference: the smallest one really answers, the others are accepted.

use std::path::{Path, PathBuf};

use crate::inference::Dynamo;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/inference")
}

#[test]
fn every_example_is_accepted_and_the_smallest_one_answers() {
    let dynamo = Dynamo::start();
    let read = |file: &str| std::fs::read_to_string(directory().join(file)).expect("readable");
    let listed = read("README.md");
    let mut files: Vec<String> = std::fs::read_dir(directory())
        .expect("there are examples")
        .map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".yaml"))
        .collect();
    files.sort();
    assert_eq!(files.len(), 6, "{files:?}");
    for file in &files {
        assert!(listed.contains(&format!("| `{file}` |")), "{file} is not told of");
        dynamo.machine.kubectl(&["apply", "-f", "-", "--dry-run=server"], &read(file));
    }
    dynamo.apply(&read("echo.yaml"));
    // Python is the user's own; the one of these tests has what it needs.
    let python = dynamo.python.display().to_string();
    dynamo.apply(&read("smallest.yaml").replace("python3", &python));
    dynamo.until_state("smallest", "successful");
    dynamo.until_answered(&dynamo.frontend("smallest"));
    dynamo.until_state("echo", "successful");
    dynamo.until_answered(&dynamo.frontend("echo"));
    // A worker that takes no adapters is told of, and nothing else suffers.
    dynamo.apply(&read("adapter.yaml"));
    let reason = "{.status.conditions[?(@.type=='EndpointsReady')].reason}";
    dynamo.until(&format!("get dm polite -o jsonpath={reason}"), |reason| reason == "NotReady");
    dynamo.machine.kubectl(&["delete", "dm", "polite"], "");
    dynamo.until_answered(&dynamo.frontend("smallest"));
}
