//! Reading and changing objects that are JSON.

use serde_json::{Map, Value, json};

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The list at a place, made if there is none.
pub fn list_mut(value: &mut Value) -> &mut Vec<Value> {
    if !value.is_array() {
        *value = json!([]);
    }
    value.as_array_mut().expect("it must be a list after it was made one")
}

/// The object at a place, made if there is none.
pub fn object_mut(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("it must be an object after it was made one")
}

/// The element of a list that says this of a field.
pub fn find<'a>(items: &'a Value, field: &str, is: &str) -> Option<&'a Value> {
    list(items).iter().find(|item| item[field] == is)
}

pub fn find_mut<'a>(items: &'a mut Value, field: &str, is: &str) -> Option<&'a mut Value> {
    items.as_array_mut()?.iter_mut().find(|item| item[field] == is)
}

/// Puts an element into a list: in the place of the one that says the same of a field, or last.
pub fn upsert(items: &mut Value, field: &str, item: Value) {
    let items = list_mut(items);
    match items.iter_mut().find(|one| one[field] == item[field]) {
        Some(found) => *found = item,
        None => items.push(item),
    }
}

/// Sets every key of one map in the map that is a field of an object, which is made if need be.
pub fn overlay(object: &mut Value, field: &str, over: &Value) {
    let Some(over) = over.as_object().filter(|over| !over.is_empty()) else { return };
    let map = object_mut(&mut object[field]);
    for (key, value) in over {
        map.insert(key.clone(), value.clone());
    }
}

/// Whether an object says everything that is wanted of it. What it says besides was added by
/// others, except where only we write: there it must be gone.
pub fn says(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => wanted.iter().all(|(key, wanted)| {
            let found = found.get(key).unwrap_or(&Value::Null);
            says(found, wanted)
        }),
        (Value::Array(found), Value::Array(wanted)) => {
            found.len() == wanted.len()
                && found.iter().zip(wanted).all(|(found, wanted)| says(found, wanted))
        }
        (Value::Null, Value::Object(wanted)) => wanted.is_empty(),
        (Value::Null, Value::Array(wanted)) => wanted.is_empty(),
        // A quantity may be written as a number and is kept as one.
        (found, wanted) => found == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_added_does_not_count() {
        let found = json!({"a": {"b": 1, "x": 2}, "c": [{"name": "n", "protocol": "TCP"}]});
        assert!(says(&found, &json!({"a": {"b": 1}, "c": [{"name": "n"}], "d": {}})));
        assert!(!says(&found, &json!({"a": {"b": 2}})));
        assert!(!says(&found, &json!({"c": []})));
    }

    #[test]
    fn an_element_keeps_its_place() {
        let mut env = json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]);
        upsert(&mut env, "name", json!({"name": "A", "value": "3"}));
        upsert(&mut env, "name", json!({"name": "C", "value": "4"}));
        let names: Vec<&str> = list(&env).iter().map(|one| text(&one["name"])).collect();
        assert_eq!((names, text(&env[0]["value"])), (vec!["A", "B", "C"], "3"));
    }
}
