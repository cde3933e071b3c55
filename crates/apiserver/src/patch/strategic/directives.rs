//! The parts of a strategic merge patch that are no part of the object.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::patch::Error;

pub const PATCH: &str = "$patch";
pub const DELETE_FROM: &str = "$deleteFromPrimitiveList";
pub const SET_ORDER: &str = "$setElementOrder";
const RETAIN_KEYS: &str = "$retainKeys";

/// Obeys `$retainKeys`: all else is deleted, and the patch may say nothing else.
pub fn retain_keys(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
) -> Result<(), Error> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let bad = || Error::Malformed("invalid patch format of retainKeys".to_owned());
    let keys = keys.as_array().ok_or_else(bad)?;
    let keys: BTreeSet<&str> = keys.iter().filter_map(Value::as_str).collect();
    let is_said = |key: &str, value: &Value| {
        value.is_null()
            || key.starts_with(DELETE_FROM)
            || key.starts_with(SET_ORDER)
            || keys.contains(key)
    };
    if !patch.iter().all(|(key, value)| is_said(key, value)) {
        return Err(bad());
    }
    original.retain(|key, _| keys.contains(key.as_str()));
    Ok(())
}

/// What becomes of a map with a `$patch` that has nothing to patch. Those that say `delete` go in
/// any case.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Marked {
    /// For what is added to a map.
    Dropped,
    /// For what is added to a list.
    Kept,
}

/// What a patch adds where the object has nothing: without directives and without nulls. None if
/// there is nothing to add.
pub fn strip(value: Value, marked: Marked) -> Option<Value> {
    match value {
        Value::Object(map) => match map.get(PATCH) {
            Some(directive) if marked == Marked::Dropped || directive == "delete" => None,
            _ => Some(Value::Object(strip_map(map, marked))),
        },
        Value::Array(list) => {
            // An element that is only a directive is for the list.
            let elements = list.into_iter().filter(|element| !is_marker(element));
            Some(elements.filter_map(|element| strip(element, marked)).collect())
        }
        other => Some(other),
    }
}

pub fn strip_map(map: Map<String, Value>, marked: Marked) -> Map<String, Value> {
    let said = map.into_iter().filter(|(key, value)| !is_directive(key) && !value.is_null());
    said.filter_map(|(key, value)| Some((key, strip(value, marked)?))).collect()
}

fn is_directive(key: &str) -> bool {
    key == PATCH || key == RETAIN_KEYS || key.starts_with(DELETE_FROM) || key.starts_with(SET_ORDER)
}

/// `{"$patch": "replace"}` as an element.
fn is_marker(element: &Value) -> bool {
    element.as_object().is_some_and(|map| map.len() == 1 && map.contains_key(PATCH))
}

pub fn unknown(directive: &Value, map: &Map<String, Value>) -> Error {
    let directive = directive.as_str().map_or_else(|| directive.to_string(), str::to_owned);
    let map = Value::Object(map.clone());
    Error::DoesNotApply(format!("unknown patch type: {directive} in map: {map}"))
}
