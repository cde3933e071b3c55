//! Questions about FieldsV1 that need no decoding.
//!
//! Most managers of an object have nothing to do with a write. Whether that is so can be read off
//! the JSON, which is cheaper than making sets of it and JSON of the sets again.

use serde_json::{Map, Value};

use crate::{
    codec::ITSELF,
    element::{Element, FIELD},
    set::{Node, Set},
    shape::Shape,
    walk::reconcile::is_atomic,
};

/// Whether any path of the set is in FieldsV1.
pub fn touches(raw: &Value, set: &Set) -> bool {
    let Value::Object(raw) = raw else { return true };
    set.nodes().iter().any(|node| match find(raw, &node.element) {
        None => false,
        Some(found) => (node.member && is_member(found)) || touches(found, &node.below),
    })
}

/// Whether every path of the set is in FieldsV1.
pub fn contains(raw: &Value, set: &Set) -> bool {
    let Value::Object(raw) = raw else { return false };
    set.nodes().iter().all(|node| holds(find(raw, &node.element), node))
}

fn holds(found: Option<&Value>, node: &Node) -> bool {
    found.is_some_and(|found| (!node.member || is_member(found)) && contains(found, &node.below))
}

fn is_member(raw: &Value) -> bool {
    raw.as_object().is_some_and(|raw| raw.is_empty() || raw.contains_key(ITSELF))
}

fn find<'v>(raw: &'v Map<String, Value>, element: &Element) -> Option<&'v Value> {
    raw.get(&element.wire())
}

/// Whether FieldsV1 is as the schema would have it; see [`crate::walk::reconcile`].
pub fn fits<S: Shape>(shape: S, raw: &Value) -> bool {
    let Value::Object(raw) = raw else { return false };
    raw.iter().all(|(key, below)| {
        if key == ITSELF || below.as_object().is_some_and(Map::is_empty) {
            return true;
        }
        let child = match key.strip_prefix(FIELD) {
            Some(name) => shape.member(name),
            None => shape.items(),
        };
        child.is_none_or(|child| !is_atomic(child) && fits(child, below))
    })
}
