//! The examples are what they say: the server takes them, and the operator makes something of them.
//! That they run is shown by the tests of the program.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use training::kinds::{CLUSTER_TRAINING_RUNTIME, JOB_SET, TRAIN_JOB, TRAINING_RUNTIME};
use training::value::text;

use crate::world::{World, job};

fn files(below: &str) -> Vec<PathBuf> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/training");
    let files = fs::read_dir(examples.join(below)).expect("there are examples");
    let files = files.map(|file| file.expect("a file").path());
    files.filter(|file| file.extension().is_some_and(|end| end == "yaml")).collect()
}

fn objects(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).expect("readable");
    serde_saphyr::from_multiple(&text).expect("an example is YAML")
}

#[tokio::test]
async fn every_example_is_taken_and_becomes_a_set() {
    let world = World::start().await;
    let mut jobs = Vec::new();
    for mut object in files("").iter().flat_map(|file| objects(file)) {
        object["metadata"]["namespace"] = json!("default");
        let kinds = [TRAINING_RUNTIME, TRAIN_JOB];
        let kind = kinds.into_iter().find(|kind| object["kind"] == kind.kind).expect("a kind");
        let made = world.create(kind, object).await;
        if kind == TRAIN_JOB {
            jobs.push(made.name.name.to_string());
        }
    }
    assert!(jobs.len() >= 3, "{jobs:?}");
    for name in jobs {
        world.until(JOB_SET, &name, |_| true).await;
    }
}

#[tokio::test]
async fn the_runtimes_of_the_examples_can_be_used() {
    let world = World::start().await;
    for runtime in files("runtimes").iter().flat_map(|file| objects(file)) {
        let name = text(&runtime["metadata"]["name"]).to_owned();
        world.create(CLUSTER_TRAINING_RUNTIME, runtime).await;
        let mut spec = json!({"suspend": true, "trainer": {"numNodes": 2},
            "runtimeRef": {"name": name, "kind": "ClusterTrainingRuntime"}});
        if name.ends_with("with-cache") {
            let uri = "cache://schema/table";
            spec["initializer"] = json!({"dataset": {"storageUri": uri}});
        }
        world.create(TRAIN_JOB, job(&format!("on-{name}"), spec)).await;
        let set = world.until(JOB_SET, &format!("on-{name}"), |_| true).await;
        let jobs = set.value["spec"]["replicatedJobs"].as_array().cloned().unwrap_or_default();
        assert_eq!(jobs.last().expect("a job")["template"]["spec"]["parallelism"], 2, "{name}");
    }
}
