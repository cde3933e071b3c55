//! `nvidia.com/v1alpha1` DynamoModel: a model, or an adapter of one, on the servers that serve it.
//!
//! Upstream: ai-dynamo/dynamo, deploy/operator/api/v1alpha1/dynamo_model_types.go

use serde_json::{Value, json};

use crate::dynamo::{Names, SPOKE, Version, age, column, in_one_version};
use crate::schema::{
    atomic_list, boolean, choice, condition, integer, list_by, object, string, with,
};

pub fn definition() -> Value {
    let names =
        Names { kind: "DynamoModel", plural: "dynamomodels", singular: "dynamomodel", short: "dm" };
    let columns = json!([
        column("BaseModel", "string", ".spec.baseModelName"),
        column("Type", "string", ".spec.modelType"),
        column("Ready", "integer", ".status.readyEndpoints"),
        column("Total", "integer", ".status.totalEndpoints"),
        age("Age"),
    ]);
    let schema = object([("spec", spec()), ("status", status())]);
    in_one_version(&names, SPOKE, Version { schema, columns })
}

fn spec() -> Value {
    let kind = choice(&["base", "lora", "adapter"]);
    object([
        ("baseModelName!", string()),
        ("modelName!", string()),
        ("modelType", with(kind, json!({"default": "base"}))),
        ("source", object([("uri!", string())])),
    ])
}

fn status() -> Value {
    let endpoint = object([
        ("address!", string()),
        ("loraFallbackCovered", boolean()),
        ("podName", string()),
        ("ready!", boolean()),
    ]);
    object([
        ("conditions", list_by("type", condition(), None)),
        ("endpoints", atomic_list(endpoint, None)),
        ("loraFallbackCoveredEndpoints", integer()),
        ("readyEndpoints!", integer()),
        ("totalEndpoints!", integer()),
    ])
}
