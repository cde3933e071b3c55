//! Patches: pure functions from an object and a patch to the patched object.
//!
//! They know nothing of requests: the caller parses the patch, and puts the result through the
//! path of an update.
//!
//! Upstream: apiserver/pkg/endpoints/handlers/patch.go

pub mod json;
pub mod merge;
pub mod strategic;

use serde_json::Value;

/// Why a patch was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The patch is not one.
    #[error("{0}")]
    Malformed(String),
    /// The patch does not fit the object. Upstream keeps this text from clients and answers `the
    /// server rejected our request due to an error in our request`.
    #[error("{0}")]
    DoesNotApply(String),
    #[error("{0}")]
    TooLarge(String),
}

impl Error {
    fn not_a_patch(value: &Value, wanted: &str) -> Error {
        let given = match value {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let problem = format!("json: cannot unmarshal {given} into Go value of type {wanted}");
        Error::Malformed(format!("error decoding patch: {problem}"))
    }

    /// The HTTP status that answers it.
    pub fn code(&self) -> u16 {
        match self {
            Error::Malformed(_) => 400,
            Error::DoesNotApply(_) => 422,
            Error::TooLarge(_) => 413,
        }
    }
}

/// How deep a value is nested: 0 for a scalar.
fn depth_of(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth_of).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth_of).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
