//! Questions about FieldsV1 that need no decoding.
//!
//! Most managers of an object have nothing to do with a write. Whether that is so can be read off
//! the JSON, which is cheaper than making sets of it and JSON of the sets again.

use serde_json::{Map, Value};

use crate::{
    codec::ITSELF,
    element::{Element, FIELD},
    set::{Node, Set},
    shape::{Form, List, Map as MapKind, Shape},
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
pub fn fits<S: Shape>(shape: S, raw: &Value, live: Option<&Value>) -> bool {
    let Value::Object(raw) = raw else { return false };
    raw.iter().all(|(key, below)| {
        if key == ITSELF {
            return true;
        }
        let (child, value) = match key.strip_prefix(FIELD) {
            Some(name) => (shape.member(name), live.and_then(|live| live.get(name))),
            None => {
                let items = shape.items();
                (items, live.and_then(|live| item_of(items, live, key)))
            }
        };
        let leaf = below.as_object().is_some_and(Map::is_empty);
        let Some(child) = child else { return true };
        match (form_of(child, value), leaf) {
            (None | Some(Form::Scalar(_)), _) => true,
            (Some(Form::List(List::Atomic) | Form::Map(MapKind::Atomic)), leaf) => leaf,
            (Some(Form::List(_) | Form::Map(_)), true) => {
                key.starts_with(FIELD) && value.is_none_or(is_bare)
            }
            (Some(Form::List(_) | Form::Map(_)), false) => fits(child, below, value),
        }
    })
}

/// The item that a key such as `k:{"name":"a"}` means.
fn item_of<'v, S: Shape>(shape: Option<S>, live: &'v Value, key: &str) -> Option<&'v Value> {
    let keys: Map<String, Value> = serde_json::from_str(key.strip_prefix("k:")?).ok()?;
    let has_key = |item: &Value, name: &str, key: &Value| match item.get(name) {
        Some(value) => value == key,
        None => shape.and_then(|shape| shape.field_default(name)).as_ref() == Some(key),
    };
    let items = live.as_array()?;
    items.iter().find(|item| keys.iter().all(|(name, key)| has_key(item, name, key)))
}

fn form_of<S: Shape>(shape: S, value: Option<&Value>) -> Option<Form<'static>> {
    let atom = shape.atom();
    let form = match value {
        Some(value) => atom.form(value)?,
        None => match (atom.scalar, atom.list, atom.map) {
            (None, None, Some(map)) => Form::Map(map),
            (None, Some(list), None) => Form::List(list),
            _ => return None,
        },
    };
    Some(match form {
        Form::Scalar(scalar) => Form::Scalar(scalar),
        Form::Map(map) => Form::Map(map),
        Form::List(List::Atomic) => Form::List(List::Atomic),
        Form::List(_) => Form::List(List::Set),
    })
}

fn is_bare(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}
