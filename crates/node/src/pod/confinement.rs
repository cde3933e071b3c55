//! What a container may use and do, as its pod says. Pure.
//!
//! Upstream: pkg/kubelet/cm/helpers_linux.go, pkg/kubelet/qos/policy.go,
//! pkg/kubelet/kuberuntime/security_context.go, pkg/kubelet/sysctl/safe_sysctls.go

use amounts::Quantity;
use serde_json::Value;

use super::resources::quantity;
use crate::confinement::{Filter, Isolation, Limits, Processes, Quality, Security, Share};

/// Annotation of pods with the level of isolation of their namespace, which the API server sets.
pub const ISOLATION: &str = "setpoint.dev/isolation";
pub const ISOLATED: &str = "isolated";
const CPU_PERIOD: i128 = 100_000;
const CPU_QUOTA_MIN: i128 = 1_000;
const SHARES: (i128, i128) = (2, 262_144);
const BILLION: i128 = 1_000_000_000;
/// Processes and threads of one pod: enough for large programs, too few to hold up the machine.
const PROCESSES_MAX: u64 = 16_384;

/// Settings of the kernel that concern nobody but the pod.
const SAFE_SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
];
const SIGNALS: [(&str, i32); 31] = [
    ("SIGHUP", 1),
    ("SIGINT", 2),
    ("SIGQUIT", 3),
    ("SIGILL", 4),
    ("SIGTRAP", 5),
    ("SIGABRT", 6),
    ("SIGBUS", 7),
    ("SIGFPE", 8),
    ("SIGKILL", 9),
    ("SIGUSR1", 10),
    ("SIGSEGV", 11),
    ("SIGUSR2", 12),
    ("SIGPIPE", 13),
    ("SIGALRM", 14),
    ("SIGTERM", 15),
    ("SIGSTKFLT", 16),
    ("SIGCHLD", 17),
    ("SIGCONT", 18),
    ("SIGSTOP", 19),
    ("SIGTSTP", 20),
    ("SIGTTIN", 21),
    ("SIGTTOU", 22),
    ("SIGURG", 23),
    ("SIGXCPU", 24),
    ("SIGXFSZ", 25),
    ("SIGVTALRM", 26),
    ("SIGPROF", 27),
    ("SIGWINCH", 28),
    ("SIGIO", 29),
    ("SIGPWR", 30),
    ("SIGSYS", 31),
];

/// What a container may use. `pod` is the whole object, `capacity` what the node has.
pub fn limits(pod: &Value, container: &Value, capacity: &Value) -> Limits {
    let quality = quality(pod);
    let memory = quantity(&capacity["memory"]).unwrap_or(0) / BILLION;
    Limits {
        quality,
        own: share_of(container),
        pod: share_of_pod(pod),
        processes: Some(PROCESSES_MAX),
        oom_score: oom_score(pod, container, (quality, memory)),
    }
}

fn share_of(container: &Value) -> Share {
    let resources = &container["resources"];
    let limit = |resource: &str| quantity(&resources["limits"][resource]).filter(|it| *it > 0);
    let asked = quantity(&resources["requests"]["cpu"]).or_else(|| limit("cpu"));
    share(asked, limit("cpu"), limit("memory"))
}

/// What all containers have together, those of initialisation too. What one of them has no limit
/// for has none, unless the pod itself says one.
fn share_of_pod(pod: &Value) -> Share {
    let spec = &pod["spec"];
    let limits = amounts::pod::of(pod, "limits");
    let limit = |resource: &str| {
        let is_set = |of: &Value| {
            quantity(&of["resources"]["limits"][resource]).is_some_and(|amount| amount > 0)
        };
        let mut all = list(&spec["initContainers"]).chain(list(&spec["containers"]));
        let sum = limits.get(resource).filter(|_| is_set(spec) || all.all(is_set));
        sum.map(Quantity::billionths)
    };
    let asked = amounts::pod::of(pod, "requests").get("cpu").map(Quantity::billionths);
    share(asked, limit("cpu"), limit("memory"))
}

/// Amounts are in billionths.
fn share(asked: Option<i128>, cpu: Option<i128>, memory: Option<i128>) -> Share {
    let shares = asked.unwrap_or(0).saturating_mul(1024) / BILLION;
    let shares = shares.clamp(SHARES.0, SHARES.1);
    let quota = cpu.map(|cpu| (cpu.saturating_mul(CPU_PERIOD) / BILLION).max(CPU_QUOTA_MIN));
    let memory = memory.map(|memory| memory / BILLION);
    let number = |value: i128| u64::try_from(value).ok();
    Share {
        cpu_shares: number(shares),
        cpu_quota: quota.and_then(number),
        memory_bytes: memory.and_then(number),
    }
}

fn quality(pod: &Value) -> Quality {
    match pod["status"]["qosClass"].as_str() {
        Some("Guaranteed") => Quality::Guaranteed,
        Some("Burstable") => Quality::Burstable,
        _ => Quality::BestEffort,
    }
}

fn oom_score(pod: &Value, container: &Value, (quality, memory): (Quality, i128)) -> i32 {
    let name = pod["spec"]["priorityClassName"].as_str();
    if quality == Quality::Guaranteed || name == Some("system-node-critical") {
        return -997;
    }
    if quality == Quality::BestEffort {
        return 1000;
    }
    let asked = quantity(&container["resources"]["requests"]["memory"]).unwrap_or(0) / BILLION;
    let score = if memory > 0 { 1000 - 1000 * asked / memory } else { 999 };
    i32::try_from(score.clamp(3, 999)).unwrap_or(999)
}

/// What a container may do.
pub fn security(pod: &Value, container: &Value, hostname: String) -> Security {
    let spec = &pod["spec"];
    let (of_pod, own) = (&spec["securityContext"], &container["securityContext"]);
    let names = |field: &str| -> Vec<String> {
        let list = list(&own["capabilities"][field]);
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    Security {
        privileged: own["privileged"] == true,
        no_new_privileges: own["allowPrivilegeEscalation"] == false,
        add: names("add"),
        drop: names("drop"),
        read_only_root: own["readOnlyRootFilesystem"] == true,
        groups: Vec::new(),
        filter: filter(if own["seccompProfile"].is_object() { own } else { of_pod }),
        unmasked: own["procMount"] == "Unmasked",
        sysctls: sysctls(pod),
        processes: processes(pod),
        processes_of: container["targetContainerName"]
            .as_str()
            .filter(|name| !name.is_empty())
            .map(str::to_owned),
        host_ipc: spec["hostIPC"] == true,
        hostname: (spec["hostNetwork"] != true).then_some(hostname),
        isolation: Isolation::Host,
    }
}

/// Applies the defaults of containers that are processes of the host: the seccomp profile
/// `RuntimeDefault`, and no new privileges. A pod that Pod Security admits may ask for more.
pub fn restrict_process(security: Security, pod: &Value, container: &Value) -> Security {
    if security.privileged {
        return security;
    }
    let own = &container["securityContext"];
    let profiles = [own, &pod["spec"]["securityContext"]].map(|it| &it["seccompProfile"]["type"]);
    let filter = match profiles.iter().all(|profile| profile.is_null()) {
        true => Filter::RuntimeDefault,
        false => security.filter,
    };
    let no_new_privileges = own["allowPrivilegeEscalation"] != true;
    Security { filter, no_new_privileges, ..security }
}

/// Which processes the containers of a pod see.
pub fn processes(pod: &Value) -> Processes {
    let spec = &pod["spec"];
    match (spec["hostPID"] == true, spec["shareProcessNamespace"] == true) {
        (true, _) => Processes::OfHost,
        (false, true) => Processes::OfPod,
        (false, false) => Processes::Own,
    }
}

/// Settings of the kernel that the pod asks for.
pub fn sysctls(pod: &Value) -> Vec<(String, String)> {
    let asked = list(&pod["spec"]["securityContext"]["sysctls"]);
    let pair =
        |one: &Value| Some((one["name"].as_str()?.to_owned(), one["value"].as_str()?.to_owned()));
    asked.filter_map(pair).collect()
}

fn filter(context: &Value) -> Filter {
    let profile = &context["seccompProfile"];
    match profile["type"].as_str() {
        Some("RuntimeDefault") => Filter::RuntimeDefault,
        Some("Localhost") => {
            Filter::Localhost(profile["localhostProfile"].as_str().unwrap_or_default().to_owned())
        }
        _ => Filter::Unconfined,
    }
}

/// Who a container runs as: user, group, and the groups besides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub user: Option<u32>,
    pub group: Option<u32>,
    pub groups: Vec<u32>,
}

/// The identity, with what `/etc/passwd` and `/etc/group` say of the user unless only the pod's own
/// word counts.
pub fn identity(pod: &Value, container: &Value, (users, groups): (&str, &str)) -> Identity {
    let of_pod = &pod["spec"]["securityContext"];
    let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
    let context = |field: &str| number(&container["securityContext"][field]);
    let user = context("runAsUser").or_else(|| number(&of_pod["runAsUser"]));
    let known = user.and_then(|user| {
        let fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let found = fields.into_iter().find(|it| it.get(2) == Some(&user.to_string().as_str()))?;
        Some((found[0].to_owned(), found.get(3)?.parse::<u32>().ok()?))
    });
    let group = context("runAsGroup").or_else(|| number(&of_pod["runAsGroup"]));
    let group = group.or_else(|| known.as_ref().map(|(_, group)| *group));
    let mut all: Vec<u32> = list(&of_pod["supplementalGroups"]).filter_map(number).collect();
    all.extend(number(&of_pod["fsGroup"]));
    if let (Some((name, _)), true) = (&known, of_pod["supplementalGroupsPolicy"] != "Strict") {
        for line in groups.lines() {
            let fields: Vec<&str> = line.split(':').collect();
            let is_member = fields.get(3).is_some_and(|it| it.split(',').any(|one| one == name));
            if let (true, Some(Ok(number))) = (is_member, fields.get(2).map(|it| it.parse())) {
                all.push(number);
            }
        }
    }
    let mut seen = Vec::new();
    all.retain(|number| {
        let is_new = !seen.contains(number);
        seen.push(*number);
        is_new
    });
    Identity { user, group, groups: all }
}

/// The number of the signal that asks a container to end, if it names one.
pub fn stop_signal(container: &Value) -> Option<i32> {
    signal(container["lifecycle"]["stopSignal"].as_str()?)
}

/// The number of a signal: `SIGTERM`, `SIGRTMIN+3`.
pub fn signal(name: &str) -> Option<i32> {
    let known = SIGNALS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
    let real_time = || {
        let (from, sign) = match name.strip_prefix("SIGRTMIN") {
            Some(rest) => ((34, rest), 1),
            None => ((64, name.strip_prefix("SIGRTMAX")?), -1),
        };
        let step: i32 = from.1.trim_start_matches(['+', '-']).parse().unwrap_or(0);
        Some(from.0 + sign * step).filter(|number| (34..=64).contains(number))
    };
    known.or_else(real_time)
}

/// Why a pod is not taken because of a setting of the kernel, if it is not.
pub fn forbidden_sysctl(pod: &Value) -> Option<String> {
    let names = list(&pod["spec"]["securityContext"]["sysctls"]).map(|one| &one["name"]);
    for name in names.filter_map(Value::as_str) {
        let name = name.replace('/', ".");
        if !SAFE_SYSCTLS.contains(&name.as_str()) {
            return Some(format!("forbidden sysctl: {name:?} not allowlisted"));
        }
        let is_shared = (name.starts_with("net.") && pod["spec"]["hostNetwork"] == true)
            .then_some("hostNetwork")
            .or((name.starts_with("kernel.") && pod["spec"]["hostIPC"] == true)
                .then_some("hostIPC"));
        if let Some(field) = is_shared {
            return Some(format!("forbidden sysctl: {name:?} not allowed with {field} enabled"));
        }
    }
    None
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_process_is_filtered_and_gains_no_privileges_unless_its_pod_says_otherwise() {
        let restricted = |of_pod: Value, own: Value| {
            let pod = json!({"spec": {"securityContext": of_pod}});
            let container = json!({"securityContext": own});
            let security = security(&pod, &container, String::new());
            let security = restrict_process(security, &pod, &container);
            (security.filter, security.no_new_privileges)
        };
        let unconfined = json!({"seccompProfile": {"type": "Unconfined"}});
        assert_eq!(restricted(json!(null), json!(null)), (Filter::RuntimeDefault, true));
        assert_eq!(restricted(unconfined.clone(), json!({})), (Filter::Unconfined, true));
        assert_eq!(restricted(json!({}), unconfined), (Filter::Unconfined, true));
        let escalates = json!({"allowPrivilegeEscalation": true});
        assert_eq!(restricted(json!({}), escalates), (Filter::RuntimeDefault, false));
        assert_eq!(restricted(json!({}), json!({"privileged": true})), (Filter::Unconfined, false));
    }

    #[test]
    fn limits_are_the_containers_and_the_pods() {
        let container = |cpu: &str, memory: &str| {
            json!({"resources": {"requests": {"cpu": "250m", "memory": "64Mi"},
                "limits": {"cpu": cpu, "memory": memory}}})
        };
        let mut pod = json!({"spec": {"containers":
            [container("500m", "128Mi"), container("1", "1Gi")]},
            "status": {"qosClass": "Burstable"}});
        let own = pod["spec"]["containers"][0].clone();
        let told = limits(&pod, &own, &json!({"memory": "1Gi"}));
        let share = |shares, quota, bytes| Share {
            cpu_shares: Some(shares),
            cpu_quota: quota,
            memory_bytes: bytes,
        };
        assert_eq!(told.own, share(256, Some(50_000), Some(128 << 20)));
        assert_eq!(told.pod, share(512, Some(150_000), Some((1 << 30) + (128 << 20))));
        assert_eq!((told.quality, told.oom_score), (Quality::Burstable, 938));
        // One without a limit has none, and so has its pod.
        pod["spec"]["containers"][1] = json!({});
        let told = limits(&pod, &json!({}), &json!({}));
        assert_eq!(told.own, share(2, None, None));
        assert_eq!(told.pod, share(256, None, None));
        // One that runs before the others counts where it has more than they have.
        pod["spec"]["containers"] = json!([container("500m", "128Mi")]);
        pod["spec"]["initContainers"] = json!([container("2", "64Mi")]);
        let told = limits(&pod, &json!({}), &json!({}));
        assert_eq!(told.pod, share(256, Some(200_000), Some(128 << 20)));
        pod["spec"]["initContainers"][0]["resources"] = json!({"limits": {"memory": "1e9"}});
        let told = limits(&pod, &json!({}), &json!({}));
        assert_eq!(told.pod, share(256, None, Some(1_000_000_000)));
        pod["spec"]["initContainers"] = json!([]);
        pod["status"]["qosClass"] = json!("BestEffort");
        assert_eq!(limits(&pod, &own, &json!({})).oom_score, 1000);
        pod["status"]["qosClass"] = json!("Guaranteed");
        assert_eq!(limits(&pod, &own, &json!({})).oom_score, -997);
    }

    #[test]
    fn who_a_container_is_follows_from_pod_container_and_host() {
        let users = "root:x:0:0:root:/root:/bin/sh\nweb:x:33:34::/:/bin/sh\n";
        let groups = "root:x:0:\nlogs:x:4:syslog,web\nother:x:5:someone\n";
        let pod = json!({"spec": {"securityContext": {"runAsUser": 33, "fsGroup": 2000,
            "supplementalGroups": [7, 4]}}});
        let told = identity(&pod, &json!({}), (users, groups));
        let expected = Identity { user: Some(33), group: Some(34), groups: vec![7, 4, 2000] };
        assert_eq!(told, expected);
        let own = json!({"securityContext": {"runAsUser": 1000, "runAsGroup": 8}});
        let told = identity(&pod, &own, (users, groups));
        assert_eq!((told.user, told.group), (Some(1000), Some(8)));
        assert_eq!(identity(&json!({}), &json!({}), (users, groups)), Identity::default());
    }

    #[test]
    fn only_settings_that_concern_the_pod_alone_are_taken() {
        let pod = |name: &str| {
            let sysctls = json!([{"name": name, "value": "1"}]);
            json!({"spec": {"securityContext": {"sysctls": sysctls}}})
        };
        assert_eq!(forbidden_sysctl(&pod("net.ipv4.tcp_syncookies")), None);
        let told = forbidden_sysctl(&pod("kernel.msgmax")).unwrap();
        assert_eq!(told, "forbidden sysctl: \"kernel.msgmax\" not allowlisted");
        let mut host = pod("net.ipv4.tcp_syncookies");
        host["spec"]["hostNetwork"] = json!(true);
        let told = forbidden_sysctl(&host).unwrap();
        assert!(told.ends_with("not allowed with hostNetwork enabled"), "{told}");
    }

    #[test]
    fn signals_have_names() {
        let signal = |name: &str| stop_signal(&json!({"lifecycle": {"stopSignal": name}}));
        assert_eq!(signal("SIGUSR1"), Some(10));
        assert_eq!(signal("SIGRTMIN+3"), Some(37));
        assert_eq!(signal("SIGRTMAX-1"), Some(63));
        assert_eq!(signal("SIGNONE"), None);
        assert_eq!(stop_signal(&json!({})), None);
    }
}
