//! `nvidia.com/v1alpha1` DynamoCheckpoint: a worker that was frozen once it had started, to start
//! others from.
//!
//! Upstream: ai-dynamo/dynamo, deploy/operator/api/v1alpha1/dynamocheckpoint_types.go

use serde_json::{Value, json};

use crate::core_types;
use crate::dynamo::{BACKENDS, Names, SPOKE, Version, age, column, in_one_version};
use crate::schema::{choice, condition, integer, list_by, object, rule, string, text, time, with};

pub fn definition() -> Value {
    let names = Names {
        kind: "DynamoCheckpoint",
        plural: "dynamocheckpoints",
        singular: "dynamocheckpoint",
        short: "dckpt",
    };
    let columns = json!([
        column("Model", "string", ".spec.identity.model"),
        column("Backend", "string", ".spec.identity.backendFramework"),
        column("Phase", "string", ".status.phase"),
        column("CheckpointID", "string", ".status.checkpointID"),
        age("Age"),
    ]);
    let schema = object([("spec", spec()), ("status", status())]);
    in_one_version(&names, SPOKE, Version { schema, columns })
}

fn spec() -> Value {
    let identity = object([
        ("backendFramework!", choice(&BACKENDS)),
        ("dtype", string()),
        ("dynamoVersion", string()),
        ("extraParameters", core_types::shape("map:string")),
        ("maxModelLen", integer()),
        ("model!", text(1, 4_096)),
        ("pipelineParallelSize", with(integer(), json!({"minimum": 1}))),
        ("tensorParallelSize", with(integer(), json!({"minimum": 1}))),
    ]);
    let anything = || json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let job = object([
        ("activeDeadlineSeconds", json!({"type": "integer", "format": "int64", "default": 3_600})),
        ("podTemplateSpec!", core_types::of("PodTemplateSpec")),
        ("sharedMemory", anything()),
        ("targetContainerName", string()),
    ]);
    let identity = rule(identity, "self == oldSelf", "spec.identity is immutable after creation");
    object([("gpuMemoryService", anything()), ("identity!", identity), ("job!", job)])
}

fn status() -> Value {
    object([
        ("checkpointID", string()),
        ("conditions", list_by("type", condition(), None)),
        ("createdAt", time()),
        ("identityHash", string()),
        ("jobName", string()),
        ("message", string()),
        ("phase", choice(&["Pending", "Creating", "Ready", "Failed"])),
        ("podSnapshotName", string()),
    ])
}
