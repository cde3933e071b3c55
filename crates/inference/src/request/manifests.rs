//! What requests need to find: the role of the profilers.

use api::roles::{cluster_role, rule};
use serde_json::{Value, json};

use super::PROFILING_ROLE;

/// The role that profilers have in their namespace.
pub fn profiling_role() -> Value {
    let group = [api::dynamo::GROUP];
    let rules = json!([
        rule(&[""], &["configmaps"], &["create", "get", "update", "patch", "delete"]),
        rule(&[""], &["pods"], &["list", "get", "create", "delete"]),
        rule(&[""], &["pods/log"], &["get"]),
        rule(&group, &["dynamographdeploymentrequests"], &["get"]),
        rule(&group, &["dynamographdeployments"], &["get", "create", "delete", "list", "watch"]),
    ]);
    cluster_role(PROFILING_ROLE, rules)
}
