//! The examples are what they say: the server takes them, the operator makes something of them, and
//! the readme tells of them.

use std::fs;
use std::path::{Path, PathBuf};

use machines::Bridges;
use machines::kinds::{MACHINE, SECRET, STORAGE_CLASS, WUKONG, WUKONG_SNAPSHOT};
use serde_json::{Value, json};

use crate::world::{AddOns, World};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/machines")
}

#[tokio::test]
async fn every_example_is_taken_told_of_and_becomes_what_it_says() {
    let world = World::with(AddOns::All, Bridges::ByNode).await;
    let listed = fs::read_to_string(directory().join("README.md")).expect("readable");
    let files = fs::read_dir(directory()).expect("there are examples");
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "yaml"));
    files.sort();
    assert_eq!(files.len(), 5, "{files:?}");
    let (mut wukongs, mut snapshots) = (Vec::new(), Vec::new());
    for file in files {
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        assert!(listed.contains(&format!("| `{name}` |")), "{name} is not told of");
        let text = fs::read_to_string(&file).expect("readable");
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text).expect("an example is YAML");
        for mut object in objects {
            let kinds = [WUKONG, WUKONG_SNAPSHOT, SECRET, STORAGE_CLASS];
            let kind = kinds.into_iter().find(|kind| object["kind"] == kind.kind).expect("a kind");
            if kind != STORAGE_CLASS {
                object["metadata"]["namespace"] = json!("default");
            }
            let made = world.create(kind, object).await.name.name.to_string();
            match kind {
                WUKONG => wukongs.push(made),
                WUKONG_SNAPSHOT => snapshots.push(made),
                _ => {}
            }
        }
    }
    assert_eq!(wukongs.len(), 5, "{wukongs:?}");
    for name in wukongs {
        // Where nobody plays its class, the claims of one wait for the machine.
        world.until(MACHINE, &format!("{name}-vm"), |_| true).await;
    }
    assert_eq!(snapshots, ["before"]);
}
