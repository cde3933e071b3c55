//! Small edits of JSON objects.
//!
//! All are total: where a value has another shape than expected, nothing happens.

use serde_json::{Map, Value, json};

/// What is read where nothing is.
pub static NULL: Value = Value::Null;

/// The value at a path of names; null when there is none.
pub fn at<'a>(value: &'a Value, path: &[&str]) -> &'a Value {
    path.iter().try_fold(value, |value, name| value.get(name)).unwrap_or(&NULL)
}

/// The text at a path of names, or empty.
pub fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    at(value, path).as_str().unwrap_or("")
}

pub fn int(value: &Value, path: &[&str]) -> Option<i64> {
    at(value, path).as_i64()
}

pub fn list<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path).as_array().map_or(&[], Vec::as_slice)
}

pub fn map<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Map<String, Value>> {
    at(value, path).as_object()
}

pub fn has(value: &Value, path: &[&str]) -> bool {
    !at(value, path).is_null()
}

/// Null, absent and empty are the same, as in Go.
pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// Equal, where empty and absent are the same.
pub fn same(one: &Value, other: &Value) -> bool {
    one == other || (is_empty(one) && is_empty(other))
}

/// The object of that name, made when absent or null.
pub fn object<'a>(value: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    let map = value.as_object_mut()?;
    let child = map.entry(name).or_insert(Value::Null);
    if child.is_null() {
        *child = json!({});
    }
    Some(child)
}

/// The value at a path, if it is there.
pub fn at_mut<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, name| value.get_mut(name))
}

/// The elements of a list at a path, to be changed.
pub fn each_mut<'a>(value: &'a mut Value, path: &[&str]) -> impl Iterator<Item = &'a mut Value> {
    at_mut(value, path).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Sets a field that is absent, null or an empty text.
pub fn set_default(value: &mut Value, name: &str, default: impl Into<Value>) {
    let Some(map) = value.as_object_mut() else { return };
    match map.get(name) {
        None | Some(Value::Null) => {}
        Some(Value::String(text)) if text.is_empty() => {}
        Some(_) => return,
    }
    map.insert(name.to_owned(), default.into());
}

/// Like [`set_default`], and also for an explicit zero.
pub fn set_default_nonzero(value: &mut Value, name: &str, default: i64) {
    if value.get(name).and_then(Value::as_i64) == Some(0) {
        remove(value, name);
    }
    set_default(value, name, default);
}

pub fn set(value: &mut Value, name: &str, to: impl Into<Value>) {
    if let Some(map) = value.as_object_mut() {
        map.insert(name.to_owned(), to.into());
    }
}

pub fn remove(value: &mut Value, name: &str) -> Option<Value> {
    value.as_object_mut()?.remove(name)
}

/// Makes the field of that name what it is in the other object, absent included.
pub fn copy_field(value: &mut Value, from: &Value, name: &str) {
    match from.get(name) {
        Some(old) => set(value, name, old.clone()),
        None => {
            remove(value, name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_do_nothing_to_what_is_not_an_object() {
        let mut value = json!(1);
        set(&mut value, "a", 1);
        set_default(&mut value, "a", 1);
        remove(&mut value, "a");
        assert_eq!(object(&mut value, "a"), None);
        assert_eq!(value, json!(1));
    }

    #[test]
    fn empty_and_absent_are_the_same() {
        assert!(same(&json!({}), &Value::Null));
        assert!(same(&json!([]), &Value::Null));
        assert!(!same(&json!(0), &Value::Null));
    }
}
