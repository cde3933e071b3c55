//! The past: reads at revisions, changes, causes, undoing, and who may know of them.

#![allow(clippy::unwrap_used, reason = "a failed test is a panic")]

mod access;
#[path = "../writes/api.rs"]
#[allow(dead_code, reason = "shared with the tests of writes")]
mod api;
mod brought;
mod goldens;
mod reads;
mod traces;
mod undoing;

use serde_json::{Value, json};

pub const ROOT: &str = "/apis/history.setpoint.dev/v1";
pub const PODS: &str = "/api/v1/namespaces/default/pods";
pub const SETS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// A deployment of one container.
pub fn deployment(name: &str, replicas: u64, image: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "web", "image": image}]},
            },
        },
    })
}

/// The revision of an object that was answered.
pub fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}
