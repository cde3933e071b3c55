//! The roles and bindings every cluster has, from `bootstrap_data.txt`.
//!
//! Whoever starts the server creates them where they are missing, and restores rules and subjects
//! of those that still carry the annotation.
//!
//! Upstream: plugin/pkg/auth/authorizer/rbac/bootstrappolicy

use serde_json::{Value, json};

use super::{GROUP, Kind};

const DATA: &str = include_str!("bootstrap_data.txt");

/// `"true"` on objects whose missing rules and subjects the server puts back at its start.
pub const AUTOUPDATE_ANNOTATION: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// An object every cluster has.
#[derive(Clone, Debug, PartialEq)]
pub struct BuiltIn {
    pub kind: Kind,
    /// Of the object, as clients ask for it.
    pub path: String,
    pub object: Value,
}

/// All of them: cluster roles, their bindings, then those of namespaces.
pub fn objects() -> impl Iterator<Item = BuiltIn> {
    read(DATA)
}

/// Reads objects in the form of `bootstrap_data.txt`.
pub(super) fn read(text: &str) -> impl Iterator<Item = BuiltIn> {
    let mut lines = text.lines().filter(|line| !line.starts_with('#')).peekable();
    std::iter::from_fn(move || {
        let mut object = start(lines.next()?);
        while let Some(line) = lines.next_if(|line| line.starts_with(' ')) {
            add(&mut object.object, line.trim_start());
        }
        Some(object)
    })
}

fn start(line: &str) -> BuiltIn {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let kind = match word {
        "clusterrole" => Kind::ClusterRole,
        "clusterrolebinding" => Kind::ClusterRoleBinding,
        "role" => Kind::Role,
        _ => Kind::RoleBinding,
    };
    let (namespace, name) = match rest.split_once(' ') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, rest),
    };
    let mut object = json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": kind.name(),
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
            "annotations": {AUTOUPDATE_ANNOTATION: "true"},
        },
    });
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = json!(namespace);
    }
    if matches!(kind, Kind::ClusterRole | Kind::Role) {
        object["rules"] = json!([]);
    }
    let place = namespace.map(|namespace| format!("namespaces/{namespace}/")).unwrap_or_default();
    let path = format!("/apis/{GROUP}/v1/{place}{}/{name}", kind.resource());
    BuiltIn { kind, path, object }
}

fn add(object: &mut Value, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        ["label", pair] => {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            object["metadata"]["labels"][key] = json!(value);
        }
        ["aggregate", pair] => {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let selector = json!({"matchLabels": {key: value}});
            push(&mut object["aggregationRule"]["clusterRoleSelectors"], selector);
        }
        ["allow", verbs, "at", paths] => {
            let rule = json!({"verbs": list(verbs), "nonResourceURLs": list(paths)});
            push(&mut object["rules"], rule);
        }
        ["allow", verbs, "on", resources, "in", groups, ref rest @ ..] => {
            let mut rule = json!({
                "verbs": list(verbs), "resources": list(resources), "apiGroups": list(groups),
            });
            if let ["named", names] = rest {
                rule["resourceNames"] = json!(list(names));
            }
            push(&mut object["rules"], rule);
        }
        ["to", kind, name] => {
            object["roleRef"] = json!({"apiGroup": GROUP, "kind": kind, "name": name});
        }
        ["user", name] => {
            let subject = json!({"apiGroup": GROUP, "kind": "User", "name": name});
            push(&mut object["subjects"], subject);
        }
        ["group", name] => {
            let subject = json!({"apiGroup": GROUP, "kind": "Group", "name": name});
            push(&mut object["subjects"], subject);
        }
        ["account", namespace, name] => {
            let subject = json!({"kind": "ServiceAccount", "namespace": namespace, "name": name});
            push(&mut object["subjects"], subject);
        }
        _ => debug_assert!(false, "a line of bootstrap_data.txt that nothing reads: {line}"),
    }
}

fn list(words: &str) -> Vec<&str> {
    words.split(',').map(|word| if word == "core" { "" } else { word }).collect()
}

fn push(list: &mut Value, one: Value) {
    match list {
        Value::Array(list) => list.push(one),
        absent => *absent = json!([one]),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::super::rules::Rule;
    use super::*;

    #[test]
    fn there_are_as_many_as_upstream_has() {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for object in objects() {
            *counts.entry(object.kind.name()).or_default() += 1;
        }
        let expected =
            [("ClusterRole", 69), ("ClusterRoleBinding", 50), ("Role", 7), ("RoleBinding", 7)];
        assert_eq!(counts, BTreeMap::from(expected));
    }

    #[test]
    fn an_object_is_whole() {
        let find = |path: &str| {
            let path = format!("/apis/rbac.authorization.k8s.io/v1/{path}");
            objects().find(|object| object.path == path).expect("a default").object
        };
        assert_eq!(
            find("clusterroles/edit"),
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {
                    "name": "edit",
                    "labels": {
                        "kubernetes.io/bootstrapping": "rbac-defaults",
                        "rbac.authorization.k8s.io/aggregate-to-admin": "true"
                    },
                    "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"}
                },
                "aggregationRule": {"clusterRoleSelectors": [
                    {"matchLabels": {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}}
                ]},
                "rules": []
            })
        );
        let binding =
            find("namespaces/kube-public/rolebindings/system:controller:bootstrap-signer");
        assert_eq!(
            binding["subjects"],
            json!([{
                "kind": "ServiceAccount", "name": "bootstrap-signer", "namespace": "kube-system"
            }])
        );
        let signer = find("namespaces/kube-public/roles/system:controller:bootstrap-signer");
        let named = json!({
            "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["cluster-info"],
            "verbs": ["update"]
        });
        assert_eq!(signer["rules"][1], named);
    }

    #[test]
    fn every_binding_binds_a_role_that_is_there() {
        let paths: BTreeSet<String> = objects().map(|object| object.path).collect();
        for object in objects().filter(|object| !object.object["roleRef"].is_null()) {
            let (place, _) = object.path.rsplit_once('/').expect("a path has a name");
            let (place, _) = place.rsplit_once('/').expect("a path has a resource");
            let role = match object.object["roleRef"]["kind"].as_str() {
                Some("Role") => format!("{place}/roles"),
                _ => format!("/apis/{GROUP}/v1/clusterroles"),
            };
            let name = object.object["roleRef"]["name"].as_str().expect("a role has a name");
            assert!(paths.contains(&format!("{role}/{name}")), "{}", object.path);
        }
    }

    /// What can be turned into more than it says; a role that comes to hold it is to be looked at.
    #[test]
    fn dangerous_rights_are_held_by_these_roles_alone() {
        let dangerous = |rule: &Rule| {
            let verb = |verb: &&str| rule.verbs.iter().any(|one| &**one == *verb);
            let resource = |one: &&str| rule.resources.iter().any(|other| &**other == *one);
            let writes = ["create", "update", "patch", "*"].iter().any(&verb);
            let resources = [
                "serviceaccounts/token",
                "certificatesigningrequests/approval",
                "nodes/proxy",
                "pods/ephemeralcontainers",
                "*",
            ];
            ["impersonate", "escalate", "bind"].iter().any(&verb)
                || writes && resources.iter().any(resource)
        };
        let holders: Vec<String> = objects()
            .filter(|object| Rule::list(&object.object["rules"]).iter().any(dangerous))
            .map(|object| object.object["metadata"]["name"].as_str().unwrap_or("").to_owned())
            .collect();
        assert_eq!(
            holders,
            [
                "cluster-admin",
                "system:aggregate-to-edit",
                "system:kube-controller-manager",
                "system:kubelet-api-admin",
                "system:node",
                "system:controller:certificate-controller",
                "system:controller:clusterrole-aggregation-controller",
                "system:controller:generic-garbage-collector",
            ]
        );
    }
}
