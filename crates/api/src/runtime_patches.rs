//! What a TrainJob may change of its runtime: `spec.runtimePatches`.

use serde_json::{Value, json};

use crate::core_types;
use crate::schema::{atomic_list, list_by, object, rule, text, time, with};

pub fn patch() -> Value {
    let job = object([
        ("metadata", core_types::shape("ObjectMeta")),
        (
            "spec",
            object([(
                "template",
                object([("metadata", core_types::shape("ObjectMeta")), ("spec", pod())]),
            )]),
        ),
    ]);
    let job = object([("name!", text(1, 253)), ("template", job)]);
    let job_set = object([
        ("metadata", core_types::shape("ObjectMeta")),
        ("spec", object([("replicatedJobs", list_by("name", job, Some(100)))])),
    ]);
    object([
        ("manager!", fixed(text(1, 253))),
        ("time", time()),
        ("trainingRuntimeSpec", object([("template", job_set)])),
    ])
}

/// What may not change once it is said.
fn fixed(schema: Value) -> Value {
    rule(schema, "self == oldSelf", "field is immutable")
}

/// What places a pod may change while nothing runs; what a pod is may not.
fn pod() -> Value {
    let by_name = |of: &str, max: u64| list_by("name", core_types::of(of), Some(max));
    let seconds = with(core_types::shape("int64"), json!({"minimum": 0}));
    object([
        ("affinity", core_types::of("Affinity")),
        ("containers", fixed(list_by("name", container(), Some(64)))),
        ("imagePullSecrets", fixed(by_name("LocalObjectReference", 64))),
        ("initContainers", fixed(list_by("name", container(), Some(64)))),
        ("nodeSelector", core_types::shape("map:string")),
        ("schedulingGates", by_name("PodSchedulingGate", 16)),
        ("securityContext", fixed(core_types::of("PodSecurityContext"))),
        ("serviceAccountName", fixed(text(0, 253))),
        ("terminationGracePeriodSeconds", fixed(seconds)),
        ("tolerations", atomic_list(core_types::of("Toleration"), Some(128))),
        ("volumes", fixed(by_name("Volume", 128))),
    ])
}

fn container() -> Value {
    object([
        ("env", list_by("name", core_types::of("EnvVar"), Some(128))),
        ("name!", text(1, 253)),
        ("securityContext", core_types::of("SecurityContext")),
        ("volumeMounts", list_by("name", core_types::of("VolumeMount"), Some(128))),
    ])
}
