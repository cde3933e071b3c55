//! A CustomResourceDefinition of one version.

use serde_json::{Value, json};

/// What differs from kind to kind.
pub struct Definition {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub singular: &'static str,
    pub is_namespaced: bool,
    /// The schema of the whole object but for what all objects have.
    pub schema: Value,
    pub has_status: bool,
    pub columns: Value,
}

impl Definition {
    pub fn manifest(self) -> Value {
        let mut schema = self.schema;
        for (name, of) in [
            ("apiVersion", json!({"type": "string"})),
            ("kind", json!({"type": "string"})),
            ("metadata", json!({"type": "object"})),
        ] {
            schema["properties"][name] = of;
        }
        let mut version = json!({
            "name": self.version,
            "served": true,
            "storage": true,
            "schema": {"openAPIV3Schema": schema},
        });
        if self.has_status {
            version["subresources"] = json!({"status": {}});
        }
        if self.columns.as_array().is_some_and(|columns| !columns.is_empty()) {
            version["additionalPrinterColumns"] = self.columns;
        }
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{}.{}", self.plural, self.group)},
            "spec": {
                "group": self.group,
                "scope": if self.is_namespaced { "Namespaced" } else { "Cluster" },
                "names": {"kind": self.kind, "listKind": format!("{}List", self.kind),
                    "plural": self.plural, "singular": self.singular},
                "versions": [version],
            },
        })
    }
}
