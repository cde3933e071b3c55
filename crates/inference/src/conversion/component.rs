//! A component in both versions: what is plain is copied, switches become presence, the rest is
//! the pod's.

use serde_json::{Map, Value, json};

use super::Way;
use super::envelope::{self, Groups, Kept};
use super::{pod, status};
use crate::value::{object_mut, text};

/// Fields of a service that depend on each other: its type, and everything of its pods.
pub const GROUPS: Groups = &[
    &["componentType", "subComponentType"],
    &[
        "resources",
        "envs",
        "envFromSecret",
        "volumeMounts",
        "livenessProbe",
        "readinessProbe",
        "extraPodMetadata",
        "extraPodSpec",
        "frontendSidecar",
    ],
];
/// The same of a component.
pub const HUB_GROUPS: Groups = &[&["podTemplate", "frontendSidecar", "compilationCache"]];

/// Fields that both call the same.
const PLAIN: [&str; 9] = [
    "backendFramework",
    "eppConfig",
    "globalDynamoNamespace",
    "minAvailable",
    "modelRef",
    "multinode",
    "replicas",
    "runtimeVersionOverride",
    "topologyConstraint",
];
const OVERRIDE: &str = "providerOverride";
const STATUS: [[&str; 2]; 1] = [["service", "component"]];

/// A component that is an object of its own.
pub fn convert(object: &Value, way: Way) -> Value {
    let (plain, envelope) = envelope::open(object, envelope::COMPONENT);
    let mut made = plain.clone();
    let mut content = Map::new();
    let name = text(&plain["metadata"]["name"]).to_owned();
    if plain["spec"].is_object() {
        let (there, back, groups) = match way {
            Way::ToHub => {
                let mut there = alone_of(&plain["spec"], &name);
                let kept = Kept::read(&envelope["hub"], &envelope["hubLive"]);
                kept.restore(&mut there, HUB_GROUPS);
                let back = spoke_of(&there);
                (there, back, GROUPS)
            }
            Way::ToSpoke => {
                let mut there = spoke_of(&plain["spec"]);
                Kept::read(&envelope["spec"], &envelope["live"]).restore(&mut there, GROUPS);
                let back = alone_of(&there, &name);
                (there, back, HUB_GROUPS)
            }
        };
        let kept = Kept::of(&plain["spec"], &back, groups);
        let (said, live) = match way {
            Way::ToHub => ("spec", "live"),
            Way::ToSpoke => ("hub", "hubLive"),
        };
        if !kept.is_empty() {
            content.insert(said.to_owned(), Value::Object(kept.said));
            content.insert(live.to_owned(), Value::Object(kept.live));
        }
        made["spec"] = there;
    }
    envelope::close(&mut made, envelope::COMPONENT, content);
    status::convert(&plain, &mut made, way, envelope::COMPONENT_STATUS, &STATUS);
    made
}

fn alone_of(spec: &Value, object_name: &str) -> Value {
    let name = match text(&spec["serviceName"]) {
        "" => object_name,
        name => name,
    };
    let mut made = hub_of(spec, name);
    made["name"] = json!(name);
    made
}

/// A service as a component.
pub fn hub_of(service: &Value, name: &str) -> Value {
    let mut made = json!({"name": name});
    for field in PLAIN.into_iter().chain([OVERRIDE]) {
        if let Some(value) = service.get(field) {
            made[field] = value.clone();
        }
    }
    let kind = match (text(&service["componentType"]), text(&service["subComponentType"])) {
        ("worker", kind @ ("prefill" | "decode")) => kind,
        (kind, _) => kind,
    };
    if api::dynamo_component::TYPES.contains(&kind) {
        made["type"] = json!(kind);
    }
    if service["scalingAdapter"]["enabled"] == true {
        made["scalingAdapter"] = json!({});
    }
    let memory = &service["sharedMemory"];
    if memory["disabled"] == true {
        made["sharedMemorySize"] = json!("0");
    } else if let Some(size) = memory.get("size") {
        made["sharedMemorySize"] = size.clone();
    }
    for field in ["gpuMemoryService", "failover"] {
        if service[field]["enabled"] == true {
            made["experimental"][field] = switched_on(&service[field]);
        }
    }
    if let Some(checkpoint) = service.get("checkpoint") {
        made["experimental"]["checkpoint"] = checkpoint.clone();
    }
    pod::to_hub(service, &mut made);
    made
}

/// A component as a service.
pub fn spoke_of(component: &Value) -> Value {
    let mut made = json!({});
    for field in PLAIN.into_iter().chain([OVERRIDE]) {
        if let Some(value) = component.get(field) {
            made[field] = value.clone();
        }
    }
    if let Some(name) = component.get("name") {
        made["serviceName"] = name.clone();
    }
    match text(&component["type"]) {
        "" => {}
        kind @ ("prefill" | "decode") => {
            made["componentType"] = json!("worker");
            made["subComponentType"] = json!(kind);
        }
        kind => made["componentType"] = json!(kind),
    }
    if component["scalingAdapter"].is_object() {
        made["scalingAdapter"] = json!({"enabled": true});
    }
    match &component["sharedMemorySize"] {
        Value::Null => {}
        size if *size == "0" => made["sharedMemory"] = json!({"disabled": true}),
        size => made["sharedMemory"] = json!({"size": size}),
    }
    let experimental = &component["experimental"];
    for field in ["gpuMemoryService", "failover"] {
        if experimental[field].is_object() {
            made[field] = switch(&experimental[field]);
        }
    }
    if let Some(checkpoint) = experimental.get("checkpoint") {
        made["checkpoint"] = checkpoint.clone();
    }
    pod::to_spoke(component, &mut made);
    made
}

/// What is switched on, without its switch.
fn switched_on(feature: &Value) -> Value {
    let mut made = feature.clone();
    let fields = object_mut(&mut made);
    fields.remove("enabled");
    match text(&feature["mode"]) {
        "intraPod" => made["mode"] = json!("IntraPod"),
        "interPod" => made["mode"] = json!("InterPod"),
        _ => {}
    }
    made
}

fn switch(feature: &Value) -> Value {
    let mut made = feature.clone();
    made["enabled"] = json!(true);
    match text(&feature["mode"]) {
        "IntraPod" => made["mode"] = json!("intraPod"),
        "InterPod" => made["mode"] = json!("interPod"),
        _ => {}
    }
    made
}
