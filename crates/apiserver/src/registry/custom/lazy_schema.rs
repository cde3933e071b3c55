//! A schema that is compiled when somebody first needs it.
//!
//! Operators bring many kinds, and most of them have no object in a small cluster. Compiled, a
//! schema takes ten times the room of its text, and reading all of them took most of the time
//! until a server was ready.

use std::sync::OnceLock;

use schema::{Path, Schema};
use serde_json::{Value, json};

pub struct LazySchema {
    text: Box<str>,
    compiled: OnceLock<Schema>,
}

impl LazySchema {
    /// The schema of a version; none when there is none.
    pub fn of(version: &Value) -> Option<LazySchema> {
        let schema = &version["schema"]["openAPIV3Schema"];
        let text = schema.is_object().then(|| schema.to_string().into_boxed_str())?;
        Some(LazySchema { text, compiled: OnceLock::new() })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn get(&self) -> &Schema {
        self.compiled.get_or_init(|| {
            let value: Value = serde_json::from_str(&self.text).unwrap_or_default();
            Schema::parse(&value, &Path::root()).unwrap_or_else(|_| open())
        })
    }
}

/// What stands for a schema that cannot be read: it was stored before schemas were checked, and
/// nothing of its objects may be lost.
fn open() -> Schema {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    Schema::parse(&open, &Path::root()).expect("a constant schema is well formed")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(schema: &Value) -> Option<LazySchema> {
        LazySchema::of(&json!({"schema": {"openAPIV3Schema": schema}}))
    }

    #[test]
    fn a_schema_is_compiled_once_and_only_when_asked_for() {
        let lazy = of(&json!({"type": "object", "properties": {"a": {"type": "string"}}}));
        let lazy = lazy.expect("there is one");
        assert!(lazy.compiled.get().is_none());
        assert!(lazy.get().root.properties.contains_key("a"));
        assert!(std::ptr::eq(lazy.get(), lazy.get()));
    }

    #[test]
    fn what_cannot_be_read_loses_nothing_of_its_objects() {
        let lazy = of(&json!({"type": "object", "properties": []})).expect("there is one");
        assert!(lazy.get().root.preserves_unknown());
    }

    #[test]
    fn no_schema_is_none() {
        assert!(of(&Value::Null).is_none());
    }
}
