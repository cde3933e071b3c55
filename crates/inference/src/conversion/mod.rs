//! Objects of the older version as ones of the newer, and back, with nothing lost.
//!
//! Each direction is a plain function of what both versions can say. What the other version cannot
//! say is found by converting there and back, and is kept in an annotation (`envelope.rs`) together
//! with what stood in its place: when that has been changed since, the change counts.

mod adapter;
mod component;
pub mod envelope;
mod graph;
mod leaves;
mod pod;
pub mod request;
pub mod sidecar;
mod status;
#[cfg(test)]
mod tests;

use api::dynamo::{GROUP, HUB, SPOKE};
use serde_json::{Value, json};

use crate::value::text;

pub use api::dynamo::CONVERT as PATH;

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    ToHub,
    ToSpoke,
}

/// Converts an object to an `apiVersion`, or says why that cannot be.
pub fn convert(object: &Value, desired: &str) -> Result<Value, String> {
    let way = match desired.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix('/')) {
        Some(HUB) => Way::ToHub,
        Some(SPOKE) => Way::ToSpoke,
        _ => return Err(format!("nothing is converted to {desired:?}")),
    };
    let mut made = match text(&object["kind"]) {
        "DynamoGraphDeployment" => graph::convert(object, way),
        "DynamoComponentDeployment" => component::convert(object, way),
        "DynamoGraphDeploymentRequest" => request::convert(object, way),
        "DynamoGraphDeploymentScalingAdapter" => adapter::convert(object, way),
        kind => return Err(format!("nobody converts {kind:?}")),
    };
    made["apiVersion"] = json!(desired);
    Ok(made)
}
