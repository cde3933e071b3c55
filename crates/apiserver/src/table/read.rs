//! Reading objects for their rows: what is missing or of a wrong type is empty, never an error.

use serde_json::Value;

use crate::age;
use crate::selectors::labels::Selector;

static NULL: Value = Value::Null;

/// The value at a path; null where there is none.
pub fn at<'a>(object: &'a Value, path: &[&str]) -> &'a Value {
    let found = path.iter().try_fold(object, |value, key| value.get(*key));
    found.unwrap_or(&NULL)
}

/// The string at a path; empty where there is none.
pub fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    at(object, path).as_str().unwrap_or_default()
}

/// The string at a path, or `instead` where it is absent or empty.
pub fn text_or<'a>(object: &'a Value, path: &[&str], instead: &'a str) -> &'a str {
    match text(object, path) {
        "" => instead,
        found => found,
    }
}

pub fn integer(object: &Value, path: &[&str]) -> i64 {
    at(object, path).as_i64().unwrap_or_default()
}

pub fn is_true(object: &Value, path: &[&str]) -> bool {
    at(object, path).as_bool().unwrap_or_default()
}

pub fn list<'a>(object: &'a Value, path: &[&str]) -> &'a [Value] {
    at(object, path).as_array().map(Vec::as_slice).unwrap_or_default()
}

/// How many entries an object or a list has.
pub fn count(object: &Value, path: &[&str]) -> usize {
    match at(object, path) {
        Value::Object(map) => map.len(),
        Value::Array(items) => items.len(),
        _ => 0,
    }
}

/// A string, or a number as one: quantities and numbers-or-strings.
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

pub fn name(object: &Value) -> &str {
    text(object, &["metadata", "name"])
}

/// Time since creation.
pub fn age(object: &Value, now: i64) -> String {
    since(object, &["metadata", "creationTimestamp"], now)
}

/// Time since the timestamp at a path.
pub fn since(object: &Value, path: &[&str], now: i64) -> String {
    age::since(at(object, path).as_str(), now)
}

pub fn is_deleted(object: &Value) -> bool {
    !at(object, &["metadata", "deletionTimestamp"]).is_null()
}

/// The condition of a type.
pub fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    list(object, &["status", "conditions"]).iter().find(|one| text(one, &["type"]) == type_)
}

pub fn condition_is_true(object: &Value, type_: &str) -> bool {
    condition(object, type_).is_some_and(|one| text(one, &["status"]) == "True")
}

/// Names and images of containers, each with commas between.
pub fn containers(pod_spec: &Value) -> (String, String) {
    let containers = list(pod_spec, &["containers"]);
    (
        join(containers.iter().map(|one| text(one, &["name"])), ","),
        join(containers.iter().map(|one| text(one, &["image"])), ","),
    )
}

/// `a=b,c=d`, or `<none>`.
pub fn labels(map: &Value) -> String {
    match equalities(map) {
        empty if empty.is_empty() => "<none>".to_owned(),
        some => some,
    }
}

/// A LabelSelector as text, or `<none>`.
pub fn selector(selector: &Value) -> String {
    match bare_selector(selector) {
        empty if empty.is_empty() => "<none>".to_owned(),
        some => some,
    }
}

/// A LabelSelector as text; empty where it is absent or selects everything.
pub fn bare_selector(selector: &Value) -> String {
    if list(selector, &["matchExpressions"]).is_empty() {
        return equalities(at(selector, &["matchLabels"]));
    }
    match Selector::from_object(Some(selector), "") {
        Ok(selector) => selector.to_string(),
        Err(_) => "<error>".to_owned(),
    }
}

fn equalities(map: &Value) -> String {
    let mut line = String::new();
    for (key, value) in map.as_object().into_iter().flatten() {
        if !line.is_empty() {
            line.push(',');
        }
        line.push_str(key);
        line.push('=');
        line.push_str(value.as_str().unwrap_or_default());
    }
    line
}

pub fn join<'a>(parts: impl Iterator<Item = &'a str>, separator: &str) -> String {
    let mut line = String::new();
    for (index, part) in parts.enumerate() {
        if index > 0 {
            line.push_str(separator);
        }
        line.push_str(part);
    }
    line
}

/// The first few, and how many more there are.
pub fn first_few(shown: &[String], total: usize) -> String {
    let line = join(shown.iter().map(String::as_str), ",");
    match total.saturating_sub(shown.len()) {
        0 => line,
        more => format!("{line} + {more} more..."),
    }
}
