//! The quality of service that a pod's requests and limits earn it.
//!
//! Upstream: pkg/apis/core/helper/qos/qos.go

use serde_json::Value;

use crate::registry::{amount, edit};

/// `Guaranteed`, `Burstable` or `BestEffort`.
pub fn class(pod: &Value) -> &'static str {
    let own = edit::at(pod, &["spec", "resources"]);
    let resources: Vec<&Value> = if own.is_null() {
        let containers = edit::list(pod, &["spec", "containers"]);
        let init = edit::list(pod, &["spec", "initContainers"]);
        containers.iter().chain(init).map(|it| edit::at(it, &["resources"])).collect()
    } else {
        vec![own]
    };
    let counts = |resources: &Value, list: &str, name: &str| {
        amount::is_positive(edit::at(resources, &[list, name]))
    };
    let any = |it: &&Value| {
        let named = |name| counts(it, "requests", name) || counts(it, "limits", name);
        named("cpu") || named("memory")
    };
    if !resources.iter().any(any) {
        return "BestEffort";
    }
    let guaranteed = |it: &&Value| {
        ["cpu", "memory"].iter().all(|name| {
            let limit = amount::read(edit::at(it, &["limits", name]));
            let request = amount::read(edit::at(it, &["requests", name]));
            counts(it, "limits", name) && (request.is_none() || request == limit)
        })
    };
    if resources.iter().all(guaranteed) { "Guaranteed" } else { "Burstable" }
}
