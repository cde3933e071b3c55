//! Fills in what is not said.
//!
//! Upstream: apiextensions-apiserver/pkg/apiserver/schema/defaulting/{algorithm,prunenulls}.go

use serde_json::Value;

use crate::node::{Node, Schema};

/// Applies defaults, top down. First, nulls that are neither allowed nor defaulted are dropped from
/// objects; a null that is not allowed and has a default is replaced by it.
///
/// The same is done to request bodies and to objects read from the store.
pub fn default(object: &mut Value, schema: &Schema) {
    drop_nulls(object, &schema.root);
    fill(object, &schema.root);
}

fn drop_nulls(value: &mut Value, node: &Node) {
    match value {
        Value::Object(map) => map.retain(|name, value| {
            let Some(child) = node.child(name) else {
                return true;
            };
            if value.is_null() && !child.nullable && child.default.is_none() {
                return false;
            }
            drop_nulls(value, child);
            true
        }),
        Value::Array(list) => {
            if let Some(items) = &node.items {
                list.iter_mut().for_each(|value| drop_nulls(value, items));
            }
        }
        _ => {}
    }
}

fn fill(value: &mut Value, node: &Node) {
    match value {
        Value::Object(map) => {
            for (name, child) in &node.properties {
                let Some(default) = &child.default else {
                    continue;
                };
                let missing = match map.get(&**name) {
                    None => true,
                    Some(value) => value.is_null() && !child.nullable,
                };
                if missing {
                    map.insert(name.to_string(), without_nulls(default, child));
                }
            }
            for (name, value) in map.iter_mut() {
                if let Some(child) = node.child(name) {
                    element(value, child, node.properties.contains_key(name.as_str()));
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = &node.items {
                list.iter_mut().for_each(|value| element(value, items, false));
            }
        }
        _ => {}
    }
}

/// An element of a list or a map: a null that is not allowed becomes the default, and stays null
/// where there is none, for validation to refuse. A named property was seen to before.
fn element(value: &mut Value, node: &Node, named: bool) {
    if value.is_null()
        && !node.nullable
        && !named
        && let Some(default) = &node.default
    {
        *value = without_nulls(default, node);
    }
    fill(value, node);
}

/// A copy of a default that defaulting once more would not change.
fn without_nulls(default: &Value, node: &Node) -> Value {
    let mut copy = default.clone();
    drop_nulls(&mut copy, node);
    copy
}
