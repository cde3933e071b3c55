//! `nvidia.com` DynamoGraphDeploymentRequest: a model and what is expected of it; what serves it is
//! found out by measuring.
//!
//! Upstream: ai-dynamo/dynamo, deploy/operator/api/v1beta1/dynamographdeploymentrequest_types.go

use serde_json::{Value, json};

use crate::core_types;
use crate::dynamo::{Names, Version, age, column, in_both_versions};
use crate::dynamo_request_alpha as alpha;
use crate::schema::{boolean, choice, condition, integer, list_by, object, string, text, with};

pub const PHASES: [&str; 6] = ["Pending", "Profiling", "Ready", "Deploying", "Deployed", "Failed"];
pub const PROFILING_PHASES: [&str; 7] = [
    "Initializing",
    "SweepingPrefill",
    "SweepingDecode",
    "SelectingConfig",
    "BuildingCurves",
    "GeneratingDGD",
    "Done",
];
pub const GPUS: [&str; 17] = [
    "gb200_sxm",
    "gb10",
    "b200_sxm",
    "h200_sxm",
    "h100_sxm",
    "h100_pcie",
    "a100_sxm",
    "a100_pcie",
    "a30",
    "l40s",
    "l40",
    "l4",
    "v100_sxm",
    "v100_pcie",
    "t4",
    "mi200",
    "mi300",
];

pub fn definition() -> Value {
    let names = Names {
        kind: "DynamoGraphDeploymentRequest",
        plural: "dynamographdeploymentrequests",
        singular: "dynamographdeploymentrequest",
        short: "dgdr",
    };
    let of_end = |name: &str, field: &str| {
        column(name, "string", &format!(".status.conditions[?(@.type==\"Succeeded\")].{field}"))
    };
    let columns = json!([
        column("Model", "string", ".spec.model"),
        column("Backend", "string", ".spec.backend"),
        column("Phase", "string", ".status.phase"),
        column("Profiling", "string", ".status.profilingPhase"),
        of_end("Reason", "reason"),
        of_end("Message", "message"),
        column("DGD", "string", ".status.dgdName"),
        age("Age"),
    ]);
    let schema = object([("spec", spec()), ("status", status())]);
    let spoke = Version { schema: alpha::schema(), columns: alpha::columns() };
    in_both_versions(&names, Version { schema, columns }, spoke)
}

/// Whatever it holds.
pub(crate) fn anything() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

fn number() -> Value {
    json!({"type": "number"})
}

fn spec() -> Value {
    let backend = choice(&["auto", "sglang", "trtllm", "vllm"]);
    let mount = with(string(), json!({"default": "/opt/model-cache"}));
    object([
        ("autoApply", with(boolean(), json!({"default": true}))),
        ("backend", with(backend, json!({"default": "auto"}))),
        (
            "features",
            object([("mocker", object([("enabled", boolean())])), ("planner", anything())]),
        ),
        ("hardware", hardware()),
        ("image", string()),
        ("model!", text(1, 4_096)),
        (
            "modelCache",
            object([("pvcModelPath", string()), ("pvcMountPath", mount), ("pvcName", string())]),
        ),
        ("overrides", object([("dgd", anything()), ("profilingJob", core_types::of("JobSpec"))])),
        ("runtimeVersionOverride", version()),
        ("searchStrategy", with(choice(&["rapid", "thorough"]), json!({"default": "rapid"}))),
        (
            "sla",
            object([
                ("e2eLatency", number()),
                ("itl", number()),
                ("optimizationType", choice(&["latency", "throughput"])),
                ("ttft", number()),
            ]),
        ),
        (
            "workload",
            object([
                ("concurrency", number()),
                ("isl", with(integer(), json!({"default": 4_000}))),
                ("osl", with(integer(), json!({"default": 1_000}))),
                ("requestRate", number()),
            ]),
        ),
    ])
}

/// The version of what components run.
pub(crate) fn version() -> Value {
    let pattern = r"^(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})$";
    with(string(), json!({"pattern": pattern}))
}

fn hardware() -> Value {
    object([
        ("gpuSku", choice(&GPUS)),
        ("interconnect", string()),
        ("numGpusPerNode", integer()),
        ("rdma", boolean()),
        ("totalGpus", integer()),
        ("vramMb", number()),
    ])
}

fn status() -> Value {
    object([
        ("conditions", list_by("type", condition(), None)),
        ("deploymentInfo", object([("availableReplicas", integer()), ("replicas", integer())])),
        ("dgdName", string()),
        ("observedGeneration", json!({"type": "integer", "format": "int64"})),
        ("phase", choice(&PHASES)),
        ("profilingJobName", string()),
        ("profilingPhase", choice(&PROFILING_PHASES)),
        (
            "profilingResults",
            object([
                (
                    "pareto",
                    json!({"type": "array", "items": anything(),
                    "x-kubernetes-list-type": "atomic"}),
                ),
                ("selectedConfig", anything()),
            ]),
        ),
    ])
}
