//! What a container has before its user says anything: by the type of its component.

use serde_json::{Value, json};

use crate::component::{Facts, Type};
use crate::names::{HTTP_PORT, PICKER_PORT, SYSTEM_PORT};
use crate::settings::{Discovery, Settings};

const TELEMETRY_PORT: u16 = 19_090;
const FORWARD_PASS_PORT: u16 = 20_380;
const PLANNER_PORT: u16 = 9_085;
const PICKER_HEALTH_PORT: u16 = 9_003;

/// The container of a component.
pub fn main(facts: &Facts<'_>, settings: &Settings) -> Value {
    let mut container = match facts.kind() {
        Type::Frontend => frontend(),
        Type::Worker | Type::Prefill | Type::Decode => worker(),
        Type::Planner => planner(),
        Type::Picker => picker(facts),
        Type::Other => json!({"command": ["/bin/sh", "-c"]}),
    };
    container["name"] = json!("main");
    container["env"] = json!(environment(facts, settings, facts.kind()));
    container
}

/// A frontend beside another container.
pub fn sidecar(facts: &Facts<'_>, settings: &Settings) -> Value {
    let mut container = frontend();
    container["env"] = json!(environment(facts, settings, Type::Frontend));
    container
}

fn port(name: &str, number: u16) -> Value {
    json!({"name": name, "containerPort": number, "protocol": "TCP"})
}

fn get(path: &str, port: &str) -> Value {
    json!({"path": path, "port": port})
}

fn frontend() -> Value {
    json!({
        "command": ["python3"],
        "args": ["-m", "dynamo.frontend"],
        "ports": [port("http", HTTP_PORT)],
        "livenessProbe": {"httpGet": get("/live", "http"), "initialDelaySeconds": 15,
            "periodSeconds": 10, "timeoutSeconds": 1, "failureThreshold": 3},
        "readinessProbe": {"httpGet": get("/health", "http"), "initialDelaySeconds": 10,
            "periodSeconds": 10, "timeoutSeconds": 3, "failureThreshold": 3},
    })
}

fn worker() -> Value {
    let mut container = json!({
        "command": ["/bin/sh", "-c"],
        "ports": [port("system", SYSTEM_PORT), port("nixl", TELEMETRY_PORT)],
    });
    add_system_probes(&mut container);
    container
}

fn planner() -> Value {
    let mut container = json!({
        "command": ["/bin/sh", "-c"],
        "ports": [port("metrics", PLANNER_PORT), port("system", SYSTEM_PORT)],
    });
    add_system_probes(&mut container);
    container
}

fn add_system_probes(container: &mut Value) {
    container["livenessProbe"] = json!({"httpGet": get("/live", "system"), "periodSeconds": 5,
        "timeoutSeconds": 4, "failureThreshold": 1});
    container["readinessProbe"] = json!({"httpGet": get("/health", "system"), "periodSeconds": 10,
        "timeoutSeconds": 4, "failureThreshold": 3});
    container["startupProbe"] = json!({"httpGet": get("/live", "system"), "periodSeconds": 10,
        "timeoutSeconds": 5, "failureThreshold": 720});
}

fn picker(facts: &Facts<'_>) -> Value {
    let pool = format!("{}-pool", facts.parent());
    let (port_text, health) = (PICKER_PORT.to_string(), PICKER_HEALTH_PORT.to_string());
    let check = json!({"port": PICKER_HEALTH_PORT, "service": "inference-extension"});
    let probe = json!({"grpc": check, "initialDelaySeconds": 5, "periodSeconds": 10});
    json!({
        "args": ["--pool-name", pool, "--pool-namespace", facts.namespace(), "--pool-group",
            "inference.networking.k8s.io", "-v", "4", "--zap-encoder", "json", "--grpc-port",
            port_text, "--grpc-health-port", health, "--config-file",
            "/etc/epp/epp-config-dynamo.yaml"],
        "ports": [port("grpc", PICKER_PORT), port("grpc-health", PICKER_HEALTH_PORT),
            port("metrics", SYSTEM_PORT)],
        "livenessProbe": probe,
        "readinessProbe": probe,
        "startupProbe": {"grpc": check, "periodSeconds": 10, "failureThreshold": 180},
    })
}

/// What containers are told.
fn environment(facts: &Facts<'_>, settings: &Settings, kind: Type) -> Vec<Value> {
    let namespace = facts.dynamo_namespace();
    let mut env = vec![
        plain("DYN_NAMESPACE", &namespace),
        plain("DYN_COMPONENT", facts.type_name()),
        plain("DYN_PARENT_DGD_K8S_NAME", facts.parent()),
        plain("DYN_PARENT_DGD_K8S_NAMESPACE", facts.namespace()),
        field("POD_NAME", "metadata.name"),
        field("POD_NAMESPACE", "metadata.namespace"),
        field("POD_UID", "metadata.uid"),
    ];
    if facts.discovery(settings) == Discovery::Kubernetes {
        env.push(plain("DYN_DISCOVERY_BACKEND", "kubernetes"));
    }
    if facts.finds_containers() {
        env.push(plain("CONTAINER_NAME", "main"));
        env.push(plain("DYN_KUBE_DISCOVERY_MODE", "container"));
    }
    let addresses = &settings.infrastructure;
    for (name, address) in [
        ("NATS_SERVER", &addresses.nats),
        ("ETCD_ENDPOINTS", &addresses.etcd),
        ("MODEL_EXPRESS_URL", &addresses.model_express),
        ("PROMETHEUS_ENDPOINT", &addresses.prometheus),
    ] {
        if !address.is_empty() {
            env.push(plain(name, address));
        }
    }
    env.extend(of_type(kind, &namespace).into_iter().map(|(name, value)| plain(name, &value)));
    if let Some(hash) = facts.worker_hash().filter(|_| kind.is_worker()) {
        env.push(plain("DYN_NAMESPACE_WORKER_SUFFIX", hash));
    }
    env
}

fn of_type(kind: Type, namespace: &str) -> Vec<(&'static str, String)> {
    let text = |text: &str| text.to_owned();
    match kind {
        Type::Frontend => vec![
            ("DYNAMO_PORT", HTTP_PORT.to_string()),
            ("DYN_HTTP_PORT", HTTP_PORT.to_string()),
            ("DYN_NAMESPACE_PREFIX", text(namespace)),
        ],
        Type::Worker | Type::Prefill | Type::Decode => vec![
            ("DYN_SYSTEM_ENABLED", text("true")),
            ("DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS", text("[\"generate\"]")),
            ("DYN_SYSTEM_PORT", SYSTEM_PORT.to_string()),
            ("DYN_HEALTH_CHECK_ENABLED", text("false")),
            ("NIXL_TELEMETRY_ENABLE", text("n")),
            ("NIXL_TELEMETRY_EXPORTER", text("prometheus")),
            ("NIXL_TELEMETRY_PROMETHEUS_PORT", TELEMETRY_PORT.to_string()),
            ("DYN_FORWARDPASS_METRIC_PORT", FORWARD_PASS_PORT.to_string()),
        ],
        Type::Planner => vec![
            ("PLANNER_PROMETHEUS_PORT", PLANNER_PORT.to_string()),
            ("DYN_SYSTEM_PORT", SYSTEM_PORT.to_string()),
        ],
        Type::Picker => vec![
            ("USE_STREAMING", text("true")),
            ("RUST_LOG", text("info")),
            ("DYN_ENFORCE_DISAGG", text("false")),
            ("DYN_NAMESPACE_PREFIX", text(namespace)),
        ],
        Type::Other => Vec::new(),
    }
}

fn plain(name: &str, value: &str) -> Value {
    json!({"name": name, "value": value})
}

fn field(name: &str, path: &str) -> Value {
    json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}})
}
