//! What one version says and the other cannot, kept beside the object as an annotation.

use serde_json::{Value, json};

pub const GRAPH: &str = "nvidia.com/dgd-spec";
pub const COMPONENT: &str = "nvidia.com/dcd-spec";

const VERSION: i64 = 1;

/// What the older version says besides, of an object of the newer.
pub fn kept(object: &Value, annotation: &str) -> Value {
    let text = object["metadata"]["annotations"][annotation].as_str().unwrap_or_default();
    let envelope: Value = serde_json::from_str(text).unwrap_or_default();
    match envelope["version"] == VERSION {
        true => envelope["spec"].clone(),
        false => Value::Null,
    }
}

/// The annotation that keeps this.
pub fn of_kept(spec: &Value) -> String {
    json!({"version": VERSION, "spec": spec}).to_string()
}
