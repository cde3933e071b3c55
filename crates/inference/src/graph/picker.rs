//! What a picker of endpoints needs: its configuration, the pool that it picks from, and how a mesh
//! is to reach it.

use reconcile::Plan;
use serde_json::{Value, json};

use super::facts::{Graph, Part};
use super::observe::Observed;
use crate::kinds::{CONFIG_MAP, DESTINATION_RULE, GRAPH, INFERENCE_POOL};
use crate::names::{self, HTTP_PORT, PICKER_PORT};
use crate::settings::Settings;
use crate::sync_resource::Sync;
use crate::value::object_mut;

const CONFIG_FILE: &str = "epp-config-dynamo.yaml";

pub fn config_name(graph: &str) -> String {
    format!("{graph}-epp-config")
}

pub fn pool_name(graph: &str) -> String {
    format!("{graph}-pool")
}

/// The service of the picker, where there is one.
pub fn service_name(graph: &Graph<'_>) -> Option<String> {
    graph.picker().map(|part| names::service(&part.child_name(graph.name())))
}

pub fn sync(
    plan: &mut Plan,
    settings: &Settings,
    graph: &Graph<'_>,
    observed: &Observed,
) -> Result<(), String> {
    let mut sync = Sync::new(plan, Some((GRAPH, graph.object)));
    let rule = observed.mesh_rule.as_deref();
    let Some(part) = graph.picker() else { return Ok(()) };
    if !settings.gates.inference_pools {
        return Err("the InferencePool API (inference.networking.k8s.io) is not served".to_owned());
    }
    if part.0["eppConfig"]["config"].is_object() {
        let wanted = config(graph, &part)?;
        sync.keep(CONFIG_MAP, observed.picker_config.as_deref(), wanted);
    }
    sync.keep(INFERENCE_POOL, observed.pool.as_deref(), pool(graph, &part));
    match settings.gates.istio {
        true => sync.keep(DESTINATION_RULE, rule, mesh_rule(settings, graph, &part)),
        false => sync.drop(DESTINATION_RULE, rule),
    };
    Ok(())
}

fn labels(graph: &Graph<'_>, part: &Part<'_>) -> Value {
    json!({names::GRAPH: graph.name(), names::COMPONENT: part.name(),
        names::COMPONENT_TYPE: "epp"})
}

fn config(graph: &Graph<'_>, part: &Part<'_>) -> Result<Value, String> {
    let mut whole = json!({"apiVersion": "inference.networking.x-k8s.io/v1alpha1",
        "kind": "EndpointPickerConfig"});
    for (field, value) in part.0["eppConfig"]["config"].as_object().into_iter().flatten() {
        object_mut(&mut whole).insert(field.clone(), value.clone());
    }
    let text = serde_saphyr::to_string(&whole)
        .map_err(|error| format!("eppConfig.config cannot be written as YAML: {error}"))?;
    Ok(json!({
        "metadata": {"namespace": graph.namespace(), "name": config_name(graph.name()),
            "labels": labels(graph, part)},
        "data": {CONFIG_FILE: text},
    }))
}

fn pool(graph: &Graph<'_>, part: &Part<'_>) -> Value {
    let service = names::service(&part.child_name(graph.name()));
    json!({
        "metadata": {"namespace": graph.namespace(), "name": pool_name(graph.name()),
            "labels": labels(graph, part)},
        "spec": {
            "targetPorts": [{"number": HTTP_PORT}],
            "selector": {"matchLabels": {
                names::COMPONENT_CLASS: "worker",
                names::DYNAMO_NAMESPACE: graph.dynamo_namespace(part),
            }},
            "endpointPickerRef": {"kind": "Service", "name": service,
                "port": {"number": PICKER_PORT}},
        },
    })
}

fn mesh_rule(settings: &Settings, graph: &Graph<'_>, part: &Part<'_>) -> Value {
    let service = names::service(&part.child_name(graph.name()));
    let mesh = &settings.mesh;
    let mut tls = json!({"mode": mesh.tls_mode, "insecureSkipVerify": mesh.skips_verification});
    if mesh.tls_mode == "MUTUAL" {
        tls["clientCertificate"] = json!(mesh.client_certificate);
        tls["privateKey"] = json!(mesh.private_key);
        tls["caCertificates"] = json!(mesh.authority);
    }
    json!({
        "metadata": {"namespace": graph.namespace(), "name": service,
            "labels": labels(graph, part)},
        "spec": {
            "host": format!("{service}.{}.svc.{}", graph.namespace(), settings.cluster_domain),
            "trafficPolicy": {"tls": tls},
        },
    })
}
