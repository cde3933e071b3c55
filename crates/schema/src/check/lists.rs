//! `x-kubernetes-list-type`, `x-kubernetes-list-map-keys` and `x-kubernetes-map-type`.

use std::collections::HashSet;

use serde_json::Value;

use crate::node::{Kind, Node};
use crate::path::Path;
use crate::violation::Violation;

pub(super) fn check(node: &Node, path: &Path<'_>, out: &mut Vec<Violation>) {
    map_type(node, path, out);
    list_type(node, path, out);
    let Some(list_type) = node.list_type.as_deref() else {
        if !node.list_map_keys.is_empty() {
            let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
            out.push(Violation::required(&path.field("x-kubernetes-list-type"), detail));
        }
        return;
    };
    if !node.list_map_keys.is_empty() && list_type != "map" {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        out.push(Violation::invalid(&path.field("x-kubernetes-list-type"), list_type, detail));
    }
    if list_type == "map" {
        map_list(node, path, out);
    }
    items_of_keyed(node, list_type, path, out);
}

fn needs_type(node: &Node, kind: &Kind, keyword: &str, path: &Path<'_>) -> Option<Violation> {
    if node.kind == *kind {
        return None;
    }
    let detail = format!("must be {} if {keyword} is specified", kind.name());
    let at = path.field("type");
    Some(match node.kind.is_set() {
        true => Violation::invalid(&at, node.kind.name(), detail),
        false => Violation::required(&at, detail),
    })
}

fn map_type(node: &Node, path: &Path<'_>, out: &mut Vec<Violation>) {
    let Some(map_type) = node.map_type.as_deref() else {
        return;
    };
    out.extend(needs_type(node, &Kind::Object, "x-kubernetes-map-type", path));
    if !matches!(map_type, "atomic" | "granular") {
        let at = path.field("x-kubernetes-map-type");
        out.push(Violation::not_supported(&at, map_type, ["atomic", "granular"]));
    }
}

fn list_type(node: &Node, path: &Path<'_>, out: &mut Vec<Violation>) {
    let Some(list_type) = node.list_type.as_deref() else {
        return;
    };
    match needs_type(node, &Kind::Array, "x-kubernetes-list-type", path) {
        Some(violation) => out.push(violation),
        None if list_type == "set" => set_items(node, path, out),
        None => {}
    }
    if !matches!(list_type, "atomic" | "set" | "map") {
        let at = path.field("x-kubernetes-list-type");
        out.push(Violation::not_supported(&at, list_type, ["atomic", "set", "map"]));
    }
}

/// Items of a set are compared as a whole, so they must be owned as a whole.
fn set_items(node: &Node, path: &Path<'_>, out: &mut Vec<Violation>) {
    let Some(items) = &node.items else {
        return;
    };
    let at = path.field("items");
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let shown = items.list_type.as_deref().map_or(Value::Null, Value::from);
    match items.kind {
        Kind::Array if !matches!(items.list_type.as_deref(), None | Some("atomic")) => {
            out.push(Violation::invalid(&at.field("x-kubernetes-list-type"), shown, detail));
        }
        Kind::Object if items.map_type.as_deref() != Some("atomic") => {
            out.push(Violation::invalid(&at.field("x-kubernetes-map-type"), shown, detail));
        }
        _ => {}
    }
}

fn map_list(node: &Node, path: &Path<'_>, out: &mut Vec<Violation>) {
    let keys_path = path.field("x-kubernetes-list-map-keys");
    if node.list_map_keys.is_empty() {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        out.push(Violation::required(&keys_path, detail));
    }
    let items_path = path.field("items");
    let Some(items) = &node.items else {
        let detail = "must have a schema if x-kubernetes-list-type is map";
        out.push(Violation::required(&items_path, detail));
        return;
    };
    if items.kind != Kind::Object {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        out.push(Violation::invalid(&items_path.field("type"), items.kind.name(), detail));
        return;
    }
    let keys: Vec<&str> = node.list_map_keys.iter().map(|key| &**key).collect();
    let mut seen = HashSet::new();
    for key in &keys {
        match items.properties.get(*key) {
            Some(child) if matches!(child.kind, Kind::Array | Kind::Object) => {
                let properties = items_path.field("properties");
                let at = properties.key(key);
                let detail =
                    "must be a scalar type if parent array's x-kubernetes-list-type is map";
                out.push(Violation::invalid(&at.field("type"), items.kind.name(), detail));
            }
            Some(_) => {}
            None => {
                let detail = "entries must all be names of item properties";
                out.push(Violation::invalid(&keys_path, keys.clone(), detail));
            }
        }
        if !seen.insert(key) {
            let detail = "must not contain duplicate entries";
            out.push(Violation::invalid(&keys_path, keys.clone(), detail));
        }
    }
}

/// An item must have its keys, whatever else it has.
fn items_of_keyed(node: &Node, list_type: &str, path: &Path<'_>, out: &mut Vec<Violation>) {
    let Some(items) = node.items.as_ref().filter(|_| matches!(list_type, "set" | "map")) else {
        return;
    };
    let at = path.field("items");
    if items.nullable {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        out.push(Violation::forbidden(&at.field("nullable"), detail));
    }
    if list_type != "map" {
        return;
    }
    let properties = at.field("properties");
    for name in &node.list_map_keys {
        let Some(child) = items.properties.get(name) else {
            continue;
        };
        let at = properties.key(name);
        if !items.required.contains(name) && child.default.is_none() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a \
                          default or be a required property";
            out.push(Violation::required(&at.field("default"), detail));
        }
        if child.nullable {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            out.push(Violation::forbidden(&at.field("nullable"), detail));
        }
    }
}
