//! The older version of graphs and components: services by name, and a container's fields beside
//! the pod that it is in.

use serde_json::{Value, json};

use crate::core_types;
use crate::dynamo::{
    BACKENDS, COMPONENTS_MAX, domain, graph_status_with, replica_status, restart, transfer_policy,
};
use crate::dynamo_component::{checkpoint, model_reference, provider_override};
use crate::schema::{
    atomic_list, boolean, choice, condition, count, list_by, object, rule, string, with,
};

const CLAIMS_MAX: u64 = 100;

pub fn graph() -> Value {
    let services = json!({"type": "object", "maxProperties": COMPONENTS_MAX,
        "additionalProperties": with(service(), json!({"nullable": true}))});
    let topology = object([("packDomain", domain()), ("topologyProfile", string())]);
    let spec = object([
        ("annotations", core_types::shape("map:string")),
        ("backendFramework", choice(&BACKENDS)),
        ("envs", list_by("name", core_types::of("EnvVar"), None)),
        ("experimental", object([("kvTransferPolicy", transfer_policy())])),
        ("labels", core_types::shape("map:string")),
        ("priorityClassName", string()),
        ("providerOverride", provider_override()),
        ("pvcs", list_by("name", claim(), Some(CLAIMS_MAX))),
        ("restart", restart()),
        ("services", services),
        ("topologyConstraint", topology),
    ]);
    let mut one = replica_status();
    one["properties"]["componentName"] = string();
    let status = graph_status_with("services", "updatedServices", one);
    object([("spec", spec), ("status", status)])
}

pub fn component() -> Value {
    let mut spec = service();
    for (name, of) in [
        ("backendFramework", choice(&BACKENDS)),
        ("dynamoComponent", string()),
        ("dynamoTag", string()),
    ] {
        spec["properties"][name] = of;
    }
    let mut one = replica_status();
    one["properties"]["componentName"] = string();
    let status = object([
        ("conditions!", atomic_list(condition(), None)),
        ("observedGeneration", json!({"type": "integer", "format": "int64"})),
        ("podSelector", core_types::shape("map:string")),
        ("service", one),
    ]);
    object([("spec", spec), ("status", status)])
}

fn claim() -> Value {
    let schema = object([
        ("create", boolean()),
        ("name!", string()),
        ("size", core_types::shape("Quantity")),
        ("storageClass", string()),
        ("volumeAccessMode", string()),
    ]);
    rule(
        schema,
        "!has(self.create) || !self.create || \
         (has(self.size) && has(self.storageClass) && has(self.volumeAccessMode))",
        "size, storageClass and volumeAccessMode are required when create is true",
    )
}

fn service() -> Value {
    let mut schema = object([
        ("annotations", core_types::shape("map:string")),
        ("autoscaling", any()),
        ("checkpoint", checkpoint()),
        ("componentType", string()),
        ("dynamoNamespace", string()),
        ("envFromSecret", string()),
        ("envs", list_by("name", core_types::of("EnvVar"), None)),
        ("eppConfig", any()),
        ("extraPodMetadata", metadata()),
        ("extraPodSpec", pod()),
        ("failover", switched(&[("numShadows", count())])),
        ("frontendSidecar", sidecar()),
        ("globalDynamoNamespace", boolean()),
        ("gpuMemoryService", memory_service()),
        ("ingress", ingress()),
        ("labels", core_types::shape("map:string")),
        ("livenessProbe", core_types::of("Probe")),
    ]);
    let more = object([
        ("minAvailable", json!({"type": "integer", "format": "int32", "minimum": 1})),
        ("modelRef", model_reference()),
        ("multinode", multinode()),
        ("providerOverride", provider_override()),
        ("readinessProbe", core_types::of("Probe")),
        ("replicas", count()),
        ("resources", resources()),
        ("runtimeVersionOverride", string()),
        ("scalingAdapter", object([("enabled", with(boolean(), json!({"default": false})))])),
        ("serviceName", string()),
        ("sharedMemory", shared_memory()),
        ("subComponentType", string()),
        ("topologyConstraint", object([("packDomain", domain())])),
        ("volumeMounts", atomic_list(mount(), None)),
    ]);
    for (name, of) in more["properties"].as_object().into_iter().flatten() {
        schema["properties"][name] = of.clone();
    }
    schema
}

fn any() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

fn metadata() -> Value {
    object([
        ("annotations", core_types::shape("map:string")),
        ("labels", core_types::shape("map:string")),
    ])
}

/// The fields of a pod, and of the container that matters.
fn pod() -> Value {
    let mut pod = core_types::of("PodSpec");
    if let Some(pod) = pod.as_object_mut() {
        pod.remove("required");
    }
    let mut main = core_types::of("Container");
    if let Some(main) = main.as_object_mut() {
        main.remove("required");
    }
    pod["properties"]["mainContainer"] = main;
    pod
}

fn switched(more: &[(&str, Value)]) -> Value {
    let mode = with(choice(&["intraPod", "interPod"]), json!({"default": "intraPod"}));
    let mut schema = object([("enabled", boolean()), ("mode", mode)]);
    for (name, of) in more {
        schema["properties"][name] = of.clone();
    }
    schema
}

fn memory_service() -> Value {
    switched(&[
        ("deviceClassName", string()),
        ("extraClientContainers", atomic_list(string(), None)),
        ("extraClientPods", atomic_list(string(), None)),
    ])
}

fn sidecar() -> Value {
    object([
        ("args", atomic_list(string(), None)),
        ("envFromSecret", string()),
        ("envs", list_by("name", core_types::of("EnvVar"), None)),
        ("image", string()),
    ])
}

fn ingress() -> Value {
    object([
        ("annotations", core_types::shape("map:string")),
        ("enabled", boolean()),
        ("host", string()),
        ("hostPrefix", string()),
        ("hostSuffix", string()),
        ("ingressControllerClassName", string()),
        ("labels", core_types::shape("map:string")),
        ("tls", object([("secretName", string())])),
        ("useVirtualService", boolean()),
        ("virtualServiceGateway", string()),
    ])
}

fn multinode() -> Value {
    let nodes = json!({"type": "integer", "format": "int32", "minimum": 2, "default": 2});
    let role = object([("providerOverride", provider_override())]);
    object([("leader", role.clone()), ("nodeCount", nodes), ("worker", role)])
}

/// Amounts as texts.
fn resources() -> Value {
    let amounts = || {
        object([
            ("cpu", string()),
            ("custom", core_types::shape("map:string")),
            ("gpu", string()),
            ("gpuType", string()),
            ("memory", string()),
        ])
    };
    let claims = list_by("name", core_types::of("ResourceClaim"), None);
    object([("claims", claims), ("limits", amounts()), ("requests", amounts())])
}

fn shared_memory() -> Value {
    rule(
        object([("disabled", boolean()), ("size", core_types::shape("Quantity"))]),
        "(has(self.disabled) && self.disabled) || has(self.size)",
        "size is required when disabled is false",
    )
}

fn mount() -> Value {
    object([("mountPoint", string()), ("name!", string()), ("useAsCompilationCache", boolean())])
}
