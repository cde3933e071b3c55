//! JSON merge patch: what is null is deleted, objects are merged, the rest is replaced.
//!
//! Upstream: RFC 7386

use serde_json::{Map, Value};

use super::Error;

/// Patches an object.
pub fn apply(object: &mut Value, patch: Value) -> Result<(), Error> {
    match patch {
        Value::Object(patch) => {
            merge(object, patch);
            Ok(())
        }
        Value::Null => Err(Error::Malformed("Invalid JSON Patch".to_owned())),
        other => Err(Error::not_a_patch(&other, "map[string]interface {}")),
    }
}

fn merge(target: &mut Value, patch: Map<String, Value>) {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(map) = target else { return };
    for (key, value) in patch {
        match value {
            Value::Null => {
                map.remove(&key);
            }
            Value::Object(inner) => merge(map.entry(key).or_insert(Value::Null), inner),
            other => {
                map.insert(key, other);
            }
        }
    }
}
