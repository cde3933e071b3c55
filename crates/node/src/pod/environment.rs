//! The environment of a container: service variables, `envFrom`, `env`, and what `$(NAME)` becomes.
//! Pure: whoever calls has read what is referred to.
//!
//! Upstream: pkg/kubelet/kubelet_pods.go (makeEnvironmentVariables)

use std::collections::BTreeMap;
use std::sync::Arc;

use reconcile::Object;
use serde_json::Value;

use super::resources::amount;
use super::spec;
use crate::runtime::Refusal;

/// The variables of a container, later ones win over earlier ones of the same name.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    order: Vec<String>,
    values: BTreeMap<String, String>,
}

impl Variables {
    pub fn set(&mut self, name: &str, value: String) {
        if self.values.insert(name.to_owned(), value).is_none() {
            self.order.push(name.to_owned());
        }
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    pub fn into_list(mut self) -> Vec<(String, String)> {
        let order = std::mem::take(&mut self.order);
        let pair = |name: String| self.values.remove(&name).map(|value| (name, value));
        order.into_iter().filter_map(pair).collect()
    }
}

/// What a pod's variables come from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// By name; those that do not exist are absent.
    pub config_maps: BTreeMap<String, Arc<Object>>,
    /// Decoded values by name and key.
    pub secrets: BTreeMap<String, BTreeMap<String, Vec<u8>>>,
    /// Of the pod's namespace.
    pub services: Vec<Arc<Object>>,
    pub node_address: String,
    /// What the node has, by resource.
    pub capacity: Value,
    /// Where programs find the API server.
    pub api: (String, u16),
}

/// All variables of a container.
pub fn environment(
    pod: &Object,
    container: &Value,
    sources: &Sources,
) -> Result<Variables, Refusal> {
    let mut variables = Variables::default();
    if pod.value["spec"]["enableServiceLinks"] != false {
        sources.services.iter().for_each(|service| of_service(service, &mut variables));
    }
    let (host, port) = &sources.api;
    variables.set("KUBERNETES_SERVICE_HOST", host.clone());
    variables.set("KUBERNETES_SERVICE_PORT", port.to_string());
    variables.set("KUBERNETES_SERVICE_PORT_HTTPS", port.to_string());
    let url = format!("tcp://{host}:{port}");
    variables.set("KUBERNETES_PORT", url.clone());
    let prefix = format!("KUBERNETES_PORT_{port}_TCP");
    variables.set(&prefix, url);
    variables.set(&format!("{prefix}_PROTO"), "tcp".to_owned());
    variables.set(&format!("{prefix}_PORT"), port.to_string());
    variables.set(&format!("{prefix}_ADDR"), host.clone());
    for from in list(&container["envFrom"]) {
        take_all(from, sources, &mut variables)?;
    }
    for one in list(&container["env"]) {
        let name = text(&one["name"]);
        let value = match &one["valueFrom"] {
            Value::Null => expand(text(&one["value"]), &variables),
            from => match value_from((pod, container), from, sources)? {
                Some(value) => value,
                None => continue,
            },
        };
        variables.set(name, value);
    }
    Ok(variables)
}

fn take_all(from: &Value, sources: &Sources, variables: &mut Variables) -> Result<(), Refusal> {
    let prefix = text(&from["prefix"]);
    if let Some(name) = from["configMapRef"]["name"].as_str() {
        let Some(found) = sources.config_maps.get(name) else {
            return optional(&from["configMapRef"], || format!("configmap \"{name}\" not found"));
        };
        for (key, value) in found.value["data"].as_object().into_iter().flatten() {
            variables.set(&format!("{prefix}{key}"), text(value).to_owned());
        }
    }
    if let Some(name) = from["secretRef"]["name"].as_str() {
        let Some(found) = sources.secrets.get(name) else {
            return optional(&from["secretRef"], || format!("secret \"{name}\" not found"));
        };
        for (key, value) in found {
            variables.set(&format!("{prefix}{key}"), String::from_utf8_lossy(value).into_owned());
        }
    }
    Ok(())
}

fn value_from(
    (pod, container): (&Object, &Value),
    from: &Value,
    sources: &Sources,
) -> Result<Option<String>, Refusal> {
    let namespace = &pod.name.namespace;
    if let Some(path) = from["fieldRef"]["fieldPath"].as_str() {
        return Ok(Some(field(pod, path, &sources.node_address)));
    }
    let reference = &from["configMapKeyRef"];
    if let (Some(name), key) = (reference["name"].as_str(), text(&reference["key"])) {
        let Some(found) = sources.config_maps.get(name) else {
            let why = || format!("configmap \"{name}\" not found");
            return optional(reference, why).map(|()| None);
        };
        return match found.value["data"][key].as_str() {
            Some(value) => Ok(Some(value.to_owned())),
            None => optional(reference, || {
                format!("couldn't find key {key} in ConfigMap {namespace}/{name}")
            })
            .map(|()| None),
        };
    }
    let reference = &from["secretKeyRef"];
    if let (Some(name), key) = (reference["name"].as_str(), text(&reference["key"])) {
        let Some(found) = sources.secrets.get(name) else {
            return optional(reference, || format!("secret \"{name}\" not found")).map(|()| None);
        };
        return match found.get(key) {
            Some(value) => Ok(Some(String::from_utf8_lossy(value).into_owned())),
            None => optional(reference, || {
                format!("couldn't find key {key} in Secret {namespace}/{name}")
            })
            .map(|()| None),
        };
    }
    let reference = &from["resourceFieldRef"];
    let specs = spec::containers(pod);
    let named = reference["containerName"].as_str().filter(|name| !name.is_empty());
    let of = match named {
        Some(name) => specs.iter().find(|spec| spec.name == name).map(|spec| spec.value),
        None => Some(container),
    };
    if let Some(amount) = of.and_then(|of| amount(reference, of, &sources.capacity)) {
        return Ok(Some(amount));
    }
    let message = format!("this node knows no variables of the kind {from}");
    Err(Refusal { reason: "CreateContainerConfigError", message })
}

fn optional(reference: &Value, message: impl Fn() -> String) -> Result<(), Refusal> {
    if reference["optional"] == true {
        return Ok(());
    }
    Err(Refusal { reason: "CreateContainerConfigError", message: message() })
}

/// A field of the pod, as the downward API names it.
pub fn field(pod: &Object, path: &str, node_address: &str) -> String {
    let spec = |name: &str| text(&pod.value["spec"][name]).to_owned();
    let subscript = |path: &str| {
        let key = path.split_once("['").and_then(|(_, rest)| rest.strip_suffix("']"));
        key.map(str::to_owned)
    };
    match path {
        "metadata.name" => pod.name.name.to_string(),
        "metadata.namespace" => pod.name.namespace.to_string(),
        "metadata.uid" => pod.uid.clone(),
        "metadata.labels" => lines(&pod.value["metadata"]["labels"]),
        "metadata.annotations" => lines(&pod.value["metadata"]["annotations"]),
        "spec.nodeName" => spec("nodeName"),
        "spec.serviceAccountName" => spec("serviceAccountName"),
        "status.podIP" if pod.value["status"]["podIP"].is_string() => {
            text(&pod.value["status"]["podIP"]).to_owned()
        }
        "status.podIPs" if pod.value["status"]["podIPs"].is_array() => {
            let all = list(&pod.value["status"]["podIPs"]).map(|one| text(&one["ip"]));
            all.collect::<Vec<_>>().join(",")
        }
        "status.hostIP" | "status.hostIPs" | "status.podIP" | "status.podIPs" => {
            node_address.to_owned()
        }
        path => match (path.split('[').next(), subscript(path)) {
            (Some("metadata.labels"), Some(key)) => pod.label(&key).unwrap_or_default().to_owned(),
            (Some("metadata.annotations"), Some(key)) => {
                pod.annotation(&key).unwrap_or_default().to_owned()
            }
            _ => String::new(),
        },
    }
}

/// `key="value"`, a line each, in the order of keys.
fn lines(map: &Value) -> String {
    let map: BTreeMap<&String, &Value> = map.as_object().into_iter().flatten().collect();
    let lines: Vec<String> =
        map.into_iter().map(|(key, value)| format!("{key}={:?}", text(value))).collect();
    lines.join("\n")
}

/// Replaces `$(NAME)` by the variable's value where there is one; `$$` stands for `$`.
pub fn expand(template: &str, variables: &Variables) -> String {
    let mut expanded = String::new();
    let mut rest = template;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(tail) = after.strip_prefix('$') {
            expanded.push('$');
            rest = tail;
        } else if let Some((name, tail)) =
            after.strip_prefix('(').and_then(|inner| inner.split_once(')'))
        {
            match variables.get(name) {
                Some(value) => expanded.push_str(value),
                None => expanded.push_str(&format!("$({name})")),
            }
            rest = tail;
        } else {
            expanded.push('$');
            rest = after;
        }
    }
    expanded.push_str(rest);
    expanded
}

/// The variables that tell of a service.
fn of_service(service: &Object, variables: &mut Variables) {
    let address = text(&service.value["spec"]["clusterIP"]);
    let ports: Vec<&Value> = list(&service.value["spec"]["ports"]).collect();
    let Some(first) = ports.first() else { return };
    if address.is_empty() || address == "None" {
        return;
    }
    let name = upper(&service.name.name);
    variables.set(&format!("{name}_SERVICE_HOST"), address.to_owned());
    variables.set(&format!("{name}_SERVICE_PORT"), first["port"].to_string());
    for port in &ports {
        if let Some(named) = port["name"].as_str().filter(|name| !name.is_empty()) {
            let variable = format!("{name}_SERVICE_PORT_{}", upper(named));
            variables.set(&variable, port["port"].to_string());
        }
    }
    let protocol = |port: &Value| text(&port["protocol"]).to_owned();
    let url =
        |port: &Value| format!("{}://{address}:{}", protocol(port).to_lowercase(), port["port"]);
    variables.set(&format!("{name}_PORT"), url(first));
    for port in ports {
        let prefix = format!("{name}_PORT_{}_{}", port["port"], protocol(port));
        variables.set(&prefix, url(port));
        variables.set(&format!("{prefix}_PROTO"), protocol(port).to_lowercase());
        variables.set(&format!("{prefix}_PORT"), port["port"].to_string());
        variables.set(&format!("{prefix}_ADDR"), address.to_owned());
    }
}

fn upper(name: &str) -> String {
    name.to_uppercase().replace('-', "_")
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
