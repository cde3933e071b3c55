//! What the containers of a component find in their files.

use serde_json::{Value, json};

use crate::backends::Framework;
use crate::component::{Facts, Type};
use crate::value::{find, list, list_mut, text};

const SHARED_MEMORY: &str = "shared-memory";
const SHARED_MEMORY_PATH: &str = "/dev/shm";
const SHARED_MEMORY_SIZE: &str = "8Gi";
const VLLM_CACHE: &str = "/root/.cache/vllm";

/// Gives a pod the volumes that its main container needs.
pub fn add(
    facts: &Facts<'_>,
    framework: Option<Framework>,
    container: &mut Value,
    pod: &mut Value,
) -> Result<(), String> {
    add_cache(facts, framework, container)?;
    if facts.kind() == Type::Picker {
        add_picker(facts, container, pod);
    }
    claim_what_is_mounted(container, pod);
    add_shared_memory(facts, container, pod);
    Ok(())
}

/// What a compiler made is kept from one start to the next.
fn add_cache(
    facts: &Facts<'_>,
    framework: Option<Framework>,
    container: &mut Value,
) -> Result<(), String> {
    let cache = &facts.spec["compilationCache"];
    let claim = text(&cache["pvcName"]);
    if claim.is_empty() {
        return Ok(());
    }
    let is_vllm = framework == Some(Framework::Vllm);
    let path = match text(&cache["mountPath"]) {
        "" if is_vllm => VLLM_CACHE,
        "" => {
            return Err("compilationCache.mountPath is required for this backend framework".into());
        }
        path => path,
    };
    let mounts = list_mut(&mut container["volumeMounts"]);
    match mounts.iter().find(|mount| mount["mountPath"] == path) {
        Some(mount) if mount["name"] != claim || mount["readOnly"] == true => {
            return Err(format!(
                "compilationCache conflicts with the volume mount {} at {path}",
                mount["name"]
            ));
        }
        Some(_) => {}
        None => mounts.push(json!({"name": claim, "mountPath": path})),
    }
    let has_root = find(&container["env"], "name", "VLLM_CACHE_ROOT").is_some();
    if is_vllm && facts.kind().is_worker() && !has_root {
        let root = json!([{"name": "VLLM_CACHE_ROOT", "value": path}]);
        container["env"] = super::merge::environment(&container["env"], &root);
    }
    Ok(())
}

/// A mount without a volume means the claim of that name.
fn claim_what_is_mounted(container: &Value, pod: &mut Value) {
    for mount in list(&container["volumeMounts"]) {
        let name = text(&mount["name"]);
        if name == SHARED_MEMORY || find(&pod["volumes"], "name", name).is_some() {
            continue;
        }
        let claim = json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
        list_mut(&mut pod["volumes"]).push(claim);
    }
}

fn add_shared_memory(facts: &Facts<'_>, container: &mut Value, pod: &mut Value) {
    let size = match &facts.spec["sharedMemorySize"] {
        Value::Null => json!(SHARED_MEMORY_SIZE),
        size => size.clone(),
    };
    let is_none = size == "0" || size == 0;
    if is_none {
        return;
    }
    let volumes = list_mut(&mut pod["volumes"]);
    volumes.retain(|volume| volume["name"] != SHARED_MEMORY);
    let memory = json!({"medium": "Memory", "sizeLimit": size});
    volumes.push(json!({"name": SHARED_MEMORY, "emptyDir": memory}));
    let mounts = list_mut(&mut container["volumeMounts"]);
    mounts
        .retain(|mount| mount["name"] != SHARED_MEMORY && mount["mountPath"] != SHARED_MEMORY_PATH);
    mounts.push(json!({"name": SHARED_MEMORY, "mountPath": SHARED_MEMORY_PATH}));
}

fn add_picker(facts: &Facts<'_>, container: &mut Value, pod: &mut Value) {
    let named = &facts.spec["eppConfig"]["configMapRef"];
    let map = match text(&named["name"]) {
        "" => format!("{}-epp-config", facts.parent()),
        name => name.to_owned(),
    };
    let volumes = list_mut(&mut pod["volumes"]);
    volumes.push(json!({"name": "epp-config", "configMap": {"name": map}}));
    volumes.push(json!({"name": "hf-cache", "emptyDir": {}}));
    let mounts = list_mut(&mut container["volumeMounts"]);
    mounts.push(json!({"name": "epp-config", "mountPath": "/etc/epp", "readOnly": true}));
    mounts.push(json!({"name": "hf-cache", "mountPath": "/home/nonroot/.cache"}));
}
