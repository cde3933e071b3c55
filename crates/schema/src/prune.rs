//! Removes the fields a schema does not know.
//!
//! Upstream: apiextensions-apiserver/pkg/apiserver/schema/pruning/algorithm.go

use serde_json::Value;

use crate::node::{Additional, Node, Schema};
use crate::path::Path;

/// Removes unknown fields from a resource and returns their paths, sorted: `spec.foo`,
/// `spec.list[0].bar`, in the form of strict field validation.
///
/// `apiVersion`, `kind` and `metadata` of resources are kept; [`crate::coerce`] prunes metadata.
pub fn prune(object: &mut Value, schema: &Schema) -> Vec<String> {
    let mut unknown = Vec::new();
    match is_pruned(&schema.root) {
        Pruned::Yes => fields(object, Some(&schema.root), (true, &Path::root()), &mut unknown),
        Pruned::Below => below(object, &schema.root, (true, &Path::root()), &mut unknown),
    }
    unknown.sort_unstable();
    unknown
}

/// Whether a value has no field that its schema does not know.
pub(crate) fn is_clean(value: &Value, node: &Node) -> bool {
    let mut copy = value.clone();
    let mut unknown = Vec::new();
    any(&mut copy, Some(node), &Path::root(), &mut unknown);
    unknown.is_empty()
}

enum Pruned {
    Yes,
    /// The node keeps what it does not know; what it knows is pruned.
    Below,
}

fn is_pruned(node: &Node) -> Pruned {
    if node.preserves_unknown() { Pruned::Below } else { Pruned::Yes }
}

fn is_meta(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

fn any(value: &mut Value, node: Option<&Node>, path: &Path<'_>, unknown: &mut Vec<String>) {
    let resource = node.is_some_and(|node| node.embedded_resource);
    match node.map(is_pruned) {
        Some(Pruned::Below) => {
            if let Some(node) = node {
                below(value, node, (resource, path), unknown);
            }
        }
        _ => fields(value, node, (resource, path), unknown),
    }
}

fn fields(
    value: &mut Value,
    node: Option<&Node>,
    (resource, path): (bool, &Path<'_>),
    unknown: &mut Vec<String>,
) {
    match value {
        Value::Object(map) => {
            let known = |name: &str| {
                node.is_some_and(|node| {
                    resource && is_meta(name)
                        || node.properties.contains_key(name)
                        || node.additional.is_some()
                })
            };
            // At the root these are never unknown, even to a schema that could not keep them.
            let named = |name: &str| !is_meta(name) || !path.is_root();
            map.retain(|name, _| {
                let keep = known(name);
                if !keep && named(name) {
                    unknown.push(path.field(name).to_string());
                }
                keep
            });
            for (name, child) in map.iter_mut().filter(|(name, _)| !(resource && is_meta(name))) {
                any(child, node.and_then(|node| schema_of(node, name)), &path.field(name), unknown);
            }
        }
        Value::Array(list) => {
            let items = node.and_then(|node| node.items.as_deref());
            for (index, child) in list.iter_mut().enumerate() {
                any(child, items, &path.index(index), unknown);
            }
        }
        _ => {}
    }
}

fn below(
    value: &mut Value,
    node: &Node,
    (resource, path): (bool, &Path<'_>),
    unknown: &mut Vec<String>,
) {
    match value {
        Value::Object(map) => {
            for (name, child) in map.iter_mut().filter(|(name, _)| !(resource && is_meta(name))) {
                if node.properties.contains_key(name.as_str()) || node.additional.is_some() {
                    any(child, schema_of(node, name), &path.field(name), unknown);
                }
            }
        }
        Value::Array(list) => {
            let Some(items) = &node.items else {
                return;
            };
            for (index, child) in list.iter_mut().enumerate() {
                below(child, items, (items.embedded_resource, &path.index(index)), unknown);
            }
        }
        _ => {}
    }
}

/// `additionalProperties: true` knows the names and nothing of the values.
fn schema_of<'n>(node: &'n Node, name: &str) -> Option<&'n Node> {
    match (node.properties.get(name), &node.additional) {
        (Some(child), _) => Some(child),
        (None, Some(Additional::Schema(child))) => Some(child),
        _ => None,
    }
}
