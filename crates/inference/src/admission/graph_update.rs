//! What a change of a graph may not do.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::field_error::FieldError;
use crate::names;
use crate::review::Question;
use crate::settings::Settings;
use crate::value::{find, list, text};

const IMMUTABLE: &str = "is immutable and cannot be changed after creation";

pub fn judge(errors: &mut Vec<FieldError>, settings: &Settings, question: &Question<'_>) {
    let (new, old) = (&question.new["spec"], &question.old["spec"]);
    judge_components(errors, new, old);
    for field in ["backendFramework", "topologyConstraint"] {
        if new[field] != old[field] {
            let path = format!("spec.{field}");
            errors.push(FieldError::invalid(path, new[field].clone(), IMMUTABLE));
        }
    }
    let policy = |spec: &Value| spec["experimental"]["kvTransferPolicy"].clone();
    if policy(new) != policy(old) {
        let path = "spec.experimental.kvTransferPolicy";
        errors.push(FieldError::invalid(path, policy(new), IMMUTABLE));
    }
    judge_provider(errors, settings, question);
    judge_replicas(errors, settings, question);
    let phase = text(&question.old["status"]["rollingUpdate"]["phase"]);
    if new["restart"]["id"] != old["restart"]["id"] && matches!(phase, "Pending" | "InProgress") {
        let detail = format!("cannot be changed while a rolling update is {phase}");
        errors.push(FieldError::forbidden("spec.restart.id", detail));
    }
}

fn judge_components(errors: &mut Vec<FieldError>, new: &Value, old: &Value) {
    let names = |spec: &Value| {
        let parts = list(&spec["components"]).iter();
        parts.map(|part| text(&part["name"]).to_owned()).collect::<BTreeSet<String>>()
    };
    let (after, before) = (names(new), names(old));
    if after == before {
        return;
    }
    let list = |names: Vec<&String>| {
        let names: Vec<&str> = names.into_iter().map(String::as_str).collect();
        names.join(", ")
    };
    let mut changes = Vec::new();
    let (added, gone) = (after.difference(&before), before.difference(&after));
    let (added, gone) = (list(added.collect()), list(gone.collect()));
    if !added.is_empty() {
        changes.push(format!("components added: {added}"));
    }
    if !gone.is_empty() {
        changes.push(format!("components removed: {gone}"));
    }
    let detail = format!(
        "component topology is immutable and cannot be modified after creation: {}",
        changes.join("; ")
    );
    errors.push(FieldError::forbidden("spec.components", detail));
}

fn is_operator(settings: &Settings, question: &Question<'_>) -> bool {
    question.request["userInfo"]["username"] == settings.principal
}

/// Who makes the workloads is decided once, by the operator.
fn judge_provider(errors: &mut Vec<FieldError>, settings: &Settings, question: &Question<'_>) {
    let of = |object: &Value| object["metadata"]["annotations"][names::PROVIDER].clone();
    let (new, old) = (of(question.new), of(question.old));
    if new == old || (old.is_null() && is_operator(settings, question)) {
        return;
    }
    let field = format!("metadata.annotations[{}]", names::PROVIDER);
    errors.push(FieldError::forbidden(field, IMMUTABLE));
}

/// What an adapter scales is nobody else's to scale, but for the planner.
fn judge_replicas(errors: &mut Vec<FieldError>, settings: &Settings, question: &Question<'_>) {
    let user = text(&question.request["userInfo"]["username"]);
    let is_planner = user.starts_with("system:serviceaccount:")
        && user.rsplit(':').next() == Some(names::PLANNER_ACCOUNT);
    if is_operator(settings, question) || is_planner {
        return;
    }
    let replicas = |part: &Value| part["replicas"].as_i64().unwrap_or(1);
    let parts = list(&question.new["spec"]["components"]);
    for (number, part) in parts.iter().enumerate() {
        let old = &question.old["spec"]["components"];
        let Some(before) = find(old, "name", text(&part["name"])) else { continue };
        let has_adapter =
            part["scalingAdapter"].is_object() || before["scalingAdapter"].is_object();
        if has_adapter && replicas(part) != replicas(before) {
            let field = format!("spec.components[{number}].replicas");
            let detail = "cannot be modified directly when scaling adapter is enabled; scale or \
                          update the related DynamoGraphDeploymentScalingAdapter instead";
            errors.push(FieldError::forbidden(field, detail));
        }
    }
}
