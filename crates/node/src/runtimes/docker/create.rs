//! What an engine is told of a container: pure, from our words to its words.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::confinement::{Filter, Processes};
use crate::runtime::{ContainerSpec, Mount, Propagation, SandboxSpec};
use crate::runtimes::pause;

/// By these our containers are found again; nothing without ours is ever touched.
pub const CLUSTER: &str = "k3.cluster";
pub const KIND: &str = "io.kubernetes.docker.type";
pub const POD_UID: &str = "io.kubernetes.pod.uid";
pub const POD_NAME: &str = "io.kubernetes.pod.name";
pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
pub const NAME: &str = "io.kubernetes.container.name";
pub const ATTEMPT: &str = "io.kubernetes.container.restartCount";
pub const IMAGE: &str = "setpoint.image";
pub const FAILURES: &str = "setpoint.failures";
pub const STOP_SIGNAL: &str = "setpoint.stop-signal";
pub const HOST_NETWORK: &str = "setpoint.host-network";
pub const SANDBOX: &str = "podsandbox";
pub const CONTAINER: &str = "container";
/// In which time a quota of processor time is.
const CPU_PERIOD: u64 = 100_000;
/// What the engine keeps of the output besides us.
const LOG_SIZE: &str = "10m";
/// What Podman keeps of it, in our place.
const LOG_SIZE_MAX: &str = "50mb";
/// What holds a pod is the last to be killed when memory is short.
const OOM_SCORE_OF_PAUSE: i32 = -998;

/// What holds for all containers of an engine.
#[derive(Clone, Debug)]
pub struct Engine {
    pub cluster: String,
    pub is_podman: bool,
    /// Of this process: who may not lower its score may not give a lower one either.
    pub oom_score_min: i32,
    /// What the machine allows, for an engine that asks for more by itself.
    pub files_max: u64,
    pub processes_max: u64,
}

/// Which containers and namespaces of the pod a container joins.
#[derive(Clone, Debug)]
pub struct Joined {
    pub sandbox: String,
    /// The container whose processes it sees.
    pub processes_of: Option<String>,
    pub host_network: bool,
}

/// The visible name of a container.
pub fn container_name(spec: &ContainerSpec) -> String {
    format!("k8s_{}_{}_{}", spec.namespace, spec.pod_name, spec.id.name)
}

pub fn sandbox_name(spec: &SandboxSpec) -> String {
    format!("k8s_POD_{}_{}", spec.namespace, spec.pod_name)
}

/// The container that holds what a pod shares.
pub fn sandbox(engine: &Engine, spec: &SandboxSpec, network: &str) -> Value {
    let sysctls: Map<String, Value> =
        spec.sysctls.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let mut host = json!({
        "NetworkMode": network,
        "IpcMode": "shareable",
        "OomScoreAdj": OOM_SCORE_OF_PAUSE.max(engine.oom_score_min),
        "Sysctls": sysctls,
        "ReadonlyRootfs": true,
        "LogConfig": {"Type": "none"},
        "RestartPolicy": {"Name": "no"},
    });
    host["Ulimits"] = engine.ulimits();
    let mut told = json!({
        "Image": pause::IMAGE,
        "Entrypoint": [pause::PATH],
        "Labels": {
            CLUSTER: engine.cluster,
            KIND: SANDBOX,
            POD_UID: spec.pod,
            POD_NAME: spec.pod_name,
            POD_NAMESPACE: spec.namespace,
            NAME: "POD",
            HOST_NETWORK: spec.host_network.to_string(),
        },
        "HostConfig": host,
    });
    if !spec.host_network {
        told["Hostname"] = json!(spec.hostname);
    }
    told
}

/// A container of a pod. `mounts` are those that remain, with the paths to use.
pub fn container(
    engine: &Engine,
    spec: &ContainerSpec,
    joined: &Joined,
    (mounts, log): (&[(PathBuf, Mount)], &str),
) -> Value {
    let mut told = json!({
        "Image": spec.image,
        "Env": spec.env.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>(),
        "Tty": spec.input.is_terminal,
        "OpenStdin": spec.input.is_open,
        "StdinOnce": spec.input.is_once,
        "AttachStdin": false,
        "AttachStdout": false,
        "AttachStderr": false,
        "Labels": {
            CLUSTER: engine.cluster,
            KIND: CONTAINER,
            POD_UID: spec.id.pod,
            POD_NAME: spec.pod_name,
            POD_NAMESPACE: spec.namespace,
            NAME: spec.id.name,
            ATTEMPT: spec.id.attempt.to_string(),
            IMAGE: spec.image,
            FAILURES: spec.failures.to_string(),
        },
        "HostConfig": host(engine, spec, joined, (mounts, log)),
    });
    // Else the image says it.
    if let Some(signal) = spec.stop_signal {
        told["StopSignal"] = json!(signal.to_string());
        told["Labels"][STOP_SIGNAL] = json!(signal.to_string());
    }
    if !spec.command.is_empty() {
        told["Entrypoint"] = json!(spec.command);
        told["Cmd"] = json!([]);
    } else if !spec.arguments.is_empty() {
        told["Cmd"] = json!(spec.arguments);
    }
    if let Some(directory) = &spec.working_directory {
        told["WorkingDir"] = json!(directory);
    }
    match (spec.user, spec.group) {
        // Who it is, the image says; a group alone has no words.
        (None, _) => {}
        (Some(user), None) => told["User"] = json!(user.to_string()),
        (Some(user), Some(group)) => told["User"] = json!(format!("{user}:{group}")),
    }
    told
}

fn host(
    engine: &Engine,
    spec: &ContainerSpec,
    joined: &Joined,
    (mounts, log): (&[(PathBuf, Mount)], &str),
) -> Value {
    let (limits, security) = (&spec.limits, &spec.security);
    let pod = format!("container:{}", joined.sandbox);
    let mut host = json!({
        "NetworkMode": pod,
        "IpcMode": if security.host_ipc { "host" } else { &pod },
        "Mounts": mounts.iter().map(|(source, mount)| bind(source, mount)).collect::<Vec<_>>(),
        "OomScoreAdj": limits.oom_score.max(engine.oom_score_min),
        "CapAdd": security.add,
        "CapDrop": security.drop,
        "GroupAdd": security.groups.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "Privileged": security.privileged,
        "ReadonlyRootfs": security.read_only_root,
        "SecurityOpt": options(spec),
        "RestartPolicy": {"Name": "no"},
        "AutoRemove": false,
        "LogConfig": match engine.is_podman {
            true => json!({"Type": "k8s-file", "Config": {"path": log, "max-size": LOG_SIZE_MAX}}),
            false => json!({"Type": "json-file",
                "Config": {"max-size": LOG_SIZE, "max-file": "2"}}),
        },
    });
    host["Ulimits"] = engine.ulimits();
    match (&joined.processes_of, security.processes) {
        (Some(container), _) => host["PidMode"] = json!(format!("container:{container}")),
        (None, Processes::OfHost) => host["PidMode"] = json!("host"),
        (None, Processes::OfPod) => host["PidMode"] = json!(pod),
        (None, Processes::Own) => {}
    }
    // Podman gives every container a name of its own.
    if engine.is_podman {
        host["UTSMode"] = json!(if joined.host_network { "host" } else { &pod });
    }
    if security.unmasked {
        host["MaskedPaths"] = json!([]);
        host["ReadonlyPaths"] = json!([]);
    }
    if let Some(shares) = limits.own.cpu_shares {
        host["CpuShares"] = json!(shares);
    }
    if let Some(quota) = limits.own.cpu_quota {
        host["CpuPeriod"] = json!(CPU_PERIOD);
        host["CpuQuota"] = json!(quota);
    }
    if let Some(bytes) = limits.own.memory_bytes {
        host["Memory"] = json!(bytes);
        // As much with swap as without: no swap.
        host["MemorySwap"] = json!(bytes);
    }
    // Podman has no such request: its hook reads the variable.
    if !spec.gpus.is_empty() && !engine.is_podman {
        let numbers: Vec<String> = spec.gpus.iter().map(u32::to_string).collect();
        host["DeviceRequests"] =
            json!([{"Driver": "nvidia", "DeviceIDs": numbers, "Capabilities": [["gpu"]]}]);
    }
    if let Some(processes) = limits.processes {
        host["PidsLimit"] = json!(processes);
    }
    host
}

fn options(spec: &ContainerSpec) -> Vec<String> {
    let security = &spec.security;
    let mut options = Vec::new();
    if security.no_new_privileges {
        options.push("no-new-privileges".to_owned());
    }
    if security.filter == Filter::Unconfined {
        options.push("seccomp=unconfined".to_owned());
    }
    options
}

fn bind(source: &std::path::Path, mount: &Mount) -> Value {
    let propagation = match mount.propagation {
        Propagation::None => "rprivate",
        Propagation::FromHost => "rslave",
        Propagation::Both => "rshared",
    };
    json!({
        "Type": "bind",
        "Source": source,
        "Target": mount.target,
        "ReadOnly": mount.read_only,
        "BindOptions": {"Propagation": propagation},
    })
}

impl Engine {
    /// Docker's containers have what it has itself; Podman asks for more than it may.
    pub fn ulimits(&self) -> Value {
        if !self.is_podman {
            return json!([]);
        }
        let one = |name: &str, max: u64| json!({"Name": name, "Soft": max, "Hard": max});
        json!([one("nofile", self.files_max), one("nproc", self.processes_max)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confinement::Share;
    use crate::contract;

    fn engine(is_podman: bool) -> Engine {
        let cluster = "c".to_owned();
        Engine { cluster, is_podman, oom_score_min: 0, files_max: 20_000, processes_max: 100 }
    }

    fn told(engine: &Engine, spec: &ContainerSpec) -> Value {
        let joined =
            Joined { sandbox: "pause".to_owned(), processes_of: None, host_network: false };
        container(engine, spec, &joined, (&[], "/log"))
    }

    #[test]
    fn a_command_takes_the_place_of_the_entrypoint_and_arguments_that_of_the_command() {
        let mut spec = contract::shell("web", "exit 0");
        assert_eq!(container_name(&spec), "k8s_default_web_main");
        let both = told(&engine(false), &spec);
        assert_eq!(both["Entrypoint"], json!(["sh", "-c", "exit 0"]));
        assert_eq!(both["Cmd"], json!([]));
        (spec.command, spec.arguments) = (Vec::new(), vec!["-v".to_owned()]);
        let arguments = told(&engine(false), &spec);
        assert!(arguments["Entrypoint"].is_null());
        assert_eq!(arguments["Cmd"], json!(["-v"]));
        spec.arguments.clear();
        let neither = told(&engine(false), &spec);
        assert!(neither["Entrypoint"].is_null() && neither["Cmd"].is_null());
    }

    #[test]
    fn limits_and_rights_are_said_in_the_engines_words() {
        let mut spec = contract::shell("web", "exit 0");
        spec.limits.own =
            Share { cpu_shares: Some(102), cpu_quota: Some(20_000), memory_bytes: Some(1 << 26) };
        spec.limits.oom_score = -997;
        spec.security.no_new_privileges = true;
        spec.security.add = vec!["NET_ADMIN".to_owned()];
        (spec.user, spec.group) = (Some(1000), Some(2000));
        spec.gpus = vec![2];
        let told_to_docker = told(&engine(false), &spec);
        let host = &told_to_docker["HostConfig"];
        assert_eq!(told_to_docker["User"], "1000:2000");
        assert_eq!((&host["CpuShares"], &host["CpuQuota"]), (&json!(102), &json!(20_000)));
        assert_eq!((&host["Memory"], &host["MemorySwap"]), (&json!(1 << 26), &json!(1 << 26)));
        // Who may not lower a score does not try.
        assert_eq!(host["OomScoreAdj"], 0);
        assert_eq!(host["SecurityOpt"], json!(["no-new-privileges", "seccomp=unconfined"]));
        assert_eq!(host["CapAdd"], json!(["NET_ADMIN"]));
        assert_eq!(host["NetworkMode"], "container:pause");
        assert!(host["UTSMode"].is_null());
        assert_eq!(host["DeviceRequests"][0]["DeviceIDs"], json!(["2"]));
        let told_to_podman = told(&engine(true), &spec);
        let host = &told_to_podman["HostConfig"];
        assert_eq!(host["UTSMode"], "container:pause");
        assert!(host["DeviceRequests"].is_null());
        assert_eq!(host["Ulimits"][0], json!({"Name": "nofile", "Soft": 20_000, "Hard": 20_000}));
        assert_eq!(host["LogConfig"]["Config"]["path"], "/log");
    }
}
