//! Weights that outlive the engine that loaded them: a server beside it holds them in the memory of
//! GPUs that both have claimed. With failover a second engine stands by.
//!
//! Upstream: ai-dynamo/dynamo, deploy/operator/internal/dynamo/{gms,failover}.go

use serde_json::{Value, json};

use crate::backends::Framework;
use crate::component::Facts;
use crate::graph::claims;
use crate::names::SYSTEM_PORT;
use crate::value::{list, list_mut, object_mut, text, upsert};

const CLAIM: &str = "intrapod-shared-gpu";
const CONTROL: &str = "gms-intrapod-control";
const CONTROL_PATH: &str = "/gms-intrapod-control";
pub const SERVER: &str = "gms-server";
const FORWARD_PASS_PORT: u16 = 20_380;
const SIDE_CHANNEL_PORT: u16 = 5_600;
const CACHE_EVENTS_PORT: u16 = 20_080;
/// Between the ports of two engines where leaders wait for others.
const MASTER_STEP: u16 = 100;
const ENGINES: u16 = 2;

/// Whether a component's weights are held beside its engine.
fn is_within(facts: &Facts<'_>, field: &str) -> bool {
    let said = &facts.spec["experimental"][field];
    said.is_object() && said["mode"].as_str().unwrap_or("IntraPod") == "IntraPod"
}

/// Adds the server, and lets the engine reach it.
pub fn add(facts: &Facts<'_>, containers: &mut Vec<Value>, pod: &mut Value) -> Result<(), String> {
    if !is_within(facts, "gpuMemoryService") {
        return Ok(());
    }
    let extra = &facts.spec["experimental"]["gpuMemoryService"]["extraClientContainers"];
    let clients: Vec<&str> = list(extra).iter().map(text).collect();
    let image = containers[0]["image"].clone();
    for container in containers.iter_mut() {
        let name = text(&container["name"]).to_owned();
        if name == "main" || clients.contains(&name.as_str()) {
            connect(container);
        }
    }
    let mut server = json!({
        "name": SERVER,
        "image": image,
        "command": ["python3", "-m", "gpu_memory_service.cli.server"],
        "restartPolicy": "Always",
    });
    connect(&mut server);
    upsert(&mut pod["initContainers"], "name", server);
    let template = claims::name(facts.parent(), facts.name());
    let claim = json!({"name": CLAIM, "resourceClaimTemplateName": template});
    upsert(&mut pod["resourceClaims"], "name", claim);
    let volume = json!({"name": CONTROL, "emptyDir": {}});
    upsert(&mut pod["volumes"], "name", volume);
    if is_within(facts, "failover") {
        stand_by(facts, containers)?;
    }
    Ok(())
}

/// A container that shares the claimed GPUs instead of having its own.
fn connect(container: &mut Value) {
    drop_gpus(container);
    upsert(&mut container["resources"]["claims"], "name", json!({"name": CLAIM}));
    let mount = json!({"name": CONTROL, "mountPath": CONTROL_PATH});
    upsert(&mut container["volumeMounts"], "name", mount);
    set(container, "GMS_SOCKET_DIR", CONTROL_PATH);
}

/// Takes the GPUs that are claimed instead.
pub fn drop_gpus(container: &mut Value) {
    for field in ["limits", "requests"] {
        if let Some(Value::Object(amounts)) = container["resources"].get_mut(field) {
            amounts.retain(|name, _| !name.starts_with("nvidia.com/gpu"));
        }
    }
}

/// Sets a variable, and keeps all in the order of their names.
fn set(container: &mut Value, name: &str, value: &str) {
    let one = json!([{"name": name, "value": value}]);
    container["env"] = super::merge::environment(&container["env"], &one);
}

/// Makes two engines of one.
fn stand_by(facts: &Facts<'_>, containers: &mut Vec<Value>) -> Result<(), String> {
    if facts.framework()? != Some(Framework::Vllm) {
        return Err("failover within a pod is only supported with vllm".to_owned());
    }
    if !facts.finds_containers() {
        return Err("failover within a pod needs containers to be found: set the annotation \
                    nvidia.com/dynamo-kube-discovery-mode to container"
            .to_owned());
    }
    let main = containers.remove(0);
    for number in (0..ENGINES).rev() {
        containers.insert(0, engine(&main, number, facts.nodes()));
    }
    Ok(())
}

fn engine(main: &Value, number: u16, nodes: i64) -> Value {
    let mut made = main.clone();
    let (name, port) = (format!("engine-{number}"), format!("system-{number}"));
    made["name"] = json!(name);
    let own = SYSTEM_PORT + number;
    for one in list_mut(&mut made["ports"]).iter_mut().filter(|one| one["name"] == "system") {
        *one = json!({"name": port, "containerPort": own, "protocol": "TCP"});
    }
    // Names and numbers of ports are the pod's, so only one engine may have the others.
    if number > 0 {
        list_mut(&mut made["ports"]).retain(|one| one["name"] == port);
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if made[probe]["httpGet"]["port"] == "system" {
            made[probe]["httpGet"]["port"] = json!(port);
        }
    }
    let lock = format!("{CONTROL_PATH}/failover.lock");
    for (variable, value) in [
        ("ENGINE_ID", number.to_string()),
        ("CONTAINER_NAME", name),
        ("FAILOVER_LOCK_PATH", lock),
        ("DYN_SYSTEM_STARTING_HEALTH_STATUS", "notready".to_owned()),
        ("DYN_SYSTEM_PORT", own.to_string()),
        ("DYN_SYSTEM_ENABLED", "true".to_owned()),
        ("DYN_FORWARDPASS_METRIC_PORT", (FORWARD_PASS_PORT + number).to_string()),
        ("DYN_VLLM_GMS_SHADOW_MODE", "true".to_owned()),
        ("VLLM_NIXL_SIDE_CHANNEL_PORT", (SIDE_CHANNEL_PORT + number).to_string()),
        ("DYN_VLLM_KV_EVENT_PORT", (CACHE_EVENTS_PORT + number).to_string()),
    ] {
        set(&mut made, variable, &value);
    }
    if nodes > 1 {
        set(&mut made, "NNODES", &nodes.to_string());
    }
    if number > 0 {
        move_master(&mut made, MASTER_STEP * number);
    }
    object_mut(&mut made);
    made
}

/// Two engines cannot wait for others at the same port.
fn move_master(container: &mut Value, step: u16) {
    const FLAG: &str = "--master-port";
    let args = list_mut(&mut container["args"]);
    for at in 0..args.len() {
        let word = text(&args[at]).to_owned();
        if word == FLAG && at + 1 < args.len() {
            let port = text(&args[at + 1]).parse::<u16>().map(|port| port + step);
            if let Ok(port) = port {
                args[at + 1] = json!(port.to_string());
            }
        } else if let Some((before, after)) = word.split_once(&format!("{FLAG} ")) {
            let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
            if let Ok(port) = digits.parse::<u16>() {
                let rest = &after[digits.len()..];
                args[at] = json!(format!("{before}{FLAG} {}{rest}", port + step));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use reconcile::Object;

    use super::*;
    use crate::names;
    use crate::value::find;

    fn component(more: Value) -> Object {
        let mut whole = json!({
            "metadata": {"namespace": "ns", "name": "g-decode-1", "labels": {names::GRAPH: "g"}},
            "spec": {"name": "decode", "type": "decode", "backendFramework": "vllm",
                "podTemplate": {"metadata": {"annotations": {names::DISCOVERY_MODE: "container"}}},
                "experimental": {"gpuMemoryService": {}}},
        });
        reconcile::plan::merge(&mut whole, &more);
        Object::new(whole)
    }

    fn main() -> Value {
        json!({"name": "main", "image": "i",
            "args": ["-m", "dynamo.vllm", "--master-port", "29500"],
            "resources": {"limits": {"nvidia.com/gpu": "2", "cpu": "1"}},
            "ports": [{"name": "system", "containerPort": 9090},
                {"name": "nixl", "containerPort": 19090}],
            "readinessProbe": {"httpGet": {"path": "/health", "port": "system"}}})
    }

    #[test]
    fn weights_are_held_by_a_server_beside_the_engine() {
        let object = component(json!({"spec": {"experimental": {"gpuMemoryService":
            {"extraClientContainers": ["more"]}}}}));
        let mut containers = vec![main(), json!({"name": "more"}), json!({"name": "other"})];
        let mut pod = json!({});
        add(&Facts::of(&object), &mut containers, &mut pod).expect("added");
        assert_eq!(
            containers[0]["resources"],
            json!({"limits": {"cpu": "1"}, "claims": [{"name": CLAIM}]})
        );
        assert!(
            containers[1]["volumeMounts"].is_array() && containers[2]["volumeMounts"].is_null()
        );
        let server = find(&pod["initContainers"], "name", SERVER).expect("a server");
        assert_eq!(server["restartPolicy"], "Always");
        assert_eq!(
            pod["resourceClaims"],
            json!([{"name": CLAIM, "resourceClaimTemplateName": "g-decode-gpu"}])
        );
    }

    #[test]
    fn a_second_engine_stands_by_with_ports_of_its_own() {
        let object = component(json!({"spec": {"experimental": {"failover": {}}}}));
        let (mut containers, mut pod) = (vec![main()], json!({}));
        add(&Facts::of(&object), &mut containers, &mut pod).expect("added");
        let names: Vec<&str> = containers.iter().map(|one| text(&one["name"])).collect();
        assert_eq!(names, ["engine-0", "engine-1"]);
        let second = &containers[1];
        assert_eq!(
            second["ports"],
            json!([{"name": "system-1", "containerPort": 9091, "protocol": "TCP"}])
        );
        assert_eq!(second["readinessProbe"]["httpGet"]["port"], "system-1");
        assert_eq!(second["args"][3], "29600");
        let variable = |name: &str| find(&second["env"], "name", name).map(|one| &one["value"]);
        assert_eq!(variable("DYN_FORWARDPASS_METRIC_PORT"), Some(&json!("20381")));
        assert_eq!(variable("ENGINE_ID"), Some(&json!("1")));
        // Only one engine can do so, and only where containers are found.
        let other = component(json!({"spec": {"backendFramework": "sglang",
            "experimental": {"failover": {}}}}));
        let refused = add(&Facts::of(&other), &mut vec![main()], &mut json!({}));
        assert!(refused.is_err_and(|why| why.contains("vllm")));
    }
}
