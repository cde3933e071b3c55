//! What a pod's containers need before they start: the objects it refers to, its volumes, and from
//! both what exactly to run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use reconcile::{Error, Kind, Name, Object};
use serde_json::Value;

use super::environment::{Sources, Variables, environment, expand};
use super::sandbox;
use super::worker::Shared;
use crate::agent::SERVICE;
use crate::machine;
use crate::register::MANAGER;
use crate::runtime::{ContainerId, ContainerSpec, Refusal};
use crate::volumes::{self, Materials, Tokens, Volume};

pub const CONFIG_MAP: Kind = Kind::namespaced("", "v1", "ConfigMap", "configmaps");
pub const SECRET: Kind = Kind::namespaced("", "v1", "Secret", "secrets");
/// Where programs are looked for when nothing says otherwise.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What was made for a pod.
pub struct Prepared {
    pub sources: Sources,
    /// Where each volume is on this machine.
    pub volumes: BTreeMap<String, Volume>,
    tokens: Tokens,
    /// Whether something of it follows objects that may change.
    pub is_living: bool,
}

/// Reads what the pod refers to and makes its volumes.
pub async fn prepare(
    shared: &Shared,
    pod: &Object,
    before: Option<Prepared>,
) -> Result<Prepared, Refusal> {
    let refused = |error: Error| Refusal { reason: "FailedMount", message: error.said() };
    let sources = read(shared, pod).await.map_err(refused)?;
    let is_living = volumes::follow_objects(pod);
    let directory = directory(shared, &pod.uid);
    let mut tokens = before.map(|before| before.tokens).unwrap_or_default();
    let materials = Materials { sources: &sources, directory: &directory, tokens: &mut tokens };
    let volumes = volumes::make(shared, pod, materials).await?;
    Ok(Prepared { sources, volumes, tokens, is_living })
}

/// Removes what was made for a pod.
pub fn remove(shared: &Shared, uid: &str) {
    let directory = directory(shared, uid);
    if let Err(error) = std::fs::remove_dir_all(&directory)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(pod = uid, %error, "volumes not removed");
    }
}

pub fn directory(shared: &Shared, uid: &str) -> PathBuf {
    shared.options.directory.join("volumes").join(uid)
}

/// What exactly to run.
pub fn container(
    pod: &Object,
    container: &Value,
    prepared: &Prepared,
    (id, failures): (ContainerId, u32),
) -> Result<ContainerSpec, Refusal> {
    let mut variables = Variables::default();
    variables.set("PATH", std::env::var("PATH").unwrap_or_else(|_| PATH.to_owned()));
    variables.set("HOSTNAME", hostname(pod));
    variables.set("HOME", std::env::var("HOME").unwrap_or_else(|_| "/".to_owned()));
    for (name, value) in environment(pod, container, &prepared.sources)?.into_list() {
        variables.set(&name, value);
    }
    let words = |field: &str| -> Vec<String> {
        let list = container[field].as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(|word| expand(word, &variables)).collect()
    };
    let command = match words("command") {
        // Arguments alone are for the image's own program, which nobody knows here.
        command if command.is_empty() => Vec::new(),
        command => [command, words("args")].concat(),
    };
    let context = |field: &str| {
        let own = container["securityContext"][field].as_u64();
        let of_pod = pod.value["spec"]["securityContext"][field].as_u64();
        own.or(of_pod).and_then(|number| u32::try_from(number).ok())
    };
    let user = context("runAsUser");
    not_root(pod, container, user)?;
    Ok(ContainerSpec {
        namespace: pod.name.namespace.to_string(),
        pod_name: pod.name.name.to_string(),
        image: container["image"].as_str().unwrap_or_default().to_owned(),
        command,
        working_directory: container["workingDir"].as_str().map(str::to_owned),
        mounts: volumes::mounts(container, &prepared.volumes, &variables)?,
        user,
        group: context("runAsGroup"),
        failures,
        env: variables.into_list(),
        id,
    })
}

fn not_root(pod: &Object, container: &Value, user: Option<u32>) -> Result<(), Refusal> {
    let asks = |context: &Value| context["runAsNonRoot"].as_bool();
    let own = asks(&container["securityContext"]);
    let is_asked = own.or(asks(&pod.value["spec"]["securityContext"])).unwrap_or(false);
    if is_asked && user.unwrap_or(0) == 0 {
        let name = container["name"].as_str().unwrap_or_default();
        let message = format!(
            "container has runAsNonRoot and image will run as root (pod: \"{}_{}({})\", \
             container: {name})",
            pod.name.name, pod.name.namespace, pod.uid
        );
        return Err(Refusal { reason: "CreateContainerConfigError", message });
    }
    Ok(())
}

fn hostname(pod: &Object) -> String {
    let own = pod.value["spec"]["hostname"].as_str().unwrap_or(&pod.name.name);
    own.chars().take(63).collect()
}

async fn read(shared: &Shared, pod: &Object) -> Result<Sources, Error> {
    let requests = shared.context.requests(MANAGER, Default::default());
    let namespace = &pod.name.namespace;
    let (config_maps, secrets) = references(pod);
    let mut services = shared.context.cache(SERVICE).in_namespace(namespace);
    if let Some(connected) = &shared.options.network {
        services = services.iter().map(|service| connected.network.told(service)).collect();
    }
    let mut sources = Sources {
        services,
        node_address: shared.options.address.to_string(),
        capacity: machine::capacity(&shared.options.directory),
        api: sandbox::api(shared, pod),
        ..Sources::default()
    };
    for name in config_maps {
        if let Some(found) = requests.get(CONFIG_MAP, &Name::new(&**namespace, &*name)).await? {
            sources.config_maps.insert(name, Arc::new(found));
        }
    }
    for name in secrets {
        if let Some(found) = requests.get(SECRET, &Name::new(&**namespace, &*name)).await? {
            let data = found.value["data"].as_object().cloned().unwrap_or_default();
            let decode = |value: &Value| BASE64_STANDARD.decode(value.as_str().unwrap_or_default());
            let data =
                data.iter().map(|(key, value)| (key.clone(), decode(value).unwrap_or_default()));
            sources.secrets.insert(name, data.collect());
        }
    }
    Ok(sources)
}

/// The names of the ConfigMaps and the Secrets that a pod refers to.
fn references(pod: &Object) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut config_maps, mut secrets) = (BTreeSet::new(), BTreeSet::new());
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut add = |config_map: &Value, secret: &Value| {
        config_maps.extend(config_map.as_str().map(str::to_owned));
        secrets.extend(secret.as_str().map(str::to_owned));
    };
    let spec = &pod.value["spec"];
    for container in ["initContainers", "containers"].iter().flat_map(|kind| list(&spec[*kind])) {
        for one in list(&container["env"]) {
            let from = &one["valueFrom"];
            add(&from["configMapKeyRef"]["name"], &from["secretKeyRef"]["name"]);
        }
        for one in list(&container["envFrom"]) {
            add(&one["configMapRef"]["name"], &one["secretRef"]["name"]);
        }
    }
    for volume in list(&spec["volumes"]) {
        add(&volume["configMap"]["name"], &volume["secret"]["secretName"]);
        for source in list(&volume["projected"]["sources"]) {
            add(&source["configMap"]["name"], &source["secret"]["name"]);
        }
    }
    (config_maps, secrets)
}
