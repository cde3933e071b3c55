//! The checks of the standards: each says what of a pod it forbids, in upstream's words.
//!
//! Upstream: staging/src/k8s.io/pod-security-admission/policy

use std::fmt;

use serde_json::Value;

use super::standards::Version;
use crate::registry::edit::{at, list, text};

/// What is forbidden, and what of the pod is.
#[derive(Debug, PartialEq, Eq)]
pub struct Violation {
    what: &'static str,
    detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.detail.as_str() {
            "" => formatter.write_str(self.what),
            detail => write!(formatter, "{} ({detail})", self.what),
        }
    }
}

pub type Check = fn(&Pod<'_>) -> Option<Violation>;

/// What checks look at.
pub struct Pod<'a> {
    version: Version,
    spec: &'a Value,
    containers: Vec<&'a Value>,
}

impl<'a> Pod<'a> {
    /// Of a pod, or of the template of one, as a version of the standards judges it.
    pub fn of(pod: &'a Value, version: Version) -> Pod<'a> {
        let spec = at(pod, &["spec"]);
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        let containers = lists.iter().flat_map(|name| list(spec, &[*name])).collect();
        Pod { version, spec, containers }
    }

    fn is_windows(&self) -> bool {
        self.version >= Version(25) && text(self.spec, &["os", "name"]) == "windows"
    }

    /// The names of the containers of which something holds.
    fn named(&self, holds: impl Fn(&Value) -> bool) -> Vec<&'a str> {
        let found = self.containers.iter().filter(|container| holds(container));
        found.map(|container| text(container, &["name"])).collect()
    }
}

const CONTEXT: &str = "securityContext";
const DEFAULT_CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
/// Sysctls that a pod may set, and the version of the standards that allowed each.
const SAFE_SYSCTLS: [(&str, Version); 12] = [
    ("kernel.shm_rmid_forced", Version(0)),
    ("net.ipv4.ip_local_port_range", Version(0)),
    ("net.ipv4.ip_local_reserved_ports", Version(27)),
    ("net.ipv4.ip_unprivileged_port_start", Version(0)),
    ("net.ipv4.ping_group_range", Version(0)),
    ("net.ipv4.tcp_fin_timeout", Version(29)),
    ("net.ipv4.tcp_keepalive_intvl", Version(29)),
    ("net.ipv4.tcp_keepalive_probes", Version(29)),
    ("net.ipv4.tcp_keepalive_time", Version(29)),
    ("net.ipv4.tcp_rmem", Version(32)),
    ("net.ipv4.tcp_syncookies", Version(0)),
    ("net.ipv4.tcp_wmem", Version(32)),
];
const VOLUME_TYPES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];
const SE_LINUX_TYPES: [(&str, Version); 5] = [
    ("", Version(0)),
    ("container_t", Version(0)),
    ("container_init_t", Version(0)),
    ("container_kvm_t", Version(0)),
    ("container_engine_t", Version(31)),
];

pub fn host_namespaces(pod: &Pod<'_>) -> Option<Violation> {
    let fields = ["hostNetwork", "hostPID", "hostIPC"].into_iter();
    let shared: Vec<String> = fields
        .filter(|field| is_true(pod.spec, &[*field]))
        .map(|field| format!("{field}=true"))
        .collect();
    violation("host namespaces", shared.join(", "))
}

pub fn host_ports(pod: &Pod<'_>) -> Option<Violation> {
    let ports_of = |container: &Value| -> Vec<i64> {
        let ports = list(container, &["ports"]).iter();
        ports.filter_map(|port| port["hostPort"].as_i64()).filter(|port| *port != 0).collect()
    };
    let names = pod.named(|container| !ports_of(container).is_empty());
    let mut ports: Vec<i64> = pod.containers.iter().flat_map(|it| ports_of(it)).collect();
    ports.sort_unstable();
    ports.dedup();
    let shown: Vec<String> = ports.iter().map(i64::to_string).collect();
    let (uses, plural) = (plural(&names, "uses", "use"), if ports.len() == 1 { "" } else { "s" });
    let detail = format!("{} {uses} hostPort{plural} {}", containers(&names), shown.join(", "));
    violation("hostPort", if names.is_empty() { String::new() } else { detail })
}

/// Probes and handlers that go to another host.
pub fn host_probes(pod: &Pod<'_>) -> Option<Violation> {
    const HANDLERS: [&[&str]; 5] = [
        &["livenessProbe"],
        &["readinessProbe"],
        &["startupProbe"],
        &["lifecycle", "postStart"],
        &["lifecycle", "preStop"],
    ];
    let hosts_of = |container: &Value| -> Vec<String> {
        let handlers = HANDLERS.iter().map(|path| at(container, path));
        let hosts =
            handlers.flat_map(|it| ["httpGet", "tcpSocket"].map(|kind| text(it, &[kind, "host"])));
        let others = hosts.filter(|host| !["", "127.0.0.1", "::1"].contains(host));
        others.map(|host| format!("{host:?}")).collect()
    };
    let names = pod.named(|container| !hosts_of(container).is_empty());
    let mut hosts: Vec<String> = pod.containers.iter().flat_map(|it| hosts_of(it)).collect();
    hosts.sort();
    hosts.dedup();
    let (uses, plural) = (plural(&names, "uses", "use"), if hosts.len() == 1 { "" } else { "s" });
    let detail = format!(
        "{} {uses} probe or lifecycle host{plural} {}",
        containers(&names),
        hosts.join(", ")
    );
    let detail = if names.is_empty() { String::new() } else { detail };
    violation("probe or lifecycle host", detail)
}

pub fn host_process(pod: &Pod<'_>) -> Option<Violation> {
    let path = [CONTEXT, "windowsOptions", "hostProcess"];
    let names = pod.named(|container| is_true(container, &path));
    let subject = subject(is_true(pod.spec, &path), &names)?;
    let detail = format!("{subject} must not set {}=true", path.join("."));
    violation("hostProcess", detail)
}

pub fn privileged(pod: &Pod<'_>) -> Option<Violation> {
    let names = pod.named(|container| is_true(container, &[CONTEXT, "privileged"]));
    let detail = format!("{} must not set securityContext.privileged=true", containers(&names));
    violation("privileged", if names.is_empty() { String::new() } else { detail })
}

pub fn proc_mount(pod: &Pod<'_>) -> Option<Violation> {
    let mount = |container: &Value| text(container, &[CONTEXT, "procMount"]).to_owned();
    let names = pod.named(|container| !["", "Default"].contains(&mount(container).as_str()));
    let first =
        pod.containers.iter().map(|it| mount(it)).find(|it| !it.is_empty() && it != "Default");
    let detail =
        format!("{} must not set securityContext.procMount to {:?}", containers(&names), first?);
    violation("procMount", detail)
}

pub fn host_path_volumes(pod: &Pod<'_>) -> Option<Violation> {
    let volumes = list(pod.spec, &["volumes"]).iter();
    let paths = volumes.filter(|volume| volume["hostPath"].is_object());
    let names: Vec<&str> = paths.map(|volume| text(volume, &["name"])).collect();
    let detail = format!("{} {}", plural(&names, "volume", "volumes"), quoted(&names));
    violation("hostPath volumes", if names.is_empty() { String::new() } else { detail })
}

pub fn sysctls(pod: &Pod<'_>) -> Option<Violation> {
    let set = list(pod.spec, &[CONTEXT, "sysctls"]).iter().map(|it| text(it, &["name"]));
    let is_safe = |name: &str| is_in(&SAFE_SYSCTLS, name, pod.version);
    let forbidden: Vec<&str> = set.filter(|name| !is_safe(name)).collect();
    violation("forbidden sysctls", forbidden.join(", "))
}

pub fn app_armor_profile(pod: &Pod<'_>) -> Option<Violation> {
    let path = [CONTEXT, "appArmorProfile", "type"];
    let is_forbidden = |of: &Value| text(of, &path) == "Unconfined";
    let subject = subject(is_forbidden(pod.spec), &pod.named(is_forbidden))?;
    let detail = format!("{subject} must not set AppArmor profile type to \"Unconfined\"");
    violation("forbidden AppArmor profile", detail)
}

pub fn se_linux_options(pod: &Pod<'_>) -> Option<Violation> {
    let options = |of: &Value| at(of, &[CONTEXT, "seLinuxOptions"]).clone();
    let is_known = |name: &str| is_in(&SE_LINUX_TYPES, name, pod.version);
    let is_forbidden = |of: &Value| {
        let options = options(of);
        let is_set = |field| !text(&options, &[field]).is_empty();
        !is_known(text(&options, &["type"])) || is_set("user") || is_set("role")
    };
    let subject = subject(is_forbidden(pod.spec), &pod.named(is_forbidden))?;
    let all: Vec<Value> =
        std::iter::once(&pod.spec).chain(&pod.containers).map(|it| options(it)).collect();
    let types = all.iter().map(|it| text(it, &["type"])).filter(|it| !is_known(it));
    let types: Vec<&str> = types.collect();
    let mut faults = Vec::new();
    if !types.is_empty() {
        faults.push(format!("{} {}", plural(&types, "type", "types"), quoted(&types)));
    }
    for field in ["user", "role"] {
        if all.iter().any(|it| !text(it, &[field]).is_empty()) {
            faults.push(format!("{field} may not be set"));
        }
    }
    let detail =
        format!("{subject} set forbidden securityContext.seLinuxOptions: {}", faults.join("; "));
    violation("seLinuxOptions", detail)
}

pub fn capabilities_of_baseline(pod: &Pod<'_>) -> Option<Violation> {
    let detail = added(pod, &DEFAULT_CAPABILITIES).unwrap_or_default();
    violation("non-default capabilities", detail)
}

pub fn capabilities_of_restricted(pod: &Pod<'_>) -> Option<Violation> {
    if pod.is_windows() {
        return None;
    }
    let drops_all = |container: &Value| {
        list(container, &[CONTEXT, "capabilities", "drop"]).iter().any(|it| it == "ALL")
    };
    let names = pod.named(|container| !drops_all(container));
    let kept =
        format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", containers(&names));
    let kept = (!names.is_empty()).then_some(kept);
    let faults: Vec<String> = kept.into_iter().chain(added(pod, &["NET_BIND_SERVICE"])).collect();
    violation("unrestricted capabilities", faults.join("; "))
}

/// What is added beyond what may be.
fn added(pod: &Pod<'_>, allowed: &[&str]) -> Option<String> {
    let added_by = |container: &Value| -> Vec<String> {
        let added = list(container, &[CONTEXT, "capabilities", "add"]).iter();
        let added = added.filter_map(Value::as_str).filter(|it| !allowed.contains(it));
        added.map(str::to_owned).collect()
    };
    let names = pod.named(|container| !added_by(container).is_empty());
    let mut added: Vec<String> = pod.containers.iter().flat_map(|it| added_by(it)).collect();
    added.sort();
    added.dedup();
    let added: Vec<&str> = added.iter().map(String::as_str).collect();
    (!added.is_empty()).then(|| {
        let (who, what) = (containers(&names), quoted(&added));
        format!("{who} must not include {what} in securityContext.capabilities.add")
    })
}

pub fn allow_privilege_escalation(pod: &Pod<'_>) -> Option<Violation> {
    if pod.is_windows() {
        return None;
    }
    let path = [CONTEXT, "allowPrivilegeEscalation"];
    let names = pod.named(|container| at(container, &path) != &Value::Bool(false));
    let who = containers(&names);
    let detail = format!("{who} must set securityContext.allowPrivilegeEscalation=false");
    let detail = if names.is_empty() { String::new() } else { detail };
    violation("allowPrivilegeEscalation != false", detail)
}

pub fn volume_types(pod: &Pod<'_>) -> Option<Violation> {
    let (mut names, mut types) = (Vec::new(), Vec::new());
    for volume in list(pod.spec, &["volumes"]) {
        let sources = volume.as_object().into_iter().flatten().map(|(field, _)| field.as_str());
        let odd = sources.filter(|field| *field != "name" && !VOLUME_TYPES.contains(field));
        if let Some(odd) = odd.into_iter().next_back() {
            names.push(text(volume, &["name"]));
            types.push(odd);
        }
    }
    types.sort_unstable();
    types.dedup();
    let (volumes, uses) = (plural(&names, "volume", "volumes"), plural(&names, "uses", "use"));
    let kinds = plural(&types, "type", "types");
    let detail =
        format!("{volumes} {} {uses} restricted volume {kinds} {}", quoted(&names), quoted(&types));
    violation("restricted volume types", if names.is_empty() { String::new() } else { detail })
}

pub fn run_as_non_root(pod: &Pod<'_>) -> Option<Violation> {
    let path = [CONTEXT, "runAsNonRoot"];
    let pod_says = at(pod.spec, &path).as_bool();
    let refusing = pod.named(|container| at(container, &path) == &Value::Bool(false));
    let explicit = subject(pod_says == Some(false), &refusing)
        .map(|who| format!("{who} must not set securityContext.runAsNonRoot=false"));
    let silent = pod.named(|container| at(container, &path).is_null());
    let implicit = (!silent.is_empty() && pod_says.is_none()).then(|| {
        format!("pod or {} must set securityContext.runAsNonRoot=true", containers(&silent))
    });
    let faults: Vec<String> = explicit.into_iter().chain(implicit).collect();
    violation("runAsNonRoot != true", faults.join("; "))
}

pub fn run_as_user(pod: &Pod<'_>) -> Option<Violation> {
    let is_root = |of: &Value| at(of, &[CONTEXT, "runAsUser"]).as_i64() == Some(0);
    let subject = subject(is_root(pod.spec), &pod.named(is_root))?;
    violation("runAsUser=0", format!("{subject} must not set runAsUser=0"))
}

const PROFILE: [&str; 3] = [CONTEXT, "seccompProfile", "type"];

pub fn seccomp_profile_of_baseline(pod: &Pod<'_>) -> Option<Violation> {
    violation("seccompProfile", unconfined(pod).unwrap_or_default())
}

pub fn seccomp_profile_of_restricted(pod: &Pod<'_>) -> Option<Violation> {
    if pod.is_windows() {
        return None;
    }
    let silent = pod.named(|container| text(container, &PROFILE).is_empty());
    let implicit = (!silent.is_empty() && text(pod.spec, &PROFILE).is_empty()).then(|| {
        format!(
            "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \
             \"Localhost\"",
            containers(&silent)
        )
    });
    let faults: Vec<String> = unconfined(pod).into_iter().chain(implicit).collect();
    violation("seccompProfile", faults.join("; "))
}

fn unconfined(pod: &Pod<'_>) -> Option<String> {
    let is_forbidden = |of: &Value| text(of, &PROFILE) == "Unconfined";
    let subject = subject(is_forbidden(pod.spec), &pod.named(is_forbidden))?;
    Some(format!("{subject} must not set securityContext.seccompProfile.type to \"Unconfined\""))
}

/// Reports whether a name is in a table, in the rows that a version of the standards has.
fn is_in(table: &[(&str, Version)], name: &str, version: Version) -> bool {
    table.iter().any(|(known, since)| *known == name && version >= *since)
}

fn is_true(value: &Value, path: &[&str]) -> bool {
    at(value, path) == &Value::Bool(true)
}

/// Nothing said is nothing found.
fn violation(what: &'static str, detail: String) -> Option<Violation> {
    (!detail.is_empty()).then_some(Violation { what, detail })
}

/// Who is at fault: the pod, containers, or both.
fn subject(is_pod: bool, names: &[&str]) -> Option<String> {
    match (is_pod, names.is_empty()) {
        (true, true) => Some("pod".to_owned()),
        (true, false) => Some(format!("pod and {}", containers(names))),
        (false, false) => Some(containers(names)),
        (false, true) => None,
    }
}

fn containers(names: &[&str]) -> String {
    format!("{} {}", plural(names, "container", "containers"), quoted(names))
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

fn plural<'a>(names: &[&str], one: &'a str, many: &'a str) -> &'a str {
    if names.len() == 1 { one } else { many }
}
