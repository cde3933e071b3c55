//! What a component of a graph is, in the version that is stored: the same within a graph and
//! alone.

use serde_json::{Value, json};

use crate::core_types;
use crate::dynamo::domain;
use crate::schema::{atomic_list, boolean, choice, integer, object, rule, string, text, with};

/// The kinds of components.
pub const TYPES: [&str; 6] = ["frontend", "worker", "prefill", "decode", "planner", "epp"];
/// A level of a topology.
pub const DOMAIN: &str = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$";

const NAME: &str = "^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$";
const VERSION: &str = r"^(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})$";
const EXECUTOR: &str = "nvidia.com/vllm-distributed-executor-backend";

/// A component in its graph.
pub fn in_graph() -> Value {
    let mut schema = alone();
    schema["properties"]["providerOverride"] = provider_override();
    schema["required"] = json!(["name"]);
    schema
}

/// A component of its own.
pub fn alone() -> Value {
    let name = with(text(1, 63), json!({"pattern": NAME}));
    let least = json!({"type": "integer", "format": "int32", "minimum": 1});
    let schema = object([
        ("compilationCache", object([("mountPath", string()), ("pvcName!", string())])),
        ("eppConfig", picker()),
        ("experimental", experimental()),
        ("frontendSidecar", string()),
        ("globalDynamoNamespace", boolean()),
        ("minAvailable", least),
        ("modelRef", model_reference()),
        ("multinode", multinode()),
        ("name", name),
        ("podTemplate", pod_template()),
        ("replicas", json!({"type": "integer", "format": "int32", "minimum": 0})),
        ("runtimeVersionOverride", with(text(0, 14), json!({"pattern": VERSION}))),
        ("scalingAdapter", json!({"type": "object"})),
        ("sharedMemorySize", core_types::shape("Quantity")),
        ("topologyConstraint", object([("packDomain", domain())])),
        ("type", choice(&TYPES)),
    ]);
    let schema = rule(
        schema,
        "!has(self.eppConfig) || (has(self.type) && self.type == 'epp')",
        "eppConfig may only be set when type is epp",
    );
    let schema = rule(
        schema,
        "!has(self.minAvailable) || (has(self.replicas) ? \
         (self.replicas == 0 || self.minAvailable <= self.replicas) : self.minAvailable <= 1)",
        "minAvailable must be less than or equal to replicas unless replicas is 0",
    );
    rule(
        schema,
        "!has(oldSelf.minAvailable) || \
         (has(self.minAvailable) && self.minAvailable == oldSelf.minAvailable)",
        "minAvailable is immutable after creation",
    )
}

pub fn model_reference() -> Value {
    object([("name!", with(string(), json!({"minLength": 1}))), ("revision", string())])
}

fn multinode() -> Value {
    let nodes = json!({"type": "integer", "format": "int32", "minimum": 2, "default": 2});
    let role = object([("providerOverride", provider_override())]);
    object([("leader", role.clone()), ("nodeCount", nodes), ("worker", role)])
}

/// A patch of what another orchestrator makes.
pub fn provider_override() -> Value {
    let value = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    object([("apiVersion", string()), ("target", string()), ("value", value)])
}

fn picker() -> Value {
    let config = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let reference = object([("key", string()), ("name", string())]);
    rule(
        object([("config", config), ("configMapRef", reference)]),
        "has(self.configMapRef) != has(self.config)",
        "exactly one of configMapRef or config must be specified",
    )
}

/// A pod of which everything may be left out but the names of its containers.
fn pod_template() -> Value {
    let mut template = core_types::of("PodTemplateSpec");
    let spec = &mut template["properties"]["spec"]["properties"];
    let filled = "has(self.image) && self.image.size() > 0";
    let sidecars = format!("self.name == 'main' || ({filled})");
    let containers = std::mem::take(&mut spec["containers"]["items"]);
    let message = "sidecar containers must specify a non-empty image";
    spec["containers"]["items"] = rule(bounded_image(containers), &sidecars, message);
    let first = std::mem::take(&mut spec["initContainers"]["items"]);
    let message = "init containers must specify a non-empty image";
    spec["initContainers"]["items"] = rule(bounded_image(first), filled, message);
    let annotation = format!("self.metadata.annotations['{EXECUTOR}']");
    let executor = format!(
        "!has(self.metadata) || !has(self.metadata.annotations) || \
         !('{EXECUTOR}' in self.metadata.annotations) || \
         {annotation}.lowerAscii() in ['mp', 'ray']"
    );
    let message = "podTemplate backend annotation must be mp or ray, case-insensitively";
    rule(template, &executor, message)
}

/// Rules over a text cost what the longest may.
fn bounded_image(container: Value) -> Value {
    let mut container = container;
    container["properties"]["image"] = with(string(), json!({"maxLength": 2_048}));
    container
}

fn experimental() -> Value {
    object([
        ("checkpoint", checkpoint()),
        ("failover", failover()),
        ("gpuMemoryService", memory_service()),
        ("grove", object([("forceScalingGroup", boolean())])),
    ])
}

fn mode() -> Value {
    with(choice(&["IntraPod", "InterPod"]), json!({"default": "IntraPod"}))
}

fn failover() -> Value {
    let shadows = json!({"type": "integer", "format": "int32", "minimum": 1, "maximum": 1,
        "default": 1});
    object([("mode", mode()), ("numShadows", shadows)])
}

fn memory_service() -> Value {
    let set = json!({"type": "array", "items": {"type": "string"},
        "x-kubernetes-list-type": "set"});
    let schema = object([
        ("deviceClassName", with(string(), json!({"default": "gpu.nvidia.com"}))),
        ("extraClientContainers", set),
        ("extraClientPods", atomic_list(string(), None)),
        ("mode", mode()),
    ]);
    let schema = rule(
        schema,
        "!has(self.extraClientContainers) || self.mode == 'IntraPod'",
        "extraClientContainers is only supported with mode=IntraPod",
    );
    let schema = rule(
        schema,
        "!has(self.extraClientPods) || self.mode == 'InterPod'",
        "extraClientPods is only supported with mode=InterPod",
    );
    rule(
        schema,
        "!has(self.extraClientPods)",
        "extraClientPods is reserved for inter-pod GMS and is not implemented yet",
    )
}

pub fn checkpoint_identity() -> Value {
    object([
        ("backendFramework", string()),
        ("dtype", string()),
        ("dynamoVersion", string()),
        ("extraParameters", core_types::shape("map:string")),
        ("maxModelLen", integer()),
        ("model", string()),
        ("pipelineParallelSize", integer()),
        ("tensorParallelSize", integer()),
    ])
}

pub fn checkpoint() -> Value {
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let job = object([("gmsClientContainers", atomic_list(string(), None)), ("podTemplate", any)]);
    let schema = object([
        ("checkpointRef", string()),
        ("deletionPolicy", with(choice(&["Delete", "Retain"]), json!({"default": "Delete"}))),
        ("enabled!", boolean()),
        ("identity", checkpoint_identity()),
        ("job", job),
        ("mode", choice(&["Auto", "Manual"])),
        (
            "startupPolicy",
            with(choice(&["Immediate", "WaitForCheckpoint"]), json!({"default": "Immediate"})),
        ),
        ("targetContainerName", with(string(), json!({"default": "main"}))),
    ]);
    rule(
        schema,
        "!has(self.job) || !has(self.checkpointRef) || self.checkpointRef.size() == 0",
        "checkpoint.job cannot be set when checkpointRef is specified",
    )
}
