//! What an installation that works in one namespace needs: the same, with rights in that namespace
//! alone, asked about nothing else, and without what belongs to the whole cluster.

use serde_json::{Value, json};

/// Kinds that are in no namespace; a role of one says nothing of them.
const OF_CLUSTERS: [&str; 10] = [
    "clusterrolebindings",
    "clusterroles",
    "customresourcedefinitions",
    "customresourcedefinitions/status",
    "ingressclasses",
    "mutatingwebhookconfigurations",
    "nodes",
    "subjectaccessreviews",
    "tokenreviews",
    "validatingwebhookconfigurations",
];

/// By which label every namespace has its name.
const NAMESPACE_LABEL: &str = "kubernetes.io/metadata.name";

/// Confines a manifest to a namespace; false for what the whole cluster shares. Whoever installs
/// the operators for all of it brings the definitions.
pub fn confine(manifest: &mut Value, namespace: &str) -> bool {
    match manifest["kind"].as_str().unwrap_or_default() {
        "CustomResourceDefinition" => return false,
        "ClusterRole" => {
            manifest["kind"] = json!("Role");
            manifest["metadata"]["namespace"] = json!(namespace);
            let rules = manifest["rules"].as_array().cloned().unwrap_or_default();
            manifest["rules"] = rules.into_iter().filter_map(confined_rule).collect();
        }
        "ClusterRoleBinding" => {
            manifest["kind"] = json!("RoleBinding");
            manifest["metadata"]["namespace"] = json!(namespace);
            manifest["roleRef"]["kind"] = json!("Role");
        }
        kind if kind.ends_with("WebhookConfiguration") => {
            let name = manifest["metadata"]["name"].as_str().unwrap_or_default();
            manifest["metadata"]["name"] = json!(format!("{name}-{namespace}"));
            for webhook in manifest["webhooks"].as_array_mut().into_iter().flatten() {
                webhook["namespaceSelector"] = json!({"matchLabels": {NAMESPACE_LABEL: namespace}});
            }
        }
        _ => {}
    }
    true
}

/// A rule without what a role of one namespace cannot give.
fn confined_rule(mut rule: Value) -> Option<Value> {
    let resources = rule["resources"].as_array_mut()?;
    resources.retain(|one| one.as_str().is_some_and(|one| !OF_CLUSTERS.contains(&one)));
    (!resources.is_empty()).then_some(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_become_those_of_one_namespace() {
        let mut role = json!({"kind": "ClusterRole", "metadata": {"name": "r"}, "rules": [
            {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
        assert!(confine(&mut role, "team"));
        let expected = json!({"kind": "Role", "metadata": {"name": "r", "namespace": "team"},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
        assert_eq!(role, expected);
        assert!(!confine(&mut json!({"kind": "CustomResourceDefinition"}), "team"));
        let mut asks = json!({"kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "w"}, "webhooks": [{"name": "a"}]});
        assert!(confine(&mut asks, "team"));
        assert_eq!(asks["metadata"]["name"], "w-team");
        let selector = &asks["webhooks"][0]["namespaceSelector"]["matchLabels"];
        assert_eq!(selector[NAMESPACE_LABEL], "team");
    }
}
