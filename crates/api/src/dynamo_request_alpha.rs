//! `nvidia.com/v1alpha1` DynamoGraphDeploymentRequest: the older version, which says most of what
//! is wanted in a text that only the profiler reads.
//!
//! Upstream: ai-dynamo/dynamo, deploy/operator/api/v1alpha1/dynamographdeploymentrequest_types.go

use serde_json::{Value, json};

use crate::core_types;
use crate::dynamo::{age, column};
use crate::dynamo_request::{anything, version};
use crate::schema::{atomic_list, boolean, choice, condition, list_by, object, string, text, with};

pub const STATES: [&str; 7] =
    ["Initializing", "Pending", "Profiling", "Deploying", "Ready", "DeploymentDeleted", "Failed"];

pub fn columns() -> Value {
    json!([
        column("Model", "string", ".spec.model"),
        column("Backend", "string", ".status.backend"),
        column("State", "string", ".status.state"),
        column("DGD-State", "string", ".status.deployment.state"),
        age("Age"),
    ])
}

pub fn schema() -> Value {
    object([("spec", spec()), ("status", status())])
}

fn spec() -> Value {
    object([
        ("autoApply", with(boolean(), json!({"default": false}))),
        ("backend", choice(&["auto", "sglang", "trtllm", "vllm"])),
        (
            "deploymentOverrides",
            object([
                ("annotations", core_types::shape("map:string")),
                ("labels", core_types::shape("map:string")),
                ("name", string()),
                ("namespace", string()),
                ("workersImage", string()),
            ]),
        ),
        ("enableGpuDiscovery", with(boolean(), json!({"default": true}))),
        ("model!", text(1, 4_096)),
        ("profilingConfig!", profiling()),
        ("runtimeVersionOverride", version()),
        ("useMocker", with(boolean(), json!({"default": false}))),
    ])
}

fn profiling() -> Value {
    let key = with(string(), json!({"default": "disagg.yaml"}));
    let reference = object([("key", key), ("name!", with(string(), json!({"minLength": 1})))]);
    object([
        ("config", anything()),
        ("configMapRef", reference),
        ("nodeSelector", core_types::shape("map:string")),
        ("outputPVC", string()),
        ("profilerImage!", with(string(), json!({"minLength": 1}))),
        ("resources", core_types::of("ResourceRequirements")),
        ("tolerations", atomic_list(core_types::of("Toleration"), None)),
    ])
}

fn status() -> Value {
    object([
        ("backend", string()),
        ("conditions", list_by("type", condition(), None)),
        (
            "deployment",
            object([
                ("created", boolean()),
                ("name", string()),
                ("namespace", string()),
                ("state", string()),
            ]),
        ),
        ("generatedDeployment", anything()),
        ("observedGeneration", json!({"type": "integer", "format": "int64"})),
        ("profilingResults", string()),
        ("state", with(choice(&STATES), json!({"default": "Initializing"}))),
    ])
}
