//! Reading and writing the metadata of an object that is otherwise just JSON.

use serde_json::{Map, Value, json};

/// A text; empty where there is none.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The items of a list; none where there is no list.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A text of the metadata; empty when absent.
pub fn meta<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

pub fn name(object: &Value) -> &str {
    meta(object, "name")
}

pub fn namespace(object: &Value) -> &str {
    meta(object, "namespace")
}

pub fn uid(object: &Value) -> &str {
    meta(object, "uid")
}

/// The metadata, made when missing or not an object.
pub fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = json!({});
    }
    let metadata = &mut object["metadata"];
    if !metadata.is_object() {
        *metadata = json!({});
    }
    metadata.as_object_mut().expect("it was just made an object")
}

pub fn set_meta(object: &mut Value, field: &str, value: impl Into<Value>) {
    metadata_mut(object).insert(field.to_owned(), value.into());
}

pub fn remove_meta(object: &mut Value, field: &str) -> Option<Value> {
    metadata_mut(object).remove(field)
}

pub fn is_terminating(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

pub fn finalizers(object: &Value) -> Vec<String> {
    texts(&object["metadata"]["finalizers"])
}

/// The strings of a list.
pub fn texts(list: &Value) -> Vec<String> {
    let items = list.as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Replaces a list of the metadata; an empty one is left out.
pub fn set_list(object: &mut Value, field: &str, items: Vec<String>) {
    if items.is_empty() {
        remove_meta(object, field);
    } else {
        set_meta(object, field, items);
    }
}

/// Adds one to the generation, where the kind keeps one.
pub fn raise_generation(object: &mut Value) {
    let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
    if generation > 0 {
        set_meta(object, "generation", generation + 1);
    }
}

/// The labels in key order.
pub fn labels(object: &Value) -> Vec<(&str, &str)> {
    let labels = object["metadata"]["labels"].as_object();
    let pairs = labels.into_iter().flatten();
    pairs.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect()
}
