//! `nvidia.com/v1alpha1` DynamoModel: a model, or an adapter of one, on the servers that serve it.
//!
//! Upstream: ai-dynamo/dynamo, deploy/operator/api/v1alpha1/dynamo_model_types.go

use serde_json::{Value, json};

use crate::definition::Definition;
use crate::schema::{
    atomic_list, boolean, choice, condition, integer, list_by, object, string, with,
};

pub const GROUP: &str = "nvidia.com";
pub const VERSION: &str = "v1alpha1";

pub fn definition() -> Value {
    let mut made = Definition {
        group: GROUP,
        version: VERSION,
        kind: "DynamoModel",
        plural: "dynamomodels",
        singular: "dynamomodel",
        is_namespaced: true,
        schema: object([("spec", spec()), ("status", status())]),
        has_status: true,
        columns: json!([
            {"name": "BaseModel", "type": "string", "jsonPath": ".spec.baseModelName",
                "description": "Base model name"},
            {"name": "Type", "type": "string", "jsonPath": ".spec.modelType",
                "description": "Model type"},
            {"name": "Ready", "type": "integer", "jsonPath": ".status.readyEndpoints",
                "description": "Ready endpoints"},
            {"name": "Total", "type": "integer", "jsonPath": ".status.totalEndpoints",
                "description": "Total endpoints"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ]),
    }
    .manifest();
    made["metadata"]["annotations"] = json!({"helm.sh/resource-policy": "keep"});
    made["spec"]["names"]["shortNames"] = json!(["dm"]);
    made
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
