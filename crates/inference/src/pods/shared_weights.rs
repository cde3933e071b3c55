//! Weights that are held by a pod of their own, beside the pods of the engines that use them: all
//! of one rank have claimed the same GPUs, and meet in a directory of their node.
//!
//! Upstream: ai-dynamo/dynamo, deploy/operator/internal/dynamo, GMS between pods

use serde_json::{Value, json};

use super::memory_service::drop_gpus;
use super::merge;
use crate::backends::{self, Framework};
use crate::component::Facts;
use crate::memory_service::cascade::MEMBER;
use crate::names;
use crate::value::{list_mut, object_mut, upsert};

const VOLUME: &str = "gms-shared";
/// The directory of the node, and where pods have their part of it.
const HOST_PATH: &str = "/run/gms";
const PATH: &str = "/run/gms/shared";
const GPU: &str = "nvidia.com/gpu";

/// Whether a component asks for something between pods.
fn asks(part: &Value, field: &str) -> bool {
    let said = &part["experimental"][field];
    said.is_object() && said["mode"] == "InterPod"
}

/// Whether the weights of a component are held by pods of their own.
pub fn is_between(part: &Value) -> bool {
    asks(part, "gpuMemoryService")
}

/// How many engines there are of each rank: those that stand by are beside the one that serves.
pub fn engines(part: &Value) -> i64 {
    match asks(part, "failover") {
        true => 1 + part["experimental"]["failover"]["numShadows"].as_i64().unwrap_or(1),
        false => 1,
    }
}

/// Has the engine read its weights from whoever holds them; before its command is put into others.
pub fn load_from(facts: &Facts<'_>, container: &mut Value) -> Result<(), String> {
    if !is_between(facts.spec) {
        return Ok(());
    }
    if facts.framework()? != Some(Framework::Vllm) {
        return Err("GPU memory service between pods is only supported with vllm".to_owned());
    }
    backends::add_flags(container, "--load-format gms", Framework::Vllm);
    Ok(())
}

/// Lets an engine meet those of its rank.
pub fn join(facts: &Facts<'_>, containers: &mut [Value], pod: &mut Value, rank: i64) {
    let has_shadows = asks(facts.spec, "failover");
    let Some(main) = containers.first_mut() else { return };
    meet(main, pod, rank);
    if !has_shadows {
        return;
    }
    let index = json!({"name": "ENGINE_ID", "valueFrom": {"fieldRef":
        {"fieldPath": "metadata.labels['grove.io/podclique-pod-index']"}}});
    let mut own = vec![index];
    for (name, value) in [
        ("DYN_SYSTEM_STARTING_HEALTH_STATUS", "notready".to_owned()),
        ("DYN_VLLM_GMS_SHADOW_MODE", "true".to_owned()),
        ("FAILOVER_LOCK_PATH", format!("{PATH}/failover.lock")),
    ] {
        own.push(json!({"name": name, "value": value}));
    }
    main["env"] = merge::environment(&main["env"], &json!(own));
    // One that ended is not started again alone: its whole group is.
    pod["restartPolicy"] = json!("Never");
}

/// Says of the pods of engines that they end together.
pub fn mark(facts: &Facts<'_>, labels: &mut Value) {
    if asks(facts.spec, "failover") {
        labels[MEMBER] = json!("true");
    }
}

/// The pod that holds the weights of a rank, made of that of its engine.
pub fn server(engine: &Value, gpus: i64) -> Value {
    let mut made = engine.clone();
    // It answers nobody, so nobody is to find it.
    let labels = object_mut(&mut made["metadata"]["labels"]);
    for name in [
        MEMBER,
        names::SELECTOR,
        names::COMPONENT_TYPE,
        names::SUB_COMPONENT_TYPE,
        names::DISCOVERY_ENABLED,
        names::BASE_MODEL_HASH,
        names::METRICS_ENABLED,
    ] {
        labels.remove(name);
    }
    made["spec"]["restartPolicy"] = json!("Always");
    let containers = list_mut(&mut made["spec"]["containers"]);
    containers.truncate(1);
    let Some(main) = containers.first_mut() else { return made };
    main["command"] = json!(["python3"]);
    main["args"] = json!(["-m", "gpu_memory_service.cli.server"]);
    for field in ["livenessProbe", "readinessProbe", "ports"] {
        object_mut(main).remove(field);
    }
    // It holds them once every GPU has a socket.
    let sockets = format!("test $(ls {PATH}/gms_*.sock 2>/dev/null | wc -l) -ge {gpus}");
    main["startupProbe"] = json!({"exec": {"command": ["sh", "-c", sockets]},
        "periodSeconds": 2, "timeoutSeconds": 2, "failureThreshold": 150});
    // Nobody waits for a leader to hold weights.
    list_mut(&mut made["spec"]["initContainers"]).retain(|one| one["name"] == OPEN);
    made
}

const OPEN: &str = "open-gms-directory";

/// Gives a container its part of the directory, and takes the GPUs that are claimed instead.
fn meet(main: &mut Value, pod: &mut Value, rank: i64) {
    drop_gpus(main);
    let mount = json!({"name": VOLUME, "mountPath": PATH, "subPathExpr":
        format!("$(POD_NAMESPACE)-$(GROVE_PCSG_NAME)-$(GROVE_PCSG_INDEX)/rank-{rank}")});
    upsert(&mut main["volumeMounts"], "name", mount.clone());
    let place = json!([{"name": "GMS_SOCKET_DIR", "value": PATH}]);
    main["env"] = merge::environment(&main["env"], &place);
    let volume = json!({"name": VOLUME,
        "hostPath": {"path": HOST_PATH, "type": "DirectoryOrCreate"}});
    upsert(&mut pod["volumes"], "name", volume);
    // The node makes the directory for itself; whoever runs the engine must be able to write.
    let open = json!({
        "name": OPEN,
        "image": main["image"],
        "command": ["chmod", "1777", PATH],
        "env": [{"name": "POD_NAMESPACE", "valueFrom":
            {"fieldRef": {"fieldPath": "metadata.namespace"}}}],
        "securityContext": {"runAsUser": 0, "runAsNonRoot": false},
        "volumeMounts": [mount],
    });
    upsert(&mut pod["initContainers"], "name", open);
    // Without GPUs of its own nobody else says that it may be where GPUs are.
    let tolerations = list_mut(&mut pod["tolerations"]);
    if !tolerations.iter().any(|one| one["key"] == GPU) {
        tolerations.push(json!({"key": GPU, "operator": "Exists", "effect": "NoSchedule"}));
    }
}
