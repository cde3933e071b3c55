//! Roles of operators, and what binds them to their accounts, as manifests say them.

use serde_json::{Value, json};

pub const GROUP: &str = "rbac.authorization.k8s.io";

/// What may be done with some resources.
pub fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": groups, "resources": resources, "verbs": verbs})
}

pub fn cluster_role(name: &str, rules: Value) -> Value {
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRole", "metadata": {"name": name},
        "rules": rules})
}

/// Gives an account, by its namespace and name, a role of the same name as what binds it.
pub fn cluster_binding(name: &str, account: (&str, &str)) -> Value {
    cluster_binding_to(name, name, account)
}

/// The same with a name of its own.
pub fn cluster_binding_to(name: &str, role: &str, (namespace, account): (&str, &str)) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": account}],
    })
}
