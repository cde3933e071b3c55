//! Objects of the older version as ones of the newer, and back, with nothing lost.

pub mod envelope;

pub use api::dynamo::CONVERT as PATH;

use serde_json::Value;

/// Converts an object to an `apiVersion`, or says why that cannot be.
pub fn convert(object: &Value, desired: &str) -> Result<Value, String> {
    Err(format!("{} cannot be converted to {desired}", object["kind"]))
}
