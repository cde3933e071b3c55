//! What a pod's containers need before they start: the objects it refers to, its volumes, and from
//! both what exactly to run.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use reconcile::{Error, Kind, Name, Object, Wake};
use serde_json::Value;
use tokio::sync::Notify;

use super::confinement::{self, Identity};
use super::environment::{Sources, Variables, environment, expand};
use super::follow::Key;
use super::restart::between;
use super::worker::Shared;
use super::{host_environment, readable, sandbox, termination};
use crate::agent::SERVICE;
use crate::confinement::{Isolation, Security};
use crate::image::Found;
use crate::machine;
use crate::network::names;
use crate::register::MANAGER;
use crate::runtime::{ContainerId, ContainerSpec, Input, Mount, Refusal};
use crate::volumes::{self, Materials, Tokens, Volume};

pub const CONFIG_MAP: Kind = Kind::namespaced("", "v1", "ConfigMap", "configmaps");
pub const SECRET: Kind = Kind::namespaced("", "v1", "Secret", "secrets");
/// Below the node's directory.
const VOLUMES: &str = "volumes";
const PYTHON_PATH: &str = "PYTHONPATH";

/// What was made for a pod.
pub struct Prepared {
    pub sources: Sources,
    /// Where each volume is on this machine.
    pub volumes: BTreeMap<String, Volume>,
    /// What its containers have in common at `/dev/shm`.
    shared_memory: Option<Mount>,
    /// Of the pod.
    directory: PathBuf,
    tokens: Tokens,
    /// What it was made of: objects and the revision of each that was read.
    seen: BTreeMap<Key, u64>,
    /// The labels and annotations that files tell of, if files do.
    told: Option<(Value, Value)>,
    /// What its kernel calls it.
    hostname: String,
}

impl Prepared {
    /// When it has to be made again; `None` is at once.
    pub fn lasts(&self, shared: &Shared, pod: &Object) -> Option<Wake> {
        let is_old = self.seen.iter().any(|(key, seen)| shared.followers.latest(key) > *seen);
        if is_old || self.told.as_ref().is_some_and(|told| *told != said(pod)) {
            return None;
        }
        let now = shared.context.environment.now();
        let due = self.tokens.values().map(|token| token.due).min();
        match due.map(|due| between(now, due)) {
            None => Some(Wake::OnChange),
            Some(Duration::ZERO) => None,
            Some(left) => Some(Wake::After(left)),
        }
    }
}

/// Reads what the pod refers to and makes its volumes.
pub async fn prepare(
    shared: &Shared,
    (pod, wake): (&Object, &Arc<Notify>),
    before: Option<&Prepared>,
) -> Result<Prepared, Refusal> {
    let refused = |error: Error| Refusal { reason: "FailedMount", message: error.said() };
    let keys = references(pod);
    shared.followers.refer(&shared.context, (&pod.uid, wake), &keys);
    let (sources, seen) = read(shared, pod, &keys).await.map_err(refused)?;
    let directory = directory(shared, &pod.uid);
    let mut tokens = before.map(|before| before.tokens.clone()).unwrap_or_default();
    let known = before.map(|before| &before.volumes);
    let (sources_read, tokens_held) = (&sources, &mut tokens);
    let materials =
        Materials { sources: sources_read, directory: &directory, tokens: tokens_held, known };
    let volumes = volumes::make(shared, pod, materials).await?;
    let told = volumes::tell_of_pod(pod).then(|| said(pod));
    let (has_machines, at) = (pod.value["spec"]["hostIPC"] == true, directory.clone());
    let shared_memory = match has_machines {
        true => None,
        false => make_shared_memory(pod, at).await,
    };
    let hostname = names::kernel_name(pod, sandbox::domain(shared));
    Ok(Prepared { sources, volumes, shared_memory, directory, tokens, seen, told, hostname })
}

/// A pod runs without it where it cannot be made.
async fn make_shared_memory(pod: &Object, directory: PathBuf) -> Option<Mount> {
    let made = volumes::aside(move || volumes::shared_memory::make(&directory)).await;
    let failed = |error: &String| {
        tracing::warn!(pod = %pod.name, error, "the pod has no shared memory of its own");
    };
    made.inspect_err(failed).ok().flatten()
}

/// What a pod says of itself that may change.
fn said(pod: &Object) -> (Value, Value) {
    let meta = &pod.value["metadata"];
    (meta["labels"].clone(), meta["annotations"].clone())
}

/// Removes what was made for a pod.
pub async fn remove(shared: &Shared, uid: &str) {
    shared.followers.forget(uid);
    let directory = directory(shared, uid);
    if let Err(error) = volumes::aside(move || volumes::remove(&directory)).await {
        tracing::warn!(pod = uid, %error, "volumes not removed");
    }
}

/// The UIDs of the pods for which something was made.
pub fn found(shared: &Shared) -> Vec<String> {
    let entries = std::fs::read_dir(shared.options.directory.join(VOLUMES));
    let entries = entries.into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Creates the directory of all volumes for the user of the node only.
pub fn make_private(directory: &Path) -> io::Result<()> {
    let volumes = directory.join(VOLUMES);
    std::fs::create_dir_all(&volumes)?;
    std::fs::set_permissions(&volumes, std::fs::Permissions::from_mode(0o700))
}

/// What is made for a pod is below.
pub fn directory(shared: &Shared, uid: &str) -> PathBuf {
    shared.options.directory.join(VOLUMES).join(uid)
}

/// What exactly to run.
pub async fn container(
    shared: &Shared,
    pod: &Object,
    container: &Value,
    (prepared, image): (&Prepared, Option<&Found>),
    (id, failures): (ContainerId, u32),
) -> Result<ContainerSpec, Refusal> {
    let identity = identity(pod, container, image);
    not_root(pod, container, (identity.user, image))?;
    let of_pod = environment(pod, container, &prepared.sources)?;
    let own = host_environment::make(shared, pod, container, identity.user).await?;
    let variables = merge(own.variables, &prepared.hostname, of_pod);
    let words = |field: &str| -> Vec<String> {
        let list = container[field].as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(|word| expand(word, &variables)).collect()
    };
    let (command, arguments) = match words("command") {
        // Arguments alone are for the image's own program.
        command if command.is_empty() => (command, words("args")),
        command => ([command, words("args")].concat(), Vec::new()),
    };
    let user = user((identity.user, identity.group), image)?;
    let of_image = image.filter(|_| identity.user.is_none());
    let of_image = of_image.and_then(|image| image.user_number().ok()).filter(|user| *user != 0);
    volumes::give_to_image_user(pod, container, &prepared.volumes, of_image).await?;
    let mut mounts = volumes::mounts(container, &prepared.volumes, &variables).await?;
    mounts.extend(own.mounts);
    let last_words = termination::mount(&prepared.directory, &id, container);
    mounts.extend(last_words.map_err(|error| Refusal {
        reason: "CreateContainerError",
        message: format!("could not make the file of its termination message: {error}"),
    })?);
    let mut limits = confinement::limits(&pod.value, container, &prepared.sources.capacity);
    limits.processes = limits.processes.map(|most| most.min(machine::processes_max()));
    let shared_memory = prepared.shared_memory.iter();
    let is_free = |one: &&Mount| !mounts.iter().any(|mount| mount.target == one.target);
    let shared_memory: Vec<Mount> = shared_memory.filter(is_free).cloned().collect();
    mounts.extend(shared_memory);
    Ok(ContainerSpec {
        namespace: pod.name.namespace.to_string(),
        pod_name: pod.name.name.to_string(),
        image: container["image"].as_str().unwrap_or_default().to_owned(),
        command,
        arguments,
        working_directory: container["workingDir"].as_str().map(str::to_owned),
        mounts,
        user,
        group: identity.group,
        limits,
        security: Security {
            groups: identity.groups,
            ..security(shared, pod, container, (prepared, own.readable))
        },
        stop_signal: confinement::stop_signal(container),
        input: Input {
            is_open: container["stdin"] == true,
            is_once: container["stdinOnce"] == true,
            is_terminal: container["tty"] == true,
        },
        gpus: Vec::new(),
        failures,
        env: variables.into_list(),
        id,
    })
}

/// Rights of a container. A container without an image shares files of the host, so what its pod
/// does not say is refused and not allowed.
fn security(
    shared: &Shared,
    pod: &Object,
    container: &Value,
    (prepared, mut paths): (&Prepared, Vec<PathBuf>),
) -> Security {
    let hostname = prepared.hostname.clone();
    let security = confinement::security(&pod.value, container, hostname);
    if shared.runtime.image_store().is_some() {
        return security;
    }
    let security = confinement::restrict_process(security, &pod.value, container);
    match pod.annotation(confinement::ISOLATION) {
        Some(confinement::ISOLATED) if !security.privileged => {
            paths.extend(readable::read(&shared.options.directory, &pod.name.namespace));
            let isolation = Isolation::Isolated { readable: paths };
            Security { isolation, no_new_privileges: true, ..security }
        }
        _ => security,
    }
}

/// Adds the pod's variables to those of the node, which give way.
fn merge(mut variables: Variables, hostname: &str, of_pod: Variables) -> Variables {
    variables.set("HOSTNAME", hostname.to_owned());
    let packages = variables.get(PYTHON_PATH).map(str::to_owned);
    for (name, value) in of_pod.into_list() {
        variables.set(&name, value);
    }
    // What `pip` installs into the container's own directory stays importable.
    if let (Some(packages), Some(value)) = (packages, variables.get(PYTHON_PATH))
        && *value != packages
    {
        let joined = format!("{value}:{packages}");
        variables.set(PYTHON_PATH, joined);
    }
    variables
}

fn identity(pod: &Object, container: &Value, image: Option<&Found>) -> Identity {
    let read = |file: &str| match image {
        // Who is known in it, its runtime reads there.
        Some(_) => String::new(),
        None => std::fs::read_to_string(file).unwrap_or_default(),
    };
    let users = (read("/etc/passwd"), read("/etc/group"));
    confinement::identity(&pod.value, container, (&users.0, &users.1))
}

/// Who a container runs as. A group alone goes with the user of the image: runtimes are told both
/// or neither, and by number.
fn user(
    (user, group): (Option<u32>, Option<u32>),
    image: Option<&Found>,
) -> Result<Option<u32>, Refusal> {
    match (user, group, image.map(Found::user_number)) {
        (None, Some(_), Some(Ok(number))) => Ok(Some(number)),
        (None, Some(_), Some(Err(name))) => Err(Refusal {
            reason: "CreateContainerConfigError",
            message: format!(
                "container has runAsGroup and image has non-numeric user ({name}); set runAsUser"
            ),
        }),
        (user, ..) => Ok(user),
    }
}

fn not_root(
    pod: &Object,
    container: &Value,
    (user, image): (Option<u32>, Option<&Found>),
) -> Result<(), Refusal> {
    let asks = |context: &Value| context["runAsNonRoot"].as_bool();
    let own = asks(&container["securityContext"]);
    let is_asked = own.or(asks(&pod.value["spec"]["securityContext"])).unwrap_or(false);
    if !is_asked {
        return Ok(());
    }
    let why = match (user, image.map(Found::user_number)) {
        (Some(0), _) => "container's runAsUser breaks non-root policy".to_owned(),
        (Some(_), _) => return Ok(()),
        (None, Some(Err(name))) => format!(
            "container has runAsNonRoot and image has non-numeric user ({name}), cannot verify \
             user is non-root"
        ),
        (None, Some(Ok(number))) if number != 0 => return Ok(()),
        (None, _) => "container has runAsNonRoot and image will run as root".to_owned(),
    };
    let name = container["name"].as_str().unwrap_or_default();
    let of = format!("{}_{}({})", pod.name.name, pod.name.namespace, pod.uid);
    let message = format!("{why} (pod: {of:?}, container: {name})");
    Err(Refusal { reason: "CreateContainerConfigError", message })
}

/// Reads the objects that a pod refers to, and says which revision of each it was.
async fn read(
    shared: &Shared,
    pod: &Object,
    keys: &BTreeSet<Key>,
) -> Result<(Sources, BTreeMap<Key, u64>), Error> {
    let requests = shared.context.requests(MANAGER, Default::default());
    let namespace = &pod.name.namespace;
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
    let mut seen = BTreeMap::new();
    for key in keys {
        // Looked up before it is read: what happens in between is news.
        let before = shared.followers.latest(key);
        let (kind, name) = key;
        let found = requests.get(*kind, name).await?;
        let revision = found.as_ref().map_or(0, |found| found.revision);
        seen.insert(key.clone(), revision.max(before));
        let Some(found) = found else { continue };
        let name = name.name.to_string();
        if *kind == CONFIG_MAP {
            sources.config_maps.insert(name, Arc::new(found));
        } else {
            sources.secrets.insert(name, decoded(&found));
        }
    }
    Ok((sources, seen))
}

pub fn decoded(secret: &Object) -> BTreeMap<String, Vec<u8>> {
    let data = secret.value["data"].as_object().into_iter().flatten();
    let decode = |value: &Value| BASE64_STANDARD.decode(value.as_str().unwrap_or_default());
    data.map(|(key, value)| (key.clone(), decode(value).unwrap_or_default())).collect()
}

/// The ConfigMaps and the Secrets that a pod refers to.
fn references(pod: &Object) -> BTreeSet<Key> {
    let mut keys = BTreeSet::new();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut add = |config_map: &Value, secret: &Value| {
        for (kind, name) in [(CONFIG_MAP, config_map), (SECRET, secret)] {
            // A name that cannot be one would ask for something else.
            let name = name.as_str().filter(|name| is_name(name));
            keys.extend(name.map(|name| (kind, Name::new(&*pod.name.namespace, name))));
        }
    };
    let spec = &pod.value["spec"];
    let kinds = ["initContainers", "containers", "ephemeralContainers"];
    for container in kinds.iter().flat_map(|kind| list(&spec[*kind])) {
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
    keys
}

/// Whether a text can be the name of an object, and so a step of a path.
pub fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    !text.is_empty() && !text.starts_with('.') && text.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_alone_goes_with_the_user_of_the_image() {
        let image = |user: &str| Found { user: user.to_owned(), ..Found::default() };
        let (numbered, named, roots) = (image("1000:1000"), image("web"), image(""));
        let group = (None, Some(7));
        assert_eq!(user(group, Some(&numbered)), Ok(Some(1000)));
        assert_eq!(user(group, Some(&roots)), Ok(Some(0)));
        let refusal = user(group, Some(&named)).unwrap_err();
        assert_eq!(refusal.reason, "CreateContainerConfigError");
        assert!(refusal.message.contains("non-numeric user (web)"), "{refusal}");
        // The pod's own word comes first, and who has no image has no user of it.
        assert_eq!(user((Some(5), Some(7)), Some(&named)), Ok(Some(5)));
        assert_eq!(user((None, None), Some(&named)), Ok(None));
        assert_eq!(user(group, None), Ok(None));
    }
}
