//! Whether a rule of a webhook is about a write.
//!
//! Upstream: apiserver/pkg/admission/plugin/webhook/predicates/rules/rules.go

use serde_json::Value;

use crate::object;

/// What a rule names; `*` stands for all.
#[derive(Debug)]
pub struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    /// Those of the objects; empty for all.
    names: Vec<String>,
    scope: Scope,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Any,
    Cluster,
    Namespaced,
}

/// A write, as far as rules look at it.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    pub operation: &'a str,
    pub group: &'a str,
    pub version: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub name: &'a str,
    pub is_namespaced: bool,
}

impl Rule {
    pub fn of(rule: &Value) -> Rule {
        Rule {
            operations: object::texts(&rule["operations"]),
            groups: object::texts(&rule["apiGroups"]),
            versions: object::texts(&rule["apiVersions"]),
            resources: object::texts(&rule["resources"]),
            names: object::texts(&rule["resourceNames"]),
            scope: match rule["scope"].as_str() {
                Some("Cluster") => Scope::Cluster,
                Some("Namespaced") => Scope::Namespaced,
                _ => Scope::Any,
            },
        }
    }

    pub fn matches(&self, write: &Write<'_>) -> bool {
        let scope = match self.scope {
            Scope::Any => true,
            Scope::Cluster => !write.is_namespaced,
            Scope::Namespaced => write.is_namespaced,
        };
        scope
            && names(&self.operations, write.operation)
            && names(&self.groups, write.group)
            && names(&self.versions, write.version)
            && self.resources.iter().any(|one| is_of(one, write))
            && (self.names.is_empty() || self.names.iter().any(|one| one == write.name))
    }
}

fn names(list: &[String], wanted: &str) -> bool {
    list.iter().any(|one| one == "*" || one == wanted)
}

/// `pods`, `pods/status`, `pods/*`, `*/scale`, `*` and `*/*`.
fn is_of(pattern: &str, write: &Write<'_>) -> bool {
    let (resource, subresource) = pattern.split_once('/').unwrap_or((pattern, ""));
    (resource == "*" || resource == write.resource)
        && (subresource == "*" || subresource == write.subresource)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_name_resources_and_subresources() {
        let cases = [
            ("pods", "pods", "", true),
            ("pods", "pods", "status", false),
            ("pods/status", "pods", "status", true),
            ("pods/status", "pods", "", false),
            ("pods/*", "pods", "", true),
            ("pods/*", "pods", "status", true),
            ("pods/*", "nodes", "", false),
            ("*", "nodes", "", true),
            ("*", "nodes", "status", false),
            ("*/*", "nodes", "", true),
            ("*/*", "nodes", "status", true),
            ("*/scale", "deployments", "scale", true),
            ("*/scale", "deployments", "", false),
        ];
        for (pattern, resource, subresource, expected) in cases {
            let rule = Rule::of(&json!({"operations": ["*"], "apiGroups": ["*"],
                "apiVersions": ["*"], "resources": [pattern]}));
            let write = Write {
                operation: "CREATE",
                group: "",
                version: "v1",
                resource,
                subresource,
                name: "a",
                is_namespaced: true,
            };
            assert_eq!(rule.matches(&write), expected, "{pattern} {resource}/{subresource}");
        }
    }

    #[test]
    fn rules_name_operations_groups_versions_and_scopes() {
        let good = json!({"operations": ["CREATE", "UPDATE"], "apiGroups": ["apps"],
            "apiVersions": ["v1"], "resources": ["deployments"], "scope": "Namespaced"});
        let write = Write {
            operation: "UPDATE",
            group: "apps",
            version: "v1",
            resource: "deployments",
            subresource: "",
            name: "a",
            is_namespaced: true,
        };
        assert!(Rule::of(&good).matches(&write));
        let mut named = good.clone();
        named["resourceNames"] = json!(["a", "b"]);
        assert!(Rule::of(&named).matches(&write));
        for (field, value) in [
            ("operations", json!(["DELETE"])),
            ("apiGroups", json!([""])),
            ("apiVersions", json!(["v1beta1"])),
            ("resources", json!(["pods"])),
            ("scope", json!("Cluster")),
            ("resourceNames", json!(["b"])),
        ] {
            let mut other = good.clone();
            other[field] = value;
            assert!(!Rule::of(&other).matches(&write), "{field}");
        }
    }
}
