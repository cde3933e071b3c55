//! What holds of a component wherever it is.

use serde_json::Value;

use crate::backends::Framework;
use crate::component::{Type, nodes};
use crate::conversion::sidecar;
use crate::field_error::FieldError;
use crate::graph::generate::version;
use crate::names;
use crate::settings::{Gates, Settings};
use crate::value::{find, list, text};

/// Where a component is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Within {
    Graph,
    /// A graph that Grove starts.
    Grove,
    Nothing,
}

/// Adds what is wrong with a component.
pub fn judge(
    errors: &mut Vec<FieldError>,
    settings: &Settings,
    at: &str,
    part: &Value,
    within: Within,
) {
    let kind = Type::named(text(&part["type"]));
    let containers = &part["podTemplate"]["spec"]["containers"];
    let sidecar = text(&part["frontendSidecar"]);
    if !sidecar.is_empty() && find(containers, "name", sidecar).is_none() {
        let detail = "must match a container of the pod template";
        errors.push(FieldError::invalid(format!("{at}.frontendSidecar"), sidecar, detail));
    }
    let size = match &part["sharedMemorySize"] {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    };
    if size.starts_with('-') {
        let field = format!("{at}.sharedMemorySize");
        errors.push(FieldError::invalid(field, size, "must be non-negative"));
    }
    judge_experiments(errors, settings.gates, at, (part, within));
    if kind == Type::Picker {
        judge_picker(errors, settings.gates, at, part);
    }
    if within == Within::Nothing && !part["providerOverride"].is_null() {
        let detail = "may only be set for components of a graph";
        errors.push(FieldError::forbidden(format!("{at}.providerOverride"), detail));
    }
    let is_grove = within == Within::Grove;
    if part["experimental"]["grove"]["forceScalingGroup"] == true && !is_grove {
        let detail = "requires the Grove pathway";
        let field = format!("{at}.experimental.grove.forceScalingGroup");
        errors.push(FieldError::forbidden(field, detail));
    }
    if !part["minAvailable"].is_null() && !is_grove {
        let detail = "requires the Grove pathway";
        errors.push(FieldError::forbidden(format!("{at}.minAvailable"), detail));
    }
    if !part["topologyConstraint"].is_null() && within == Within::Graph {
        let detail = "requires the Grove pathway";
        errors.push(FieldError::forbidden(format!("{at}.topologyConstraint"), detail));
    }
    judge_elastic(errors, at, containers);
    judge_older(errors, at, containers);
}

/// What the older version lets users leave out, or say twice.
fn judge_older(errors: &mut Vec<FieldError>, at: &str, containers: &Value) {
    let mounts =
        find(containers, "name", "main").map_or(&[][..], |main| list(&main["volumeMounts"]));
    for (number, mount) in mounts.iter().enumerate() {
        if text(&mount["mountPath"]).is_empty() {
            let field =
                format!("{at}.podTemplate.spec.containers[main].volumeMounts[{number}].mountPath");
            let detail = "is required when useAsCompilationCache is false";
            errors.push(FieldError::required(field, detail));
        }
    }
    let is_sidecar = |one: &&Value| one["name"] == sidecar::NAME;
    if list(containers).iter().filter(is_sidecar).count() > 1 {
        let detail = "clashes with the container of the frontend sidecar";
        let field = format!("{at}.podTemplate.spec.containers");
        errors.push(FieldError::invalid(field, sidecar::NAME, detail));
    }
}

/// Two engines in one pod are told apart only where containers are what is found.
pub fn judge_failover(errors: &mut Vec<FieldError>, at: &str, part: &Value, object: &Value) {
    let failover = &part["experimental"]["failover"];
    if !failover.is_object() || failover["mode"] == "InterPod" {
        return;
    }
    let of = |holder: &Value| holder["metadata"]["annotations"][names::DISCOVERY_MODE].clone();
    if of(&part["podTemplate"]) != "container" && of(object) != "container" {
        let detail = format!("mode IntraPod requires {}=container", names::DISCOVERY_MODE);
        errors.push(FieldError::forbidden(format!("{at}.experimental.failover"), detail));
    }
}

/// Experts that come and go need a command to be put before.
fn judge_elastic(errors: &mut Vec<FieldError>, at: &str, containers: &Value) {
    let Some(main) = find(containers, "name", "main") else { return };
    let asks = list(&main["args"]).iter().any(|word| text(word).contains("--enable-elastic-ep"));
    if asks && list(&main["command"]).is_empty() {
        let field = format!("{at}.podTemplate.spec.containers[main].command");
        errors.push(FieldError::required(field, "is required with --enable-elastic-ep"));
    }
}

fn judge_experiments(
    errors: &mut Vec<FieldError>,
    gates: Gates,
    at: &str,
    (part, within): (&Value, Within),
) {
    let kind = Type::named(text(&part["type"]));
    let experimental = &part["experimental"];
    let memory = &experimental["gpuMemoryService"];
    let failover = &experimental["failover"];
    if memory.is_object() {
        let field = format!("{at}.experimental.gpuMemoryService");
        let limits = find(&part["podTemplate"]["spec"]["containers"], "name", "main");
        let gpus = limits.map_or(0, crate::backends::gpus);
        if !kind.is_worker() || gpus < 1 {
            let detail = "is only supported on worker components with at least one GPU";
            errors.push(FieldError::forbidden(field, detail));
        } else if !gates.resource_claims {
            let detail = "requires dynamic resource allocation, which is disabled";
            errors.push(FieldError::forbidden(field, detail));
        }
    }
    for (name, said) in [("gpuMemoryService", memory), ("failover", failover)] {
        if said["mode"] == "InterPod" {
            judge_between(errors, &format!("{at}.experimental.{name}.mode"), part, within);
        }
    }
    if failover.is_object() && (!memory.is_object() || memory["mode"] != failover["mode"]) {
        let field = format!("{at}.experimental.failover");
        let detail = "requires gpuMemoryService of the same mode";
        errors.push(FieldError::forbidden(field, detail));
    }
    if experimental["checkpoint"]["enabled"] == true && !gates.checkpoints {
        let field = format!("{at}.experimental.checkpoint");
        let detail = "checkpoint functionality is disabled in the operator configuration";
        errors.push(FieldError::forbidden(field, detail));
    }
}

/// Weights between pods need claims that several pods share, and an engine that knows how.
fn judge_between(errors: &mut Vec<FieldError>, field: &str, part: &Value, within: Within) {
    if within != Within::Grove {
        let detail = "mode InterPod requires the Grove pathway";
        return errors.push(FieldError::forbidden(field, detail));
    }
    let main = find(&part["podTemplate"]["spec"]["containers"], "name", "main");
    let engine = main.and_then(|main| crate::backends::detect(main).ok().flatten());
    if engine.is_some_and(|engine| engine != Framework::Vllm) {
        let detail = "mode InterPod is only supported with vllm";
        errors.push(FieldError::forbidden(field, detail));
    }
}

fn judge_picker(errors: &mut Vec<FieldError>, gates: Gates, at: &str, part: &Value) {
    if nodes(part) > 1 {
        let field = format!("{at}.multinode");
        errors.push(FieldError::forbidden(field, "EPP component cannot be multinode"));
    }
    let replicas = part["replicas"].as_i64().unwrap_or(1);
    if replicas != 1 {
        let detail = "EPP component must have exactly 1 replica";
        errors.push(FieldError::invalid(format!("{at}.replicas"), replicas, detail));
    }
    let config = &part["eppConfig"];
    if !config.is_object() {
        errors.push(FieldError::required(format!("{at}.eppConfig"), "is required"));
    }
    if config["configMapRef"].is_object() && text(&config["configMapRef"]["name"]).is_empty() {
        let field = format!("{at}.eppConfig.configMapRef.name");
        errors.push(FieldError::required(field, "is required"));
    }
    if !gates.inference_pools {
        let detail = "the InferencePool API (inference.networking.k8s.io) is not served";
        errors.push(FieldError::forbidden(format!("{at}.type"), detail));
    }
}

/// The image and the version of what runs: where neither a tag nor the user says the version,
/// nobody knows how to speak to it.
pub fn judge_image(errors: &mut Vec<FieldError>, at: &str, part: &Value, old: Option<&Value>) {
    let main = |part: &Value| {
        find(&part["podTemplate"]["spec"]["containers"], "name", "main")
            .cloned()
            .unwrap_or_default()
    };
    let image = main(part)["image"].clone();
    let is_same = old.is_some_and(|old| {
        main(old)["image"] == image
            && old["runtimeVersionOverride"] == part["runtimeVersionOverride"]
    });
    if is_same {
        return;
    }
    if text(&image).is_empty() {
        let field = format!("{at}.podTemplate.spec.containers[main].image");
        errors.push(FieldError::required(field, "is required"));
    } else if version(part).is_none() {
        let detail = "is required when the image tag is not a semantic version";
        errors.push(FieldError::required(format!("{at}.runtimeVersionOverride"), detail));
    }
}

/// Adds what a change of a component may not do.
pub fn judge_update(errors: &mut Vec<FieldError>, at: &str, new: &Value, old: &Value) {
    if (nodes(new) > 1) != (nodes(old) > 1) {
        let detail =
            "cannot change node topology between single-node and multi-node after creation";
        errors.push(FieldError::forbidden(format!("{at}.multinode"), detail));
    }
    for field in ["gpuMemoryService", "failover"] {
        let is = |part: &Value| part["experimental"][field].is_object();
        if is(new) != is(old) {
            let field = format!("{at}.experimental.{field}");
            let detail = "cannot be enabled or disabled after creation";
            errors.push(FieldError::forbidden(field, detail));
        }
    }
    let is_forced = |part: &Value| part["experimental"]["grove"]["forceScalingGroup"] == true;
    if is_forced(new) != is_forced(old) {
        let field = format!("{at}.experimental.grove.forceScalingGroup");
        let detail = "cannot be enabled or disabled after creation";
        errors.push(FieldError::forbidden(field, detail));
    }
    if new["topologyConstraint"] != old["topologyConstraint"] {
        let detail = "is immutable and cannot be changed after creation";
        errors.push(FieldError::forbidden(format!("{at}.topologyConstraint"), detail));
    }
}
