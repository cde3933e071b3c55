//! `leaderworkerset.x-k8s.io/v1` LeaderWorkerSet: groups of pods that live and die together, each
//! with a leader that the others can find.
//!
//! Upstream: kubernetes-sigs/lws, api/leaderworkerset/v1

use serde_json::{Value, json};

use crate::core_types;
use crate::definition::Definition;
use crate::schema::{atomic_list, choice, condition, integer, list_by, object, string, with};

pub const GROUP: &str = "leaderworkerset.x-k8s.io";
pub const VERSION: &str = "v1";

pub fn definition() -> Value {
    let mut made = Definition {
        group: GROUP,
        version: VERSION,
        kind: "LeaderWorkerSet",
        plural: "leaderworkersets",
        singular: "leaderworkerset",
        is_namespaced: true,
        schema: object([("spec", spec()), ("status", status())]),
        has_status: true,
        columns: json!([
            {"name": "Ready", "type": "integer", "jsonPath": ".status.readyReplicas"},
            {"name": "Desired", "type": "integer", "jsonPath": ".spec.replicas"},
            {"name": "Up-to-date", "type": "integer", "jsonPath": ".status.updatedReplicas"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ]),
    }
    .manifest();
    made["spec"]["names"]["shortNames"] = json!(["lws"]);
    made["spec"]["versions"][0]["subresources"]["scale"] = json!({
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.hpaPodSelector",
    });
    // Groups of k8s.io need somebody's approval on record.
    made["metadata"]["annotations"] = json!({"api-approved.kubernetes.io":
        "https://github.com/kubernetes-sigs/lws"});
    made
}

fn spec() -> Value {
    let startup = choice(&["LeaderCreated", "LeaderReady"]);
    let subdomain = choice(&["Shared", "UniquePerReplica"]);
    object([
        ("leaderWorkerTemplate!", leader_worker_template()),
        ("networkConfig", object([("subdomainPolicy!", subdomain)])),
        ("replicas", with(integer(), json!({"default": 1}))),
        ("rolloutStrategy", rollout_strategy()),
        ("startupPolicy", with(startup, json!({"default": "LeaderCreated"}))),
    ])
}

fn leader_worker_template() -> Value {
    let restart =
        choice(&["Default", "RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None"]);
    let claim = object([
        ("apiVersion", string()),
        ("kind", string()),
        ("metadata", core_types::shape("ObjectMeta")),
        ("spec", core_types::of("PersistentVolumeClaimSpec")),
        ("status", json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
    ]);
    let subgroup_type = choice(&["LeaderWorker", "LeaderExcluded"]);
    object([
        ("leaderTemplate", core_types::of("PodTemplateSpec")),
        (
            "persistentVolumeClaimRetentionPolicy",
            object([("whenDeleted", string()), ("whenScaled", string())]),
        ),
        ("restartPolicy", with(restart, json!({"default": "RecreateGroupOnPodRestart"}))),
        ("size", with(integer(), json!({"default": 1}))),
        (
            "subGroupPolicy",
            object([
                ("subGroupPolicyType", with(subgroup_type, json!({"default": "LeaderWorker"}))),
                ("subGroupSize", integer()),
            ]),
        ),
        ("volumeClaimTemplates", atomic_list(claim, None)),
        ("workerTemplate!", core_types::of("PodTemplateSpec")),
    ])
}

fn rollout_strategy() -> Value {
    let number_or_share =
        |default: i64| with(core_types::shape("IntOrString"), json!({"default": default}));
    let kind = choice(&["RollingUpdate"]);
    object([
        (
            "rollingUpdateConfiguration",
            object([
                ("maxSurge", number_or_share(0)),
                ("maxUnavailable", number_or_share(1)),
                ("partition", with(integer(), json!({"default": 0}))),
            ]),
        ),
        ("type!", with(kind, json!({"default": "RollingUpdate"}))),
    ])
}

fn status() -> Value {
    object([
        ("conditions", list_by("type", condition(), None)),
        ("hpaPodSelector", string()),
        ("observedGeneration", json!({"type": "integer", "format": "int64"})),
        ("readyReplicas", integer()),
        ("replicas", integer()),
        ("updatedReplicas", integer()),
    ])
}
