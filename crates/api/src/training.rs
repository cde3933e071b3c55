//! `trainer.kubeflow.org/v1alpha1`: TrainJob, TrainingRuntime, ClusterTrainingRuntime,
//! OptimizationJob.
//!
//! Upstream: kubeflow/trainer, pkg/apis/trainer/v1alpha1

use serde_json::{Value, json};

use crate::core_types;
use crate::definition::Definition;
use crate::job_set;
use crate::optimization_job;
use crate::runtime_patches;
use crate::schema::{
    atomic_list, boolean, choice, condition, count, integer, list_by, object, rule, text, time,
    with,
};

pub const GROUP: &str = "trainer.kubeflow.org";
pub const VERSION: &str = "v1alpha1";
/// Who reconciles a job that does not say otherwise.
pub const CONTROLLER: &str = "trainer.kubeflow.org/trainjob-controller";

const IMMUTABLE: &str = "field is immutable";

pub fn definitions() -> [Value; 4] {
    [
        train_job(),
        runtime("TrainingRuntime"),
        runtime("ClusterTrainingRuntime"),
        optimization_job::definition(),
    ]
}

fn train_job() -> Value {
    let schema = object([("spec", spec()), ("status", status())]);
    let schema = rule(
        schema,
        "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        "metadata.name must match RFC 1035 DNS label format",
    );
    let schema = rule(
        schema,
        "size(self.metadata.name) <= 63",
        "metadata.name must be no more than 63 characters",
    );
    Definition {
        group: GROUP,
        version: VERSION,
        kind: "TrainJob",
        plural: "trainjobs",
        singular: "trainjob",
        is_namespaced: true,
        schema,
        has_status: true,
        columns: json!([
            {"name": "State", "type": "string", "jsonPath": ".status.conditions[-1:].type"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ]),
    }
    .manifest()
}

fn runtime(kind: &'static str) -> Value {
    let is_namespaced = kind == "TrainingRuntime";
    Definition {
        group: GROUP,
        version: VERSION,
        kind,
        plural: if is_namespaced { "trainingruntimes" } else { "clustertrainingruntimes" },
        singular: if is_namespaced { "trainingruntime" } else { "clustertrainingruntime" },
        is_namespaced,
        schema: object([("spec", runtime_spec())]),
        has_status: false,
        columns: json!([]),
    }
    .manifest()
}

fn immutable(schema: Value) -> Value {
    rule(schema, "self == oldSelf", IMMUTABLE)
}

pub(crate) fn spec() -> Value {
    let reference = object([
        ("apiGroup", with(text(0, 253), json!({"default": GROUP}))),
        ("kind", with(text(0, 253), json!({"default": "ClusterTrainingRuntime"}))),
        ("name!", text(1, 253)),
    ]);
    let managed_by = rule(
        with(text(0, 253), json!({"default": CONTROLLER})),
        "self in ['trainer.kubeflow.org/trainjob-controller', 'kueue.x-k8s.io/multikueue']",
        "ManagedBy must be trainer.kubeflow.org/trainjob-controller or kueue.x-k8s.io/multikueue \
         if set",
    );
    object([
        (
            "activeDeadlineSeconds",
            immutable(json!({"type": "integer", "format": "int64", "minimum": 1})),
        ),
        ("initializer", immutable(object([("dataset", source()), ("model", source())]))),
        ("managedBy", immutable(managed_by)),
        ("runtimePatches", list_by("manager", runtime_patches::patch(), Some(16))),
        ("runtimeRef!", immutable(reference)),
        ("suspend", with(boolean(), json!({"default": false}))),
        ("trainer", immutable(trainer())),
    ])
}

/// Where a dataset or a model comes from.
fn source() -> Value {
    let uri = rule(
        text(0, 2_048),
        "size(self) == 0 || self.matches('^[A-Za-z][A-Za-z0-9+.-]*://.+$')",
        "storageUri may be empty, or must be a valid URI of the form scheme://...",
    );
    object([
        ("env", environment()),
        ("secretRef", core_types::of("LocalObjectReference")),
        ("storageUri", uri),
    ])
}

fn environment() -> Value {
    list_by("name", core_types::of("EnvVar"), Some(128))
}

fn trainer() -> Value {
    let words = || atomic_list(text(0, 1_048_576), Some(128));
    let processes =
        rule(integer(), "self >= 1", "numProcPerNode must be greater than or equal to 1");
    object([
        ("args", words()),
        ("command", words()),
        ("env", environment()),
        ("image", text(0, 500)),
        ("numNodes", count()),
        ("numProcPerNode", processes),
        ("resourcesPerNode", core_types::of("ResourceRequirements")),
    ])
}

fn status() -> Value {
    let job = object([
        ("active!", count()),
        ("failed!", count()),
        ("name!", text(1, 253)),
        ("ready!", count()),
        ("succeeded!", count()),
        ("suspended!", count()),
    ]);
    let metric = object([("name!", text(1, 64)), ("value!", text(1, 64))]);
    let trainer = object([
        ("estimatedRemainingSeconds", count()),
        ("lastUpdatedTime", time()),
        ("metrics", atomic_list(metric, Some(256))),
        ("progressPercentage", with(count(), json!({"maximum": 100}))),
    ]);
    let trainer = rule(
        trainer,
        "has(self.lastUpdatedTime)",
        "lastUpdatedTime is required when trainerStatus is present",
    );
    with(
        object([
            ("conditions", list_by("type", condition(), Some(8))),
            ("jobsStatus", list_by("name", job, Some(100))),
            ("trainerStatus", trainer),
        ]),
        json!({"minProperties": 1}),
    )
}

fn runtime_spec() -> Value {
    let template =
        object([("metadata", core_types::shape("ObjectMeta")), ("spec", job_set::spec())]);
    with(
        object([
            ("mlPolicy", policy()),
            ("podGroupPolicy", pod_group_policy()),
            ("template", with(template, json!({"minProperties": 1}))),
        ]),
        json!({"minProperties": 1}),
    )
}

fn policy() -> Value {
    let processes = |of: &str| {
        rule(
            with(integer(), json!({"default": 1})),
            "self >= 1",
            &format!("NumProcPerNode in {of} must be >= 1"),
        )
    };
    let implementation = with(choice(&["OpenMPI", ""]), json!({"default": "OpenMPI"}));
    let policy = object([
        ("flux", object([("numProcPerNode", processes("fluxPolicy"))])),
        ("jax", json!({"type": "object"})),
        (
            "mpi",
            object([
                ("mpiImplementation", implementation),
                ("numProcPerNode", processes("mpiPolicy")),
                ("runLauncherAsNode", with(boolean(), json!({"default": false}))),
                ("sshAuthMountPath", with(text(0, 4_096), json!({"default": "/root/.ssh"}))),
            ]),
        ),
        ("numNodes", integer()),
        ("torch", object([("envInjection", injection())])),
        ("xgboost", json!({"type": "object"})),
    ]);
    rule(
        policy,
        "[has(self.torch), has(self.mpi), has(self.jax), has(self.xgboost), has(self.flux)]\
         .filter(x, x).size() <= 1",
        "Only one of the policy can be configured",
    )
}

fn injection() -> Value {
    let names = json!({"type": "array", "items": text(0, 63), "minItems": 1, "maxItems": 8,
        "x-kubernetes-list-type": "set"});
    let names = rule(
        names,
        "!self.exists(name, name == 'node')",
        "containerNames must not contain the trainer container node",
    );
    let target = object([("containerNames!", names), ("jobName!", text(1, 253))]);
    object([("targets", list_by("jobName", target, Some(16)))])
}

fn pod_group_policy() -> Value {
    let topology = object([
        ("highestTierAllowed", json!({"type": "integer", "default": 1})),
        ("mode", with(choice(&["hard", "soft"]), json!({"default": "hard"}))),
    ]);
    object([
        (
            "coscheduling",
            object([("scheduleTimeoutSeconds", with(integer(), json!({"default": 60})))]),
        ),
        ("volcano", object([("networkTopology", topology)])),
    ])
}

/// The name of the group and version, as objects say it.
pub fn api_version() -> String {
    format!("{GROUP}/{VERSION}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_named_after_their_kinds() {
        let names = definitions().map(|made| made["metadata"]["name"].clone());
        let expected =
            ["trainjobs", "trainingruntimes", "clustertrainingruntimes", "optimizationjobs"]
                .map(|plural| json!(format!("{plural}.{GROUP}")));
        assert_eq!(names, expected);
    }
}
