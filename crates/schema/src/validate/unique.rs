//! Lists of type set and map have no item twice.
//!
//! Upstream: apiextensions-apiserver/pkg/apiserver/schema/listtype/validation.go

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::node::Node;
use crate::path::Path;
use crate::violation::Violation;

pub(super) fn check(object: &Value, node: &Node) -> Vec<Violation> {
    let mut out = Vec::new();
    walk(object, node, &Path::root(), &mut out);
    out
}

fn walk(value: &Value, node: &Node, path: &Path<'_>, out: &mut Vec<Violation>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                if let Some(child) = node.properties.get(name.as_str()) {
                    walk(value, child, &path.field(name), out);
                } else if let Some(child) = node.additional_schema() {
                    walk(value, child, &path.key(name), out);
                }
            }
        }
        Value::Array(list) => {
            if node.is_list_type("set") {
                for index in duplicates(list) {
                    out.push(Violation::duplicate(&path.index(index), list[index].clone()));
                }
            } else if node.is_list_type("map") {
                map_keys(list, node, path, out);
            }
            if let Some(items) = &node.items {
                for (index, value) in list.iter().enumerate() {
                    walk(value, items, &path.index(index), out);
                }
            }
        }
        _ => {}
    }
}

fn map_keys(list: &[Value], node: &Node, path: &Path<'_>, out: &mut Vec<Violation>) {
    let odd = list.iter().position(|value| !value.is_object() && !value.is_null());
    if let Some(index) = odd {
        let detail = "must be an object for an array of list-type map";
        out.push(Violation::invalid(&path.index(index), list[index].clone(), detail));
        return;
    }
    let key = |value: &Value| {
        let mut key = Map::new();
        for name in &node.list_map_keys {
            if let Some(part) = value.get(&**name) {
                key.insert(name.to_string(), part.clone());
            }
        }
        Value::Object(key)
    };
    let keys: Vec<_> = list.iter().map(key).collect();
    for index in duplicates(&keys) {
        out.push(Violation::duplicate(&path.index(index), keys[index].clone()));
    }
}

/// The second place of every value that is there more than once.
fn duplicates(list: &[Value]) -> Vec<usize> {
    let mut seen: HashMap<String, u32> = HashMap::with_capacity(list.len());
    let mut found = Vec::new();
    for (index, value) in list.iter().enumerate() {
        let times = seen.entry(canonical(value)).or_default();
        *times += 1;
        if *times == 2 {
            found.push(index);
        }
    }
    found
}

/// A value as text that is the same for equal values, whatever the order of their fields.
pub(super) fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Array(list) => {
            text.push('[');
            for value in list {
                write(value, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Object(map) => {
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            text.push('{');
            for (name, value) in fields {
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                write(value, text);
                text.push(',');
            }
            text.push('}');
        }
        scalar => text.push_str(&scalar.to_string()),
    }
}
