//! Graphs: what they lack, and what cannot work.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::graph_update;
use super::shared::{self, Within};
use crate::field_error::FieldError;
use crate::names;
use crate::review::{Answer, Question};
use crate::settings::Settings;
use crate::value::{find, list, object_mut, text};

/// How much a GPU may draw, in watts.
const POWER_LIMIT: &str = "dynamo.nvidia.com/gpu-power-limit";

pub fn default(settings: &Settings, question: &Question<'_>) -> Answer {
    let mut object = question.new.clone();
    if question.old.is_null() {
        let annotations = object_mut(&mut object["metadata"]["annotations"]);
        let said = annotations.get(names::ENABLE_GROVE).and_then(Value::as_str);
        let provider = crate::graph::preferred(settings, said);
        annotations.insert(names::PROVIDER.to_owned(), json!(provider));
        let version = json!(settings.version);
        annotations.entry(names::ORIGIN_VERSION.to_owned()).or_insert(version);
    }
    let is_grove = provider_of(&object) == names::PROVIDER_GROVE;
    for part in object["spec"]["components"].as_array_mut().into_iter().flatten() {
        if part["replicas"].is_null() {
            part["replicas"] = json!(1);
        }
        if is_grove && part["minAvailable"].is_null() {
            part["minAvailable"] = json!(1);
        }
    }
    Answer::instead(object, question.new)
}

/// Who makes the workloads of a graph.
fn provider_of(graph: &Value) -> &str {
    text(&graph["metadata"]["annotations"][names::PROVIDER])
}

pub fn validate(settings: &Settings, question: &Question<'_>) -> Answer {
    let (new, old) = (question.new, question.old);
    let mut errors = Vec::new();
    let spec = &new["spec"];
    let parts = list(&spec["components"]);
    if parts.is_empty() {
        let detail = "must have at least one component";
        errors.push(FieldError::required("spec.components", detail));
    }
    judge_annotations(&mut errors, new);
    let within = match provider_of(new) == names::PROVIDER_GROVE {
        true => Within::Grove,
        false => Within::Graph,
    };
    if within == Within::Graph {
        judge_grove(&mut errors, spec);
    }
    judge_restart(&mut errors, spec);
    judge_power(&mut errors, new, old);
    judge_entrances(&mut errors, new);
    judge_start_order(&mut errors, new);
    for (number, part) in parts.iter().enumerate() {
        let at = format!("spec.components[{number}]");
        let before = find(&old["spec"]["components"], "name", text(&part["name"]));
        shared::judge(&mut errors, settings, &at, part, within);
        shared::judge_failover(&mut errors, &at, part, new);
        judge_name(&mut errors, &at, part, within);
        shared::judge_image(&mut errors, &at, part, before);
        if let Some(before) = before {
            shared::judge_update(&mut errors, &at, part, before);
        }
    }
    if old.is_object() {
        graph_update::judge(&mut errors, settings, question);
    }
    let mut answer = Answer::judge(&errors);
    answer.warnings = warnings(new);
    answer
}

/// What only the older version can say and nobody heeds any more.
fn warnings(new: &Value) -> Vec<String> {
    let kept = crate::conversion::envelope::kept(new, crate::conversion::envelope::GRAPH);
    let mut warnings = Vec::new();
    for (name, service) in kept["services"].as_object().into_iter().flatten() {
        for field in ["dynamoNamespace", "autoscaling"] {
            if !service[field].is_null() {
                warnings.push(format!("spec.services[{name}].{field} is deprecated"));
            }
        }
    }
    warnings
}

fn judge_annotations(errors: &mut Vec<FieldError>, new: &Value) {
    let annotations = &new["metadata"]["annotations"];
    let choices: [(&str, &[&str]); 4] = [
        (names::EXECUTOR, &["mp", "ray"]),
        ("nvidia.com/grove-update-strategy", &["RollingRecreate", "OnDelete"]),
        (names::DISCOVERY_MODE, &["pod", "container"]),
        (names::PROVIDER, &["component", "grove"]),
    ];
    for (name, allowed) in choices {
        let Some(value) = annotations[name].as_str() else { continue };
        let is_allowed = match name {
            names::EXECUTOR => allowed.contains(&value.to_ascii_lowercase().as_str()),
            _ => allowed.contains(&value),
        };
        if !is_allowed {
            let field = format!("metadata.annotations[{name}]");
            let detail = format!("must be one of: {}", allowed.join(", "));
            errors.push(FieldError::invalid(field, value, detail));
        }
    }
    if let Some(origin) = annotations[names::ORIGIN_VERSION].as_str() {
        let core = origin.trim_start_matches('v').split(['-', '+']).next().unwrap_or_default();
        let numbers: Vec<&str> = core.split('.').collect();
        let is_number = |text: &&str| !text.is_empty() && text.parse::<u64>().is_ok();
        if numbers.len() != 3 || !numbers.iter().all(is_number) {
            let field = format!("metadata.annotations[{}]", names::ORIGIN_VERSION);
            errors.push(FieldError::invalid(field, origin, "must be a semantic version"));
        }
    }
    let servers = annotations[names::INFRASTRUCTURE].as_str().unwrap_or_default();
    if let Some(unknown) = crate::graph::infrastructure::unknown(servers) {
        let field = format!("metadata.annotations[{}]", names::INFRASTRUCTURE);
        errors.push(FieldError::invalid(field, unknown, "must be one of: etcd, nats"));
    }
}

/// How much GPUs may draw is set when pods start, on GPUs that are theirs from then on.
fn judge_power(errors: &mut Vec<FieldError>, new: &Value, old: &Value) {
    let of = |graph: &Value| graph["metadata"]["annotations"][POWER_LIMIT].clone();
    let field = format!("metadata.annotations[{POWER_LIMIT}]");
    let watts = of(new);
    if old.is_object() && watts != of(old) {
        let detail = "is immutable and cannot be changed after creation";
        errors.push(FieldError::forbidden(field.as_str(), detail));
    }
    let Some(watts) = watts.as_str() else { return };
    if !watts.parse::<i64>().is_ok_and(|watts| watts > 0) {
        errors.push(FieldError::invalid(field.as_str(), watts, "must be a positive integer"));
    }
    let claims = |part: &Value| {
        part["experimental"]["gpuMemoryService"].is_object()
            || !list(&part["podTemplate"]["spec"]["resourceClaims"]).is_empty()
    };
    if list(&new["spec"]["components"]).iter().any(claims) {
        let detail = "cannot be used with dynamic resource allocation";
        errors.push(FieldError::forbidden(field, detail));
    }
}

/// Names of pods follow from those of components, and Grove leaves little room.
fn judge_name(errors: &mut Vec<FieldError>, at: &str, part: &Value, within: Within) {
    let excess = crate::graph::grove::excess(part);
    if within == Within::Grove && excess > 0 {
        let detail =
            format!("is {excess} characters too long for the names that Grove makes of it");
        errors.push(FieldError::invalid(format!("{at}.name"), text(&part["name"]), detail));
    }
}

/// What only the older version says of ways in.
fn judge_entrances(errors: &mut Vec<FieldError>, new: &Value) {
    let kept = crate::conversion::envelope::kept(new, crate::conversion::envelope::GRAPH);
    for (name, service) in kept["services"].as_object().into_iter().flatten() {
        let ingress = &service["ingress"];
        if ingress["enabled"] == true && text(&ingress["host"]).is_empty() {
            let field = format!("spec.services[{name}].ingress.host");
            errors.push(FieldError::required(field, "is required when ingress is enabled"));
        }
    }
}

/// What only another orchestrator does.
fn judge_grove(errors: &mut Vec<FieldError>, spec: &Value) {
    for field in ["priorityClassName", "topologyConstraint", "providerOverride"] {
        if !spec[field].is_null() {
            let field = format!("spec.{field}");
            errors.push(FieldError::forbidden(field, "requires the Grove pathway"));
        }
    }
}

/// A name that is misspelt would start at once, and nobody would know why.
fn judge_start_order(errors: &mut Vec<FieldError>, new: &Value) {
    let order = text(&new["metadata"]["annotations"][names::START_ORDER]);
    let at = format!("metadata.annotations[{}]", names::START_ORDER);
    let lower = |name: &str| name.trim().to_lowercase();
    let known: BTreeSet<String> =
        list(&new["spec"]["components"]).iter().map(|part| lower(text(&part["name"]))).collect();
    let mut before = BTreeSet::new();
    for name in order.split(',').filter(|name| !name.trim().is_empty()) {
        if !known.contains(&lower(name)) {
            let detail = "is not a component of the graph";
            errors.push(FieldError::invalid(at.as_str(), name.trim(), detail));
        } else if !before.insert(lower(name)) {
            errors.push(FieldError::invalid(at.as_str(), name.trim(), "must be named once"));
        }
    }
}

fn judge_restart(errors: &mut Vec<FieldError>, spec: &Value) {
    let strategy = &spec["restart"]["strategy"];
    let order: Vec<&str> = list(&strategy["order"]).iter().map(text).collect();
    if order.is_empty() {
        return;
    }
    let at = "spec.restart.strategy.order";
    if strategy["type"] == "Parallel" {
        let detail = "cannot be specified when strategy is parallel";
        errors.push(FieldError::forbidden(at, detail));
        return;
    }
    let names: BTreeSet<&str> =
        list(&spec["components"]).iter().map(|part| text(&part["name"])).collect();
    let distinct: BTreeSet<&str> = order.iter().copied().collect();
    if distinct.len() != order.len() {
        errors.push(FieldError::invalid(at, json!(order), "must be unique"));
    }
    if order.len() != names.len() {
        let detail = "must have the same length as the components";
        errors.push(FieldError::invalid(at, json!(order), detail));
    }
    for (number, name) in order.iter().enumerate() {
        if !names.contains(name) {
            let field = format!("{at}[{number}]");
            errors.push(FieldError::invalid(field, *name, "is not a component of the graph"));
        }
    }
}
