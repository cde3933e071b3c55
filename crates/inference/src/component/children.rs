//! The objects of a component, as they are to be.

use serde_json::{Value, json};

use super::facts::{Facts, Type};
use super::observe::set_name;
use crate::backends::Role;
use crate::digest;
use crate::names::{self, HTTP_PORT, PICKER_PORT, SYSTEM_PORT};
use crate::pods::{self, Given, merge};
use crate::settings::{Discovery, Settings};
use crate::value::{object_mut, text};

const SURGE: &str = "25%";
const HOST_SUFFIX: &str = "local";

fn meta(facts: &Facts<'_>, name: &str) -> Value {
    let mut meta = json!({"namespace": facts.namespace(), "name": name});
    let own = &facts.object.value["metadata"];
    if own["labels"].is_object() {
        meta["labels"] = own["labels"].clone();
    }
    meta
}

pub fn deployment(given: &Given<'_>) -> Result<Value, String> {
    let facts = given.facts;
    let own = facts.own_name();
    let mut spec = json!({
        "selector": {"matchLabels": {names::SELECTOR: own}},
        "strategy": rolling_strategy(facts),
        "template": pods::template(given)?,
    });
    if let Some(replicas) = facts.replicas() {
        spec["replicas"] = json!(replicas);
    }
    Ok(json!({"metadata": meta(facts, own), "spec": spec}))
}

/// How many pods there may be too many and too few while they are replaced, and whether they may
/// overlap at all.
pub fn rolling_strategy(facts: &Facts<'_>) -> Value {
    let said = |name: &str| {
        facts.template_annotation(name).or(facts.object.annotation(name)).map(str::to_owned)
    };
    if said(names::STRATEGY).as_deref() == Some("Recreate") {
        return json!({"type": "Recreate"});
    }
    let amount = |name: &str| match said(name) {
        None => json!(SURGE),
        Some(text) => match text.parse::<i64>() {
            Ok(number) => json!(number),
            Err(_) if is_percent(&text) => json!(text),
            Err(_) => json!(SURGE),
        },
    };
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": amount(names::MAX_SURGE),
        "maxUnavailable": amount(names::MAX_UNAVAILABLE)}})
}

fn is_percent(text: &str) -> bool {
    text.strip_suffix('%').is_some_and(|number| number.parse::<u32>().is_ok())
}

/// The set for a component whose replicas are many pods.
pub fn leader_worker_set(given: &Given<'_>) -> Result<Value, String> {
    let facts = given.facts;
    let of = |role: Role| {
        let made = pods::template(&Given { role, ..*given })?;
        let main = &made["spec"]["containers"][0];
        let is_empty = |part: &Value| part.as_array().is_none_or(Vec::is_empty);
        if is_empty(&main["command"]) {
            return Err("container Command cannot be nil for LWS pod".to_owned());
        }
        if is_empty(&main["args"]) {
            return Err("container Args cannot be empty for LWS pod".to_owned());
        }
        Ok(made)
    };
    let spec = json!({
        "replicas": facts.replicas().unwrap_or(1),
        "startupPolicy": "LeaderCreated",
        "leaderWorkerTemplate": {
            "size": facts.nodes(),
            "leaderTemplate": of(Role::Leader)?,
            "workerTemplate": of(Role::Worker)?,
        },
    });
    Ok(json!({"metadata": meta(facts, &set_name(facts.own_name())), "spec": spec}))
}

/// The service that a component is found by, where it is.
pub fn service(given: &Given<'_>, is_set: bool) -> Option<Value> {
    let Given { facts, settings, .. } = *given;
    let kind = facts.kind();
    let discovery = facts.discovery(settings);
    if discovery != Discovery::Kubernetes && kind != Type::Frontend {
        return None;
    }
    let port = match kind {
        Type::Frontend => json!({"name": "http", "port": HTTP_PORT, "targetPort": "http"}),
        Type::Picker => json!({"name": "grpc", "port": PICKER_PORT, "targetPort": PICKER_PORT,
            "appProtocol": "http2"}),
        _ => json!({"name": "system", "port": SYSTEM_PORT, "targetPort": "system"}),
    };
    let mut port = port;
    port["protocol"] = json!("TCP");
    let mut selector = json!({
        names::COMPONENT_TYPE: pods::type_label(given),
        names::DYNAMO_NAMESPACE: facts.dynamo_namespace(),
        names::COMPONENT: facts.name(),
    });
    if is_set {
        selector["role"] = json!("leader");
    }
    let mut labels = pods::labels(given);
    if let Some(labels) = labels.as_object_mut() {
        labels.remove("role");
        // The service is not a pod of the component.
        labels.remove(names::SELECTOR);
    }
    let name = names::service(facts.own_name());
    let mut made = json!({
        "metadata": {"namespace": facts.namespace(), "name": name, "labels": labels},
        "spec": {"type": "ClusterIP", "ports": [port], "selector": selector},
    });
    let annotations = pods::annotations(facts);
    if annotations.as_object().is_some_and(|all| !all.is_empty()) {
        made["metadata"]["annotations"] = annotations;
    }
    Some(made)
}

/// The service of all that serve the same model.
pub fn model_service(facts: &Facts<'_>) -> Option<Value> {
    let model = facts.model()?;
    let hash = digest::short(model);
    Some(json!({
        "metadata": {
            "namespace": facts.namespace(),
            "name": names::model_service(model),
            "labels": {names::BASE_MODEL_HASH: hash, names::MANAGED_BY: names::OPERATOR},
            "annotations": {names::BASE_MODEL: model},
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": false,
            "ports": [{"name": "system", "port": SYSTEM_PORT, "targetPort": SYSTEM_PORT,
                "protocol": "TCP"}],
            "selector": {names::BASE_MODEL_HASH: hash},
        },
    }))
}

/// How a component is reached from outside, as it says or as the installation does.
fn outside(facts: &Facts<'_>, settings: &Settings) -> Option<Value> {
    let kept = &facts.preserved["ingress"];
    let own = &settings.ingress;
    match (kept.is_object(), facts.graph()) {
        (true, _) => Some(kept.clone()),
        (false, Some(graph)) if facts.kind() == Type::Frontend => Some(json!({
            "enabled": !(own.class.is_empty() && own.gateway.is_empty()),
            "host": graph,
            "ingressControllerClassName": own.class,
            "tls": {"secretName": own.tls_secret},
            "hostSuffix": own.host_suffix,
            "useVirtualService": !own.gateway.is_empty(),
            "virtualServiceGateway": own.gateway,
        })),
        _ => None,
    }
}

fn host(said: &Value) -> String {
    let suffix = match text(&said["hostSuffix"]) {
        "" => HOST_SUFFIX,
        suffix => suffix,
    };
    format!("{}{}.{suffix}", text(&said["hostPrefix"]), text(&said["host"]))
}

/// The metadata of what leads in, with what the user says of it.
fn entrance_meta(facts: &Facts<'_>, name: &str, said: &Value) -> Value {
    let mut meta = meta(facts, name);
    for field in ["annotations", "labels"] {
        merge::deep(&mut meta[field], &said[field]);
        if meta[field].is_null() {
            object_mut(&mut meta).remove(field);
        }
    }
    meta
}

/// The ingress of a component, where it has one.
pub fn ingress(facts: &Facts<'_>, settings: &Settings) -> Option<Value> {
    let said = outside(facts, settings)?;
    let class = text(&said["ingressControllerClassName"]);
    if said["enabled"] != true || class.is_empty() {
        return None;
    }
    let (host, name) = (host(&said), names::service(facts.own_name()));
    let backend = json!({"service": {"name": name, "port": {"number": HTTP_PORT}}});
    let path = json!({"path": "/", "pathType": "Prefix", "backend": backend});
    let mut made = json!({
        "metadata": entrance_meta(facts, &name, &said),
        "spec": {
            "ingressClassName": class,
            "rules": [{"host": host, "http": {"paths": [path]}}],
        },
    });
    let secret = text(&said["tls"]["secretName"]);
    if !secret.is_empty() {
        made["spec"]["tls"] = json!([{"hosts": [host], "secretName": secret}]);
    }
    Some(made)
}

/// How a mesh leads to a component, where it does.
pub fn virtual_service(facts: &Facts<'_>, settings: &Settings) -> Option<Value> {
    let said = outside(facts, settings)?;
    if said["enabled"] != true || said["useVirtualService"] != true {
        return None;
    }
    let gateway = match text(&said["virtualServiceGateway"]) {
        "" => settings.ingress.gateway.as_str(),
        gateway => gateway,
    };
    let name = names::service(facts.own_name());
    let route = json!({"destination": {"host": name, "port": {"number": HTTP_PORT}}});
    Some(json!({
        "metadata": entrance_meta(facts, &name, &said),
        "spec": {
            "hosts": [host(&said)],
            "gateways": [gateway],
            "http": [{"match": [{"uri": {"prefix": "/"}}], "route": [route]}],
        },
    }))
}
