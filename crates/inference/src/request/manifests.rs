//! What requests need to find: the role of the profilers.

use serde_json::{Value, json};

use super::PROFILING_ROLE;

/// The role that profilers have in their namespace.
pub fn profiling_role() -> Value {
    let group = [api::dynamo::GROUP];
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": PROFILING_ROLE},
        "rules": [
            rule(&[""], &["configmaps"], &["create", "get", "update", "patch", "delete"]),
            rule(&[""], &["pods"], &["list", "get", "create", "delete"]),
            rule(&[""], &["pods/log"], &["get"]),
            rule(&group, &["dynamographdeploymentrequests"], &["get"]),
            rule(&group, &["dynamographdeployments"],
                &["get", "create", "delete", "list", "watch"]),
        ],
    })
}

fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": groups, "resources": resources, "verbs": verbs})
}
