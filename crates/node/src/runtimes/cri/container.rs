//! What a container is made of, in the words of CRI. Pure.

use std::path::{Path, PathBuf};

use super::messages::{
    Capability, Container, ContainerConfig, ContainerMetadata, ImageSpec, Int64Value, KeyValue,
    LinuxContainerConfig, LinuxContainerResources, LinuxContainerSecurityContext, Map, Mount,
    MountPropagation, NamespaceMode, NamespaceOption, ProfileType, SecurityProfile,
};
use crate::confinement::{Filter, Limits, Processes, Security};
use crate::image::ImageName;
use crate::runtime::{ContainerId, ContainerSpec, Propagation};

/// Names of labels and annotations.
pub mod labels {
    use super::Map;

    pub const CLUSTER: &str = "k3.cluster";
    pub const CONTAINER_NAME: &str = "k3.container-name";
    pub const POD_NAME: &str = "io.kubernetes.pod.name";
    pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
    pub const POD_UID: &str = "io.kubernetes.pod.uid";
    pub const CONTAINER: &str = "io.kubernetes.container.name";
    pub const RESTARTS: &str = "io.kubernetes.container.restartCount";
    pub const FAILURES: &str = "setpoint.io/failures";
    pub const IMAGE: &str = "setpoint.io/image";
    pub const STOP_SIGNAL: &str = "setpoint.io/stop-signal";
    pub const HOST_NETWORK: &str = "setpoint.io/host-network";

    /// What tells ours from others'.
    pub fn ours(cluster: &str) -> Map {
        [(CLUSTER.to_owned(), cluster.to_owned())].into()
    }

    /// Those of everything of a pod.
    pub fn of_pod(cluster: &str, (uid, namespace, name): (&str, &str, &str)) -> Map {
        let mut all = ours(cluster);
        for (label, value) in [(POD_UID, uid), (POD_NAMESPACE, namespace), (POD_NAME, name)] {
            all.insert(label.to_owned(), value.to_owned());
        }
        all
    }
}

/// How long a turn of the processor is shared, in microseconds.
const CPU_PERIOD: i64 = 100_000;
/// The least that a share can be.
const CPU_SHARES_MIN: u64 = 2;

/// What of `/proc` and `/sys` containers do not see, or cannot write.
const MASKED: [&str; 9] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/sys/firmware",
];
const READ_ONLY: [&str; 5] =
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// Where its output goes, below that of its pod.
pub fn log_path(id: &ContainerId) -> PathBuf {
    Path::new(&id.name).join(format!("{}.log", id.attempt))
}

/// Which of ours a container is.
pub fn id_of(container: &Container) -> Option<ContainerId> {
    let pod = container.labels.get(labels::POD_UID)?;
    let metadata = container.metadata.as_ref()?;
    Some(ContainerId::new(pod, &metadata.name, metadata.attempt))
}

/// The name by which a runtime finds an image.
pub fn image_name(image: &str) -> String {
    ImageName::parse(image).map_or_else(|_| image.to_owned(), |name| name.full())
}

/// What to make. `target` is the container whose processes it sees, if there is one.
pub fn config(
    cluster: &str,
    spec: &ContainerSpec,
    host_network: bool,
    target: &str,
) -> ContainerConfig {
    let id = &spec.id;
    let mut marks = labels::of_pod(cluster, (&id.pod, &spec.namespace, &spec.pod_name));
    marks.insert(labels::CONTAINER.to_owned(), id.name.clone());
    let name = format!("k8s_{}_{}_{}", spec.namespace, spec.pod_name, id.name);
    // A label has at most so many characters; the name is for people.
    marks.insert(labels::CONTAINER_NAME.to_owned(), name);
    let mut notes = Map::new();
    notes.insert(labels::RESTARTS.to_owned(), id.attempt.to_string());
    notes.insert(labels::FAILURES.to_owned(), spec.failures.to_string());
    notes.insert(labels::IMAGE.to_owned(), spec.image.clone());
    if let Some(signal) = spec.stop_signal {
        notes.insert(labels::STOP_SIGNAL.to_owned(), signal.to_string());
    }
    let envs =
        spec.env.iter().map(|(key, value)| KeyValue { key: key.clone(), value: value.clone() });
    ContainerConfig {
        metadata: Some(ContainerMetadata { name: id.name.clone(), attempt: id.attempt }),
        image: Some(ImageSpec { image: image_name(&spec.image) }),
        command: spec.command.clone(),
        args: spec.arguments.clone(),
        working_dir: spec.working_directory.clone().unwrap_or_default(),
        envs: envs.collect(),
        mounts: mounts(spec),
        labels: marks,
        annotations: notes,
        log_path: log_path(id).display().to_string(),
        stdin: spec.input.is_open,
        stdin_once: spec.input.is_once,
        tty: spec.input.is_terminal,
        linux: Some(LinuxContainerConfig {
            resources: Some(resources(&spec.limits)),
            security_context: Some(security(spec, host_network, target)),
        }),
    }
}

fn mounts(spec: &ContainerSpec) -> Vec<Mount> {
    let of_mount = |mount: &crate::runtime::Mount| Mount {
        container_path: mount.target.display().to_string(),
        host_path: mount.source.display().to_string(),
        readonly: mount.read_only,
        propagation: match mount.propagation {
            Propagation::None => MountPropagation::Private,
            Propagation::FromHost => MountPropagation::HostToContainer,
            Propagation::Both => MountPropagation::Bidirectional,
        } as i32,
    };
    spec.mounts.iter().map(of_mount).collect()
}

fn resources(limits: &Limits) -> LinuxContainerResources {
    let number = |amount: Option<u64>| amount.and_then(|it| i64::try_from(it).ok()).unwrap_or(0);
    let memory = number(limits.own.memory_bytes);
    LinuxContainerResources {
        cpu_period: CPU_PERIOD,
        cpu_quota: number(limits.own.cpu_quota),
        cpu_shares: number(limits.own.cpu_shares.map(|shares| shares.max(CPU_SHARES_MIN))),
        memory_limit_in_bytes: memory,
        // As much with swap as without: none.
        memory_swap_limit_in_bytes: memory,
        oom_score_adj: limits.oom_score.into(),
    }
}

fn security(
    spec: &ContainerSpec,
    host_network: bool,
    target: &str,
) -> LinuxContainerSecurityContext {
    let Security { privileged, unmasked, .. } = spec.security;
    let security = &spec.security;
    let number = |id: Option<u32>| id.map(|id| Int64Value { value: id.into() });
    let paths = |paths: &[&str]| -> Vec<String> {
        match privileged || unmasked {
            true => Vec::new(),
            false => paths.iter().map(|path| (*path).to_owned()).collect(),
        }
    };
    let user = number(spec.user);
    LinuxContainerSecurityContext {
        capabilities: Some(Capability {
            add_capabilities: security.add.clone(),
            drop_capabilities: security.drop.clone(),
        }),
        privileged,
        namespace_options: Some(namespaces(security, host_network, target)),
        // A group alone has no meaning in CRI.
        run_as_group: number(spec.group).filter(|_| user.is_some()),
        run_as_user: user,
        readonly_rootfs: security.read_only_root,
        supplemental_groups: security.groups.iter().map(|group| i64::from(*group)).collect(),
        no_new_privs: security.no_new_privileges,
        masked_paths: paths(&MASKED),
        readonly_paths: paths(&READ_ONLY),
        seccomp: Some(profile(&security.filter)),
    }
}

fn namespaces(security: &Security, host_network: bool, target: &str) -> NamespaceOption {
    let node_if = |is_node: bool| match is_node {
        true => NamespaceMode::Node as i32,
        false => NamespaceMode::Pod as i32,
    };
    let pid = match (security.processes, target) {
        (Processes::OfHost, _) => NamespaceMode::Node,
        (Processes::OfPod, _) => NamespaceMode::Pod,
        (Processes::Own, "") => NamespaceMode::Container,
        (Processes::Own, _) => NamespaceMode::Target,
    };
    NamespaceOption {
        network: node_if(host_network),
        ipc: node_if(security.host_ipc),
        pid: pid as i32,
        target_id: target.to_owned(),
    }
}

fn profile(filter: &Filter) -> SecurityProfile {
    let (kind, file) = match filter {
        Filter::Unconfined => (ProfileType::Unconfined, ""),
        Filter::RuntimeDefault => (ProfileType::RuntimeDefault, ""),
        Filter::Localhost(file) => (ProfileType::Localhost, file.as_str()),
    };
    SecurityProfile { profile_type: kind as i32, localhost_ref: file.to_owned() }
}
