//! The labels, annotations and names that clients know.

pub const FINALIZER: &str = "nvidia.com/finalizer";

/// Labels.
pub const COMPONENT: &str = "nvidia.com/dynamo-component";
pub const COMPONENT_TYPE: &str = "nvidia.com/dynamo-component-type";
pub const SUB_COMPONENT_TYPE: &str = "nvidia.com/dynamo-sub-component-type";
pub const COMPONENT_CLASS: &str = "nvidia.com/dynamo-component-class";
pub const DYNAMO_NAMESPACE: &str = "nvidia.com/dynamo-namespace";
pub const GRAPH: &str = "nvidia.com/dynamo-graph-deployment-name";
pub const WORKER_HASH: &str = "nvidia.com/dynamo-worker-hash";
pub const BASE_MODEL_HASH: &str = "nvidia.com/dynamo-base-model-hash";
pub const METRICS_ENABLED: &str = "nvidia.com/metrics-enabled";
pub const SELECTOR: &str = "nvidia.com/selector";
pub const DISCOVERY_ENABLED: &str = "nvidia.com/dynamo-discovery-enabled";
pub const MANAGED_BY: &str = "nvidia.com/managed-by";
/// The value of labels that say who manages an object.
pub const OPERATOR: &str = "dynamo-operator";

/// A label of pods and services, and an annotation of graphs.
pub const DISCOVERY_BACKEND: &str = "nvidia.com/dynamo-discovery-backend";

/// Annotations that users set.
pub const ENABLE_METRICS: &str = "nvidia.com/enable-metrics";
pub const ENABLE_GROVE: &str = "nvidia.com/enable-grove";
pub const DISCOVERY_MODE: &str = "nvidia.com/dynamo-kube-discovery-mode";
pub const EXECUTOR: &str = "nvidia.com/vllm-distributed-executor-backend";
pub const NO_PULL_SECRETS: &str = "nvidia.com/disable-image-pull-secret-discovery";
pub const STRATEGY: &str = "nvidia.com/deployment-strategy";
pub const MAX_SURGE: &str = "nvidia.com/deployment-rolling-update-max-surge";
pub const MAX_UNAVAILABLE: &str = "nvidia.com/deployment-rolling-update-max-unavailable";
pub const ISTIO_INJECT: &str = "sidecar.istio.io/inject";
/// On definitions: the version of the operator that brought them.
pub const OPERATOR_VERSION: &str = "dynamo.nvidia.com/operator-version";
/// Servers that are started for a graph, with commas between: `etcd`, `nats`.
pub const INFRASTRUCTURE: &str = "inference.setpoint.dev/infrastructure";
/// Components in the order in which they start, with commas between.
pub const START_ORDER: &str = "inference.setpoint.dev/start-order";

pub const GROVE_UPDATE: &str = "nvidia.com/grove-update-strategy";
pub const KAI_QUEUE: &str = "nvidia.com/kai-scheduler-queue";
pub const VOLCANO_QUEUE: &str = "nvidia.com/volcano-queue";

/// Annotations that the operators own.
pub const PROVIDER: &str = "nvidia.com/workload-provider";
pub const ORIGIN_VERSION: &str = "nvidia.com/dynamo-operator-origin-version";
pub const CURRENT_HASH: &str = "nvidia.com/current-worker-hash-v2";
pub const RESTART_AT: &str = "nvidia.com/restartAt";
pub const BASE_MODEL: &str = "nvidia.com/dynamo-base-model";
pub const TOPOLOGY_LABEL_KEY: &str = "nvidia.com/topology-label-key";
pub const TOPOLOGY_NAME: &str = "nvidia.com/topology-cluster-topology-name";

/// On a checkpoint that was made for a graph.
pub const AUTO_CHECKPOINT: &str = "nvidia.com/dynamo-auto-checkpoint";
/// On pods that may start from a checkpoint, and from which.
pub const RESTORE_CANDIDATE: &str = "nvidia.com/dynamo-checkpoint-restore-candidate";
pub const CHECKPOINT_NAME: &str = "nvidia.com/dynamo-checkpoint-name";
pub const STARTUP_POLICY: &str = "nvidia.com/dynamo-checkpoint-startup-policy";

/// Who graphs are made by.
pub const PROVIDER_COMPONENT: &str = "component";
pub const PROVIDER_GROVE: &str = "grove";

/// The hash of workers that were made before there were hashes.
pub const LEGACY: &str = "legacy";
/// Stands for the hash where it is computed.
pub const HASH_PLACEHOLDER: &str = "worker-hash-placeholder";
/// The namespace of components that are everybody's.
pub const GLOBAL_NAMESPACE: &str = "dynamo";

pub const PLANNER_ACCOUNT: &str = "planner-serviceaccount";
pub const PICKER_ACCOUNT: &str = "epp-serviceaccount";

pub const HTTP_PORT: u16 = 8_000;
pub const SYSTEM_PORT: u16 = 9_090;
pub const PICKER_PORT: u16 = 9_002;

/// The name of the account with which pods find each other.
pub fn discovery_account(parent: &str) -> String {
    format!("{parent}-k8s-service-discovery")
}

/// The object with the script that waits for a leader.
pub fn wait_script(graph: &str) -> String {
    format!("{graph}-wait-leader-script")
}

/// The service of everything that serves a model.
pub fn model_service(model: &str) -> String {
    format!("dynamo-model-{}", crate::digest::short(model))
}

/// A name as services may have it.
pub fn service(name: &str) -> String {
    name.to_lowercase().replace('.', "-")
}
