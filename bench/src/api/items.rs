//! What is written and read: config maps, as many as it takes.

use anyhow::{Result, ensure};
use serde_json::json;

use super::client::{Connection, Http};
use super::target::Target;

/// What each holds.
const DATA_BYTES: usize = 1_024;
/// How many values the label `shard` has.
const SHARDS: usize = 16;

/// What the names of the objects begin with that are listed, read and watched.
pub const ITEM: &str = "item";

/// Creates the namespace of the items, and one for all else.
pub async fn namespaces(target: &Target) -> Result<()> {
    for prefix in [ITEM, ""] {
        let body = json!({"metadata": {"name": namespace(target, prefix)}}).to_string();
        let request = target.request("POST", "/api/v1/namespaces", body);
        let answer = Connection::open(target, Http::One).await?.send(request).await?;
        ensure!(answer.status == 201, "{}", String::from_utf8_lossy(&answer.body));
    }
    Ok(())
}

pub fn namespace(target: &Target, prefix: &str) -> String {
    let more = if prefix == ITEM { "" } else { "-more" };
    format!("{}{more}", target.namespace)
}

/// Where the items are.
pub fn collection(target: &Target) -> String {
    collection_of(target, ITEM)
}

pub fn collection_of(target: &Target, prefix: &str) -> String {
    format!("/api/v1/namespaces/{}/configmaps", namespace(target, prefix))
}

pub fn name(prefix: &str, number: usize) -> String {
    format!("{prefix}-{number:06}")
}

pub fn path(target: &Target, prefix: &str, number: usize) -> String {
    format!("{}/{}", collection_of(target, prefix), name(prefix, number))
}

/// A config map with two labels; `mark` makes it differ from the last time.
pub fn text(prefix: &str, number: usize, mark: &str) -> String {
    let labels = json!({"app": "bench", "shard": format!("s{}", number % SHARDS)});
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name(prefix, number), "labels": labels},
        "data": {"mark": mark, "payload": "x".repeat(DATA_BYTES)},
    })
    .to_string()
}
