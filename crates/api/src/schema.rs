//! The words that schemas are written with.

use serde_json::{Map, Value, json};

pub fn string() -> Value {
    json!({"type": "string"})
}

/// A string of bounded length.
pub fn text(length_min: u64, length_max: u64) -> Value {
    let mut schema = json!({"type": "string", "maxLength": length_max});
    if length_min > 0 {
        schema["minLength"] = json!(length_min);
    }
    schema
}

pub fn choice(values: &[&str]) -> Value {
    json!({"type": "string", "enum": values})
}

pub fn boolean() -> Value {
    json!({"type": "boolean"})
}

pub fn integer() -> Value {
    json!({"type": "integer", "format": "int32"})
}

pub fn count() -> Value {
    json!({"type": "integer", "format": "int32", "minimum": 0})
}

pub fn time() -> Value {
    json!({"type": "string", "format": "date-time"})
}

/// An object of these fields; a name that ends in `!` is required.
pub fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, schema) in fields {
        let plain = name.trim_end_matches('!');
        if plain != name {
            required.push(plain.to_owned());
        }
        properties.insert(plain.to_owned(), schema);
    }
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

/// A list that an apply replaces whole.
pub fn atomic_list(items: Value, items_max: Option<u64>) -> Value {
    let mut schema = json!({"type": "array", "items": items, "x-kubernetes-list-type": "atomic"});
    limit(&mut schema, items_max);
    schema
}

/// A list whose items are told apart by a field.
pub fn list_by(key: &str, items: Value, items_max: Option<u64>) -> Value {
    let mut schema = json!({"type": "array", "items": items, "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": [key]});
    limit(&mut schema, items_max);
    schema
}

fn limit(schema: &mut Value, items_max: Option<u64>) {
    if let Some(max) = items_max {
        schema["maxItems"] = json!(max);
    }
}

/// The same with more said of it.
pub fn with(mut schema: Value, more: Value) -> Value {
    if let (Some(schema), Value::Object(more)) = (schema.as_object_mut(), more) {
        schema.extend(more);
    }
    schema
}

/// The same with one more rule in CEL.
pub fn rule(mut schema: Value, rule: &str, message: &str) -> Value {
    let rules = &mut schema["x-kubernetes-validations"];
    if !rules.is_array() {
        *rules = json!([]);
    }
    if let Some(rules) = rules.as_array_mut() {
        rules.push(json!({"rule": rule, "message": message}));
    }
    schema
}

/// The condition of an object, as the machinery of Kubernetes has it.
pub fn condition() -> Value {
    object([
        ("lastTransitionTime!", time()),
        ("message!", text(0, 32_768)),
        ("observedGeneration", json!({"type": "integer", "format": "int64", "minimum": 0})),
        (
            "reason!",
            with(text(1, 1_024), json!({"pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"})),
        ),
        ("status!", choice(&["True", "False", "Unknown"])),
        (
            "type!",
            with(
                text(0, 316),
                json!({"pattern": concat!(r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?",
                    r"(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?",
                    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$")}),
            ),
        ),
    ])
}
