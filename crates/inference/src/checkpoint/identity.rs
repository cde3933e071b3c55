//! What makes two workers the same to whoever starts from one that was frozen.

use serde_json::{Value, json};

use crate::backends::{self, Framework};
use crate::digest;
use crate::value::{find, list, text};

/// Digits of the hash of an identity.
const LENGTH: usize = 32;

/// The hash of an identity: what is left out is what it means by default.
pub fn hash(identity: &Value) -> String {
    let mut whole = json!({"tensorParallelSize": 1, "pipelineParallelSize": 1});
    crate::pods::merge::deep(&mut whole, identity);
    let mut digits = digest::sha256(&digest::canonical(&whole));
    digits.truncate(LENGTH);
    digits
}

/// The name of a checkpoint that is made for a graph.
pub fn automatic_name(identity: &Value) -> String {
    format!("checkpoint-{}", hash(identity))
}

/// The identity of the workers of a component: as it says, or as its command does.
pub fn of_component(part: &Value, framework: Option<Framework>) -> Value {
    let said = &part["experimental"]["checkpoint"]["identity"];
    if said.is_object() {
        return said.clone();
    }
    let main = find(&part["podTemplate"]["spec"]["containers"], "name", "main");
    let words = main.map(|main| list(&main["args"]).iter().map(text).collect::<Vec<&str>>());
    let words = words.unwrap_or_default().join(" ");
    let size = |flag: &str| backends::flag_value(&words, flag).unwrap_or(1);
    let mut made = json!({
        "model": text(&part["modelRef"]["name"]),
        "tensorParallelSize": size("--tensor-parallel-size"),
        "pipelineParallelSize": size("--pipeline-parallel-size"),
    });
    if let Some(framework) = framework {
        made["backendFramework"] = json!(framework.name());
    }
    if let Some((major, minor, patch)) = crate::graph::generate::version(part) {
        made["dynamoVersion"] = json!(format!("{major}.{minor}.{patch}"));
    }
    made
}
