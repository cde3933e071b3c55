//! An object as a map of its leaves, each by the way to it: so that of two objects that differ only
//! the leaves that differ are kept.

use serde_json::{Map, Value};

use crate::value::object_mut;

/// Everything that is no object, or an empty one, by a JSON pointer.
pub fn flat(value: &Value) -> Value {
    let mut leaves = Map::new();
    if let Value::Object(fields) = value {
        for (name, value) in fields {
            walk(&mut leaves, &format!("/{}", escaped(name)), value);
        }
    }
    Value::Object(leaves)
}

fn walk(leaves: &mut Map<String, Value>, at: &str, value: &Value) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                walk(leaves, &format!("{at}/{}", escaped(name)), value);
            }
        }
        leaf => {
            leaves.insert(at.to_owned(), leaf.clone());
        }
    }
}

/// The object that has these leaves.
pub fn whole(leaves: &Value) -> Value {
    let mut made = Value::Object(Map::new());
    for (at, leaf) in leaves.as_object().into_iter().flatten() {
        let mut place = &mut made;
        for part in at.split('/').skip(1) {
            place = object_mut(place).entry(unescaped(part)).or_insert(Value::Null);
        }
        // An empty object says nothing where something is in it.
        let is_empty = leaf.as_object().is_some_and(Map::is_empty);
        if !(is_empty && place.is_object()) {
            *place = leaf.clone();
        }
    }
    made
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

fn unescaped(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn leaves_make_the_object_that_they_are_of() {
        let object = json!({"a": {"b/c~": {"d": [1, {"e": 2}]}, "f": {}}, "g": null, "": 1});
        assert_eq!(whole(&flat(&object)), object);
        assert_eq!(flat(&object)["/a/b~1c~0/d"], json!([1, {"e": 2}]));
        assert_eq!(whole(&json!({"/a": {}, "/a/b": 1})), json!({"a": {"b": 1}}));
    }
}
