//! Scaling adapters: only the name of one field differs.

use serde_json::Value;

use super::Way;

pub fn convert(object: &Value, way: Way) -> Value {
    let mut made = object.clone();
    let (from, to) = match way {
        Way::ToHub => ("serviceName", "componentName"),
        Way::ToSpoke => ("componentName", "serviceName"),
    };
    if let Some(Value::Object(reference)) = made.pointer_mut("/spec/dgdRef")
        && let Some(name) = reference.remove(from)
    {
        reference.insert(to.to_owned(), name);
    }
    made
}
