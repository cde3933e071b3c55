//! Patches as data. Values are written as YAML flow, which is JSON with fewer marks.

mod json;
mod merge;
mod properties;
mod strategic;

use serde_json::Value;

use super::Error;

fn value(text: &str) -> Value {
    crate::decode::yaml::parse(text.as_bytes()).unwrap_or_else(|e| panic!("{text}: {e}")).value
}

/// Compares what a patch made with what is expected: a value, or an error as `400: text`.
#[track_caller]
fn check(name: &str, found: Result<Value, Error>, expected: &str) {
    match found {
        Ok(found) => assert_eq!(found, value(expected), "{name}"),
        Err(error) => {
            let found = format!("{}: {error}", error.code());
            assert!(found.starts_with(expected), "{name}: {found} is not {expected}");
        }
    }
}
