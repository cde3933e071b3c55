//! What the agent of a node may do: the role `system:node`, no further than its own node and the
//! pods that are bound to it.
//!
//! No binding grants that role, because a rule cannot say "the secrets that my pods use". It is
//! asked only after roles and bindings said no.
//!
//! Upstream: plugin/pkg/auth/authorizer/node/node_authorizer.go

use serde_json::Value;
use store::PageRequest;

use super::{Attributes, Authorizer, RoleReference};
use crate::identity::{GROUP_NODES, User};
use crate::persist::stored;
use crate::registry::edit::text;
use crate::server::Server;

const PREFIX: &str = "system:node:";
const LEASES: &str = "kube-node-lease";

/// Whether the user is a node's agent and may do this.
pub async fn allows(server: &Server, user: &User, attributes: &Attributes<'_>) -> bool {
    let Some(node) = node_of(user) else { return false };
    if !role_allows(&server.authorizer, user, attributes) {
        return false;
    }
    let Attributes { verb, namespace, name, .. } = *attributes;
    let is_write = !["get", "list", "watch"].contains(&verb);
    match (attributes.group, attributes.resource) {
        // A name that is not in the path is in the object, which only this program's own agent
        // is known to fill in honestly; it can only make what does not exist.
        ("", "nodes") => !is_write || verb == "create" || name == node,
        ("storage.k8s.io", "csinodes") => verb == "create" || name == node,
        ("coordination.k8s.io", "leases") => {
            namespace == LEASES && (verb == "create" || name == node)
        }
        ("", "pods") if is_write => verb != "create" && is_bound(server, node, attributes).await,
        ("", "secrets" | "configmaps" | "persistentvolumeclaims") => {
            let kind = attributes.resource;
            !name.is_empty()
                && any_pod(server, node, namespace, |pod| refers(pod, kind, name)).await
        }
        ("", "serviceaccounts") => {
            any_pod(server, node, namespace, |pod| {
                text(pod, &["spec", "serviceAccountName"]) == name
            })
            .await
        }
        _ => true,
    }
}

/// Whether the user is a node's agent and its role says so; which objects are its own is not asked.
pub fn role_allows(authorizer: &Authorizer, user: &User, attributes: &Attributes<'_>) -> bool {
    let role = RoleReference { kind: "ClusterRole", name: "system:node", namespace: "" };
    let rules = || authorizer.rules_of(&role).unwrap_or_default();
    let is_named = node_of(user).is_some() && attributes.path.is_none();
    is_named && rules().iter().any(|rule| rule.allows(attributes))
}

/// The node whose agent the user is.
fn node_of(user: &User) -> Option<&str> {
    user.name.strip_prefix(PREFIX).filter(|_| user.is_in(GROUP_NODES))
}

async fn is_bound(server: &Server, node: &str, attributes: &Attributes<'_>) -> bool {
    any_pod(server, node, attributes.namespace, |pod| {
        text(pod, &["metadata", "name"]) == attributes.name
    })
    .await
}

/// Whether a pod of the node in a namespace is so.
async fn any_pod(
    server: &Server,
    node: &str,
    namespace: &str,
    holds: impl Fn(&Value) -> bool,
) -> bool {
    let Some(pods) = server.registry.find("", "pods").filter(|_| !namespace.is_empty()) else {
        return false;
    };
    let page = server.store.list(&pods.range(namespace), PageRequest::all(), None).await;
    let entries = page.map(|page| page.entries).unwrap_or_default();
    entries.iter().any(|entry| {
        let stored = stored(entry);
        // The field tells without a parse.
        stored.field("spec.nodeName") == Some(node) && holds(&stored.object(entry.modified))
    })
}

/// Whether a pod names an object of a kind anywhere in its specification.
fn refers(pod: &Value, resource: &str, name: &str) -> bool {
    let spec = &pod["spec"];
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let containers = ["initContainers", "containers", "ephemeralContainers"];
    let env = containers.iter().flat_map(|kind| list(&spec[*kind])).any(|container| {
        let from = match resource {
            "secrets" => ("secretKeyRef", "secretRef"),
            _ => ("configMapKeyRef", "configMapRef"),
        };
        list(&container["env"]).iter().any(|one| one["valueFrom"][from.0]["name"] == name)
            || list(&container["envFrom"]).iter().any(|one| one[from.1]["name"] == name)
    });
    let volumes = list(&spec["volumes"]);
    match resource {
        "secrets" => {
            env || volumes.iter().any(|volume| {
                volume["secret"]["secretName"] == name
                    || list(&volume["projected"]["sources"])
                        .iter()
                        .any(|source| source["secret"]["name"] == name)
            }) || list(&spec["imagePullSecrets"]).iter().any(|one| one["name"] == name)
        }
        "configmaps" => {
            env || volumes.iter().any(|volume| {
                volume["configMap"]["name"] == name
                    || list(&volume["projected"]["sources"])
                        .iter()
                        .any(|source| source["configMap"]["name"] == name)
            })
        }
        _ => {
            let own = text(pod, &["metadata", "name"]);
            volumes.iter().any(|volume| {
                volume["persistentVolumeClaim"]["claimName"] == name
                    || (volume["ephemeral"].is_object()
                        && format!("{own}-{}", volume["name"].as_str().unwrap_or_default()) == name)
            })
        }
    }
}
