//! An object without some fields, or with nothing but some fields.

use serde_json::Value;

use crate::{
    set::{Node, Set},
    shape::{Form, List, Map, Shape},
    walk::items::element_or_index,
};

/// Takes fields out of an object. What is atomic goes whole when anything of it goes; a container
/// that becomes empty goes too, except the object itself.
pub fn remove<S: Shape>(shape: S, object: Value, fields: &Set) -> Value {
    if fields.is_empty() {
        return object;
    }
    let left = without(shape, object, fields);
    left.unwrap_or_else(|| Value::Object(serde_json::Map::new()))
}

fn without<S: Shape>(shape: S, value: Value, gone: &Set) -> Option<Value> {
    match (shape.atom().form(&value), value) {
        (Some(Form::List(List::Atomic)), Value::Array(items)) if !items.is_empty() => None,
        (Some(Form::Map(Map::Atomic)), Value::Object(fields)) if !fields.is_empty() => None,
        (Some(Form::List(list)), Value::Array(items)) if !items.is_empty() => {
            let item_shape = shape.items();
            let mut left = Vec::with_capacity(items.len());
            for (at, item) in items.into_iter().enumerate() {
                let element = element_or_index(list, item_shape, at, &item);
                left.extend(kept(gone.get(&element), item_shape, item));
            }
            (!left.is_empty()).then_some(Value::Array(left))
        }
        (Some(Form::Map(_)), Value::Object(fields)) if !fields.is_empty() => {
            let left: serde_json::Map<String, Value> = fields
                .into_iter()
                .filter_map(|(name, value)| {
                    let value = kept(gone.field(&name), shape.member(&name), value)?;
                    Some((name, value))
                })
                .collect();
            (!left.is_empty()).then_some(Value::Object(left))
        }
        (_, value) => Some(value),
    }
}

fn kept<S: Shape>(gone: Option<&Node>, shape: Option<S>, value: Value) -> Option<Value> {
    match (gone, shape) {
        (None, _) => Some(value),
        (Some(node), _) if node.member => None,
        (Some(node), Some(shape)) => without(shape, value, &node.below),
        (Some(_), None) => Some(value),
    }
}

/// Nothing of an object but some fields. An item of a list keeps its keys, which tell which it
/// is.
pub fn extract<S: Shape>(shape: S, object: &Value, fields: &Set) -> Value {
    let found = only(shape, object, fields);
    found.unwrap_or_else(|| Value::Object(serde_json::Map::new()))
}

fn only<S: Shape>(shape: S, value: &Value, wanted: &Set) -> Option<Value> {
    match (shape.atom().form(value), value) {
        (Some(Form::List(list @ (List::Set | List::Keyed(_)))), Value::Array(items)) => {
            let item_shape = shape.items();
            let mut found = Vec::new();
            for (at, item) in items.iter().enumerate() {
                let element = element_or_index(list, item_shape, at, item);
                let Some(node) = wanted.get(&element) else { continue };
                found.push(item_only(list, item_shape, item, node));
            }
            (!found.is_empty()).then_some(Value::Array(found))
        }
        (Some(Form::Map(Map::Granular)), Value::Object(fields)) => {
            let mut found = serde_json::Map::new();
            for (name, value) in fields {
                let Some(node) = wanted.field(name) else { continue };
                let part = match shape.member(name) {
                    Some(shape) => part(shape, value, node),
                    None => Some(value.clone()),
                };
                found.extend(part.map(|part| (name.clone(), part)));
            }
            (!found.is_empty()).then_some(Value::Object(found))
        }
        (_, value) => Some(value.clone()),
    }
}

fn part<S: Shape>(shape: S, value: &Value, node: &Node) -> Option<Value> {
    match only(shape, value, &node.below) {
        Some(part) => Some(part),
        // The container itself is wanted and nothing in it.
        None if node.member => Some(match value {
            Value::Object(_) => Value::Object(serde_json::Map::new()),
            Value::Array(_) => Value::Array(Vec::new()),
            other => other.clone(),
        }),
        None => None,
    }
}

fn item_only<S: Shape>(list: List<'_>, shape: Option<S>, item: &Value, node: &Node) -> Value {
    let mut part = match shape {
        Some(shape) => only(shape, item, &node.below).unwrap_or_else(|| item.clone()),
        None => item.clone(),
    };
    if let (List::Keyed(keys), Value::Object(part), Value::Object(item)) = (list, &mut part, item) {
        if node.below.is_empty() {
            part.clear();
        }
        for key in keys.iter() {
            if let Some(value) = item.get(key) {
                part.entry(key).or_insert_with(|| value.clone());
            }
        }
    }
    part
}
