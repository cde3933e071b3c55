//! `jobset.x-k8s.io/v1alpha2` JobSet: jobs that run, end and begin again together.
//!
//! Upstream: kubernetes-sigs/jobset, api/jobset/v1alpha2

use serde_json::{Value, json};

use crate::core_types;
use crate::definition::Definition;
use crate::schema::{
    atomic_list, boolean, choice, condition, count, integer, list_by, object, rule, string, text,
    with,
};

pub const GROUP: &str = "jobset.x-k8s.io";
pub const VERSION: &str = "v1alpha2";

const IMMUTABLE: &str = "Value is immutable";

pub fn definition() -> Value {
    let mut made = Definition {
        group: GROUP,
        version: VERSION,
        kind: "JobSet",
        plural: "jobsets",
        singular: "jobset",
        is_namespaced: true,
        schema: object([("spec", spec()), ("status", status())]),
        has_status: true,
        columns: json!([
            {"name": "TerminalState", "type": "string", "jsonPath": ".status.terminalState",
                "description": "Final state of JobSet"},
            {"name": "Restarts", "type": "string", "jsonPath": ".status.restarts",
                "description": "Number of restarts"},
            {"name": "Completed", "type": "string",
                "jsonPath": ".status.conditions[?(@.type==\"Completed\")].status"},
            {"name": "Suspended", "type": "string", "jsonPath": ".spec.suspend",
                "description": "JobSet suspended"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
                "description": "Time this JobSet was created"},
        ]),
    }
    .manifest();
    // Groups of k8s.io need somebody's approval on record.
    made["metadata"]["annotations"] = json!({"api-approved.kubernetes.io":
        "https://github.com/kubernetes-sigs/jobset"});
    made
}

/// What a JobSet asks for; runtimes of the trainer hold it too.
pub fn spec() -> Value {
    let spec = object([
        (
            "coordinator",
            object([
                ("jobIndex", integer()),
                ("podIndex", integer()),
                ("replicatedJob!", string()),
            ]),
        ),
        ("failurePolicy", immutable(failure_policy())),
        ("managedBy", string()),
        (
            "network",
            immutable(object([
                ("enableDNSHostnames", boolean()),
                ("publishNotReadyAddresses", boolean()),
                ("subdomain", string()),
            ])),
        ),
        ("replicatedJobs", list_by("name", replicated_job(), None)),
        (
            "startupPolicy",
            immutable(object([("startupPolicyOrder!", choice(&["AnyOrder", "InOrder"]))])),
        ),
        (
            "successPolicy",
            immutable(object([
                ("operator!", choice(&["All", "Any"])),
                ("targetReplicatedJobs", atomic_list(string(), None)),
            ])),
        ),
        ("suspend", boolean()),
        ("ttlSecondsAfterFinished", count()),
        ("volumeClaimPolicies", immutable(atomic_list(volume_claim_policy(), Some(50)))),
    ]);
    rule(
        spec,
        "!(has(self.startupPolicy) && self.startupPolicy.startupPolicyOrder == 'InOrder' && \
         has(self.replicatedJobs) && self.replicatedJobs.exists(x, has(x.dependsOn)))",
        "StartupPolicy and DependsOn APIs are mutually exclusive",
    )
}

fn immutable(schema: Value) -> Value {
    rule(schema, "self == oldSelf", IMMUTABLE)
}

fn replicated_job() -> Value {
    let depends_on = object([("name!", string()), ("status!", choice(&["Ready", "Complete"]))]);
    object([
        ("dependsOn", immutable(list_by("name", depends_on, Some(5)))),
        ("groupName", with(string(), json!({"default": "default"}))),
        ("name!", string()),
        ("replicas", with(count(), json!({"default": 1}))),
        (
            "template!",
            object([
                ("metadata", core_types::shape("ObjectMeta")),
                ("spec", core_types::of("JobSpec")),
            ]),
        ),
    ])
}

fn failure_policy() -> Value {
    let action = choice(&[
        "FailJobSet",
        "RestartJobSet",
        "RestartJobSetAndIgnoreMaxRestarts",
        "RestartJob",
        "RestartJobAndIgnoreMaxRestarts",
    ]);
    let failure_rule = object([
        ("action!", action),
        ("name", string()),
        ("onJobFailureMessagePatterns", atomic_list(string(), None)),
        ("onJobFailureReasons", atomic_list(string(), None)),
        ("targetReplicatedJobs", atomic_list(string(), None)),
    ]);
    let strategy = choice(&["Recreate", "BlockingRecreate", "InPlaceRestart"]);
    object([
        ("maxRestarts", integer()),
        ("restartStrategy", with(strategy, json!({"default": "Recreate"}))),
        ("rules", atomic_list(failure_rule, None)),
    ])
}

fn volume_claim_policy() -> Value {
    let template = object([
        ("metadata", core_types::shape("ObjectMeta")),
        ("spec", core_types::of("PersistentVolumeClaimSpec")),
    ]);
    let template = rule(
        template,
        "!has(self.metadata) || !has(self.metadata.__namespace__) || \
         size(self.metadata.__namespace__) == 0",
        "namespace cannot be set for VolumeClaimPolicies templates",
    );
    let when = with(choice(&["Delete", "Retain"]), json!({"default": "Delete"}));
    object([
        ("retentionPolicy", object([("whenDeleted", when)])),
        ("templates!", atomic_list(template, Some(50))),
    ])
}

fn status() -> Value {
    let job = object([
        ("active!", integer()),
        ("failed!", integer()),
        ("name!", string()),
        ("ready!", integer()),
        ("succeeded!", integer()),
        ("suspended!", integer()),
    ]);
    object([
        ("conditions", list_by("type", condition(), None)),
        ("replicatedJobsStatus", list_by("name", job, None)),
        ("restarts", integer()),
        ("restartsCountTowardsMax", integer()),
        ("terminalState", text(0, 64)),
    ])
}
