//! The pods of a component: the older version has fields of the main container beside the pod, the
//! newer one a whole template.

use serde_json::{Map, Value, json};

use super::sidecar;
use crate::pods::merge::environment;
use crate::value::{find, list, list_mut, object_mut, text};

const GPU: &str = "nvidia.com/gpu";
const MAIN: &str = "main";

/// Makes a template, and what goes with it, of a service.
pub fn to_hub(service: &Value, component: &mut Value) {
    let extra = &service["extraPodSpec"];
    let main = main(service);
    let mut containers = Vec::new();
    if main.len() > 1 {
        containers.push(Value::Object(main));
    }
    containers.extend(list(&extra["containers"]).iter().cloned());
    if let Some(container) = sidecar::to_hub(&service["frontendSidecar"]) {
        containers.push(container);
        component["frontendSidecar"] = json!(sidecar::NAME);
    }
    let mut spec = extra.as_object().cloned().unwrap_or_default();
    spec.remove("mainContainer");
    spec.remove("containers");
    if !containers.is_empty() {
        spec.insert("containers".to_owned(), json!(containers));
    }
    let mut template = Map::new();
    if let Some(meta) = service["extraPodMetadata"].as_object().filter(|meta| !meta.is_empty()) {
        template.insert("metadata".to_owned(), json!(meta));
    }
    if !spec.is_empty() {
        template.insert("spec".to_owned(), Value::Object(spec));
    }
    if !template.is_empty() {
        component["podTemplate"] = Value::Object(template);
    }
    let mounts = list(&service["volumeMounts"]);
    let cache = mounts.iter().find(|mount| mount["useAsCompilationCache"] == true);
    if let Some(cache) = cache {
        component["compilationCache"] = json!({"pvcName": cache["name"]});
        if let Some(path) = cache.get("mountPoint") {
            component["compilationCache"]["mountPath"] = path.clone();
        }
    }
}

/// The main container of a service: what it says itself counts before what stands beside it.
fn main(service: &Value) -> Map<String, Value> {
    let said = &service["extraPodSpec"]["mainContainer"];
    let mut main = said.as_object().cloned().unwrap_or_default();
    main.insert("name".to_owned(), json!(MAIN));
    let env = environment(&service["envs"], &said["env"]);
    if env.as_array().is_some_and(|env| !env.is_empty()) {
        main.insert("env".to_owned(), env);
    }
    if !main.contains_key("resources") {
        let resources = amounts_to_hub(&service["resources"]);
        if !resources.is_empty() {
            main.insert("resources".to_owned(), Value::Object(resources));
        }
    }
    for probe in ["livenessProbe", "readinessProbe"] {
        if let (false, Some(value)) = (main.contains_key(probe), service.get(probe)) {
            main.insert(probe.to_owned(), value.clone());
        }
    }
    if let Some(secret) = service["envFromSecret"].as_str() {
        let mut sources = list(&said["envFrom"]).to_vec();
        sources.push(json!({"secretRef": {"name": secret}}));
        main.insert("envFrom".to_owned(), json!(sources));
    }
    let plain = list(&service["volumeMounts"]).iter();
    let plain = plain.filter(|mount| mount["useAsCompilationCache"] != true);
    let plain = plain.map(|mount| json!({"name": mount["name"], "mountPath": mount["mountPoint"]}));
    let mut mounts = list(&said["volumeMounts"]).to_vec();
    mounts.extend(plain);
    if !mounts.is_empty() {
        main.insert("volumeMounts".to_owned(), json!(mounts));
    }
    main
}

/// Makes a service's fields of a template.
pub fn to_spoke(component: &Value, service: &mut Value) {
    let template = &component["podTemplate"];
    let meta = template["metadata"].as_object().into_iter().flatten();
    let meta: Map<String, Value> = meta
        .filter(|(name, _)| matches!(name.as_str(), "annotations" | "labels"))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if !meta.is_empty() {
        service["extraPodMetadata"] = Value::Object(meta);
    }
    let mut extra = template["spec"].as_object().cloned().unwrap_or_default();
    extra.remove("containers");
    let containers = &template["spec"]["containers"];
    let beside = sidecar::to_spoke(component, service);
    let others = list(containers)
        .iter()
        .filter(|one| one["name"] != MAIN && beside.as_deref() != one["name"].as_str());
    let others: Vec<Value> = others.cloned().collect();
    if !others.is_empty() {
        extra.insert("containers".to_owned(), json!(others));
    }
    let mut cache = Vec::new();
    let said = &component["compilationCache"];
    if let Some(claim) = said.get("pvcName") {
        let mut mount = json!({"name": claim, "useAsCompilationCache": true});
        if let Some(path) = said.get("mountPath") {
            mount["mountPoint"] = path.clone();
        }
        cache.push(mount);
    }
    let mut main = find(containers, "name", MAIN).cloned().unwrap_or_default();
    let fields = object_mut(&mut main);
    fields.remove("name");
    split_main(fields, service, cache);
    if !fields.is_empty() {
        extra.insert("mainContainer".to_owned(), main);
    }
    if !extra.is_empty() {
        service["extraPodSpec"] = Value::Object(extra);
    }
}

/// Moves what has a place of its own out of the main container.
fn split_main(main: &mut Map<String, Value>, service: &mut Value, cache: Vec<Value>) {
    if let Some(env) = main.remove("env") {
        service["envs"] = env;
    }
    for probe in ["livenessProbe", "readinessProbe"] {
        if let Some(value) = main.remove(probe) {
            service[probe] = value;
        }
    }
    let secret = main.get("envFrom").and_then(only_secret);
    if let Some(secret) = secret {
        main.remove("envFrom");
        service["envFromSecret"] = json!(secret);
    }
    if let Some(amounts) = main.get("resources").and_then(amounts_to_spoke) {
        main.remove("resources");
        service["resources"] = amounts;
    }
    let mounts = main.get("volumeMounts").cloned().unwrap_or_default();
    let is_plain = |mount: &Value| {
        let fields = mount.as_object().map_or(0, Map::len);
        fields == 2 && mount["name"].is_string() && mount["mountPath"].is_string()
    };
    let mut moved = cache;
    if list(&mounts).iter().all(is_plain) {
        main.remove("volumeMounts");
        let plain = list(&mounts).iter();
        moved.extend(
            plain.map(|mount| json!({"name": mount["name"], "mountPoint": mount["mountPath"]})),
        );
    }
    if !moved.is_empty() {
        *list_mut(&mut service["volumeMounts"]) = moved;
    }
}

/// The secret, if it is all that variables come from.
pub fn only_secret(sources: &Value) -> Option<String> {
    let [one] = list(sources) else { return None };
    let name = one["secretRef"]["name"].as_str()?;
    (*one == json!({"secretRef": {"name": name}})).then(|| name.to_owned())
}

/// Amounts by the names of resources.
fn amounts_to_hub(resources: &Value) -> Map<String, Value> {
    let mut made = Map::new();
    for field in ["requests", "limits"] {
        let mut amounts = Map::new();
        let said = &resources[field];
        for name in ["cpu", "memory"] {
            if let Some(amount) = said.get(name) {
                amounts.insert(name.to_owned(), amount.clone());
            }
        }
        if let Some(gpu) = said.get("gpu") {
            let kind = match text(&said["gpuType"]) {
                "" => GPU,
                kind => kind,
            };
            amounts.insert(kind.to_owned(), gpu.clone());
        }
        amounts.extend(said["custom"].as_object().cloned().unwrap_or_default());
        if !amounts.is_empty() {
            made.insert(field.to_owned(), Value::Object(amounts));
        }
    }
    if let Some(claims) = resources.get("claims") {
        made.insert("claims".to_owned(), claims.clone());
    }
    made
}

/// Amounts by the names of fields; `None` if some are no texts.
fn amounts_to_spoke(resources: &Value) -> Option<Value> {
    let mut made = Map::new();
    for (field, amounts) in resources.as_object()? {
        if field == "claims" {
            made.insert(field.clone(), amounts.clone());
            continue;
        }
        if !matches!(field.as_str(), "requests" | "limits") {
            return None;
        }
        let mut said = json!({});
        for (name, amount) in amounts.as_object()? {
            amount.as_str()?;
            match name.as_str() {
                "cpu" | "memory" => said[name] = amount.clone(),
                GPU => said["gpu"] = amount.clone(),
                _ => said["custom"][name] = amount.clone(),
            }
        }
        made.insert(field.clone(), said);
    }
    Some(Value::Object(made))
}
