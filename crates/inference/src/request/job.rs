//! The Job that measures: the profiler, and beside it whoever tells what it found.

use reconcile::Object;
use serde_json::{Value, json};

use super::overrides;
use super::{ACCOUNT, output_name};
use crate::conversion::request::preserved;
use crate::names::{MANAGED_BY, OPERATOR};
use crate::settings::Settings;
use crate::value::{list_mut, text};

/// Relays the output.
const COPIER: &str = include_str!("output_copier.sh");
const COPIER_IMAGE: &str = "bitnami/kubectl:latest";
/// The configuration that the older version names, and the key of it that is meant by default.
const CONFIG_FILE: &str = "disagg.yaml";
const CACHE_PATH: &str = "/opt/model-cache";
pub const PROFILER: &str = "profiler";
pub const OUTPUT_COPIER: &str = "output-copier";

pub fn job_name(request: &Object) -> String {
    format!("profile-{}", request.name.name)
}

pub fn job(request: &Object, settings: &Settings) -> Value {
    let labels = json!({"app": "dynamo-profiler", "dgdr": &*request.name.name,
        MANAGED_BY: OPERATOR});
    let mut spec = json!({
        "backoffLimit": 0,
        "template": {"metadata": {"labels": labels}, "spec": {
            "restartPolicy": "Never",
            "serviceAccountName": ACCOUNT,
            "securityContext": {"runAsNonRoot": true, "runAsUser": 1000, "runAsGroup": 1000,
                "fsGroup": 1000},
            "imagePullSecrets": [{"name": "nvcr-imagepullsecret"}],
            "containers": [profiler(request, settings), copier(request)],
            "volumes": [{"name": "profiling-output", "emptyDir": {}}],
        }},
    });
    mount_older(&preserved(&request.value)["profilingConfig"], &mut spec["template"]["spec"]);
    mount_cache(request, &mut spec["template"]["spec"]);
    overrides::apply(&mut spec, &request.value["spec"]["overrides"]["profilingJob"]);
    json!({
        "metadata": {"namespace": &*request.name.namespace, "name": job_name(request),
            "labels": labels},
        "spec": spec,
    })
}

fn variable(name: &str, value: &str) -> Value {
    json!({"name": name, "value": value})
}

/// Whose work it is, for both containers.
fn identity(request: &Object) -> Vec<Value> {
    vec![
        variable("DGDR_NAME", &request.name.name),
        variable("DGDR_NAMESPACE", &request.name.namespace),
        variable("DGDR_UID", &request.uid),
    ]
}

fn profiler(request: &Object, settings: &Settings) -> Value {
    let spec = &request.value["spec"];
    let mut env = vec![json!({"name": "HUGGING_FACE_HUB_TOKEN", "valueFrom": {"secretKeyRef":
        {"name": "hf-token-secret", "key": "HF_TOKEN", "optional": true}}})];
    env.extend(identity(request));
    let around = &settings.infrastructure;
    for (name, value) in [
        ("NATS_SERVER", &around.nats),
        ("ETCD_ENDPOINTS", &around.etcd),
        ("MODEL_EXPRESS_URL", &around.model_express),
        ("PROMETHEUS_ENDPOINT", &around.prometheus),
    ] {
        if !value.is_empty() {
            env.push(variable(name, value));
        }
    }
    json!({
        "name": PROFILER,
        "image": text(&spec["image"]),
        "command": ["python", "-m", "dynamo.profiler"],
        "args": ["--config", spec.to_string(), "--output-dir", "/data"],
        "workingDir": "/workspace",
        "env": env,
        "volumeMounts": [{"name": "profiling-output", "mountPath": "/data"}],
    })
}

fn copier(request: &Object) -> Value {
    let mut env = identity(request);
    env.push(variable("OUTPUT", &output_name(request)));
    env.push(json!({"name": "POD_NAME",
        "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}));
    json!({
        "name": OUTPUT_COPIER,
        "image": COPIER_IMAGE,
        "command": ["/bin/sh", "-c"],
        "args": [COPIER],
        "env": env,
        "volumeMounts": [{"name": "profiling-output", "mountPath": "/data"}],
    })
}

/// What only the older version asks for: a claim for the output, and a configuration to begin with.
fn mount_older(profiling: &Value, pod: &mut Value) {
    let claim = text(&profiling["outputPVC"]);
    if !claim.is_empty() {
        pod["volumes"][0] = json!({"name": "profiling-output",
            "persistentVolumeClaim": {"claimName": claim}});
    }
    let map = &profiling["configMapRef"];
    if text(&map["name"]).is_empty() {
        return;
    }
    let (key, file) = (map["key"].as_str().unwrap_or(CONFIG_FILE), CONFIG_FILE);
    list_mut(&mut pod["volumes"]).push(json!({"name": "profiling-config", "configMap":
        {"name": map["name"], "items": [{"key": key, "path": file}]}}));
    list_mut(&mut pod["containers"][0]["volumeMounts"]).push(json!({"name": "profiling-config",
        "mountPath": format!("/config/{file}"), "subPath": file, "readOnly": true}));
}

fn mount_cache(request: &Object, pod: &mut Value) {
    let cache = &request.value["spec"]["modelCache"];
    let claim = text(&cache["pvcName"]);
    if claim.is_empty() {
        return;
    }
    let path = cache["pvcMountPath"].as_str().unwrap_or(CACHE_PATH);
    list_mut(&mut pod["volumes"]).push(json!({"name": "model-cache",
        "persistentVolumeClaim": {"claimName": claim, "readOnly": true}}));
    list_mut(&mut pod["containers"][0]["volumeMounts"])
        .push(json!({"name": "model-cache", "mountPath": path, "readOnly": true}));
}
