//! The standards: which checks belong to which.

use serde_json::Value;

use super::checks::{self, Check, Pod};

pub const LEVELS: [&str; 3] = ["privileged", "baseline", "restricted"];

/// How much is forbidden. What forbids nothing is no level here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Baseline,
    Restricted,
}

impl Level {
    pub fn named(name: &str) -> Option<Level> {
        match name {
            "privileged" => None,
            "baseline" => Some(Level::Baseline),
            // Whatever cannot be read is as strict as can be; the labels were checked when written.
            _ => Some(Level::Restricted),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        }
    }
}

/// Version of the standards: the minor number of a Kubernetes release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32);

impl Version {
    pub const LATEST: Version = Version(u32::MAX);

    /// Reads `latest` or `v1.30`.
    pub fn parse(text: &str) -> Option<Version> {
        if text == "latest" {
            return Some(Version::LATEST);
        }
        let minor = text.strip_prefix("v1.").filter(|minor| !minor.starts_with('+'))?;
        minor.parse().ok().map(Version)
    }
}

/// A check, and the version of the standards that it is part of since.
type Row = (Check, Version);
const ALWAYS: Version = Version(0);

/// In the order in which they are told.
const BASELINE: [Row; 8] = [
    (checks::app_armor_profile, ALWAYS),
    (checks::host_namespaces, ALWAYS),
    (checks::host_ports, ALWAYS),
    (checks::host_probes, Version(34)),
    (checks::privileged, ALWAYS),
    (checks::proc_mount, ALWAYS),
    (checks::se_linux_options, ALWAYS),
    (checks::sysctls, ALWAYS),
];

/// Those of the baseline that the restricted standard has its own form of.
const BASELINE_ALONE: [Row; 3] = [
    (checks::capabilities_of_baseline, ALWAYS),
    (checks::host_path_volumes, ALWAYS),
    (checks::seccomp_profile_of_baseline, Version(19)),
];

const HOST_PROCESS: Row = (checks::host_process, ALWAYS);

const RESTRICTED: [Row; 6] = [
    (checks::allow_privilege_escalation, Version(8)),
    (checks::capabilities_of_restricted, Version(22)),
    (checks::volume_types, ALWAYS),
    (checks::run_as_non_root, ALWAYS),
    (checks::run_as_user, Version(23)),
    (checks::seccomp_profile_of_restricted, Version(19)),
];

/// Returns what of a pod, or of the template of one, is against a standard.
pub fn violations(level: Level, version: Version, pod: &Value) -> Vec<String> {
    let pod = Pod::of(pod, version);
    let own: &[Row] = match level {
        Level::Baseline => &BASELINE_ALONE,
        // Before its own form of a check, the restricted standard has that of the baseline.
        Level::Restricted if version < Version(22) => {
            let inherited = &BASELINE_ALONE[..1];
            let found = inherited.iter().filter_map(|(check, _)| check(&pod));
            let mut found: Vec<String> = found.map(|found| found.to_string()).collect();
            found.extend(judge(&pod, version, &RESTRICTED));
            return found;
        }
        Level::Restricted => &RESTRICTED,
    };
    judge(&pod, version, own)
}

fn judge(pod: &Pod<'_>, version: Version, own: &[Row]) -> Vec<String> {
    let all = BASELINE.iter().chain([&HOST_PROCESS]).chain(own);
    let all = all.filter(|(_, since)| version >= *since);
    all.filter_map(|(check, _)| check(pod)).map(|found| found.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(level: Level, spec: &Value) -> String {
        violations(level, Version::LATEST, &json!({"spec": spec})).join("\n")
    }

    #[test]
    fn the_baseline_forbids_what_reaches_the_machine() {
        let plain = json!({"containers": [{"name": "a"}]});
        assert_eq!(found(Level::Baseline, &plain), "");
        let cases = [
            (
                json!({"hostNetwork": true, "hostPID": true}),
                "host namespaces (hostNetwork=true, hostPID=true)",
            ),
            (
                json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}),
                "hostPath volumes (volume \"v\")",
            ),
            (
                json!({"containers": [{"name": "a", "ports": [{"hostPort": 80}]}, {"name": "b",
                "ports": [{"hostPort": 81}]}]}),
                "hostPort (containers \"a\", \"b\" use hostPorts 80, 81)",
            ),
            (
                json!({"containers": [{"name": "a", "securityContext": {"privileged": true}}]}),
                "privileged (container \"a\" must not set securityContext.privileged=true)",
            ),
            (
                json!({"containers": [{"name": "a", "securityContext":
                {"capabilities": {"add": ["NET_ADMIN", "CHOWN"]}}}]}),
                "non-default capabilities (container \"a\" must not include \"NET_ADMIN\" in \
                 securityContext.capabilities.add)",
            ),
            (
                json!({"securityContext": {"sysctls": [{"name": "kernel.msgmax"}]}}),
                "forbidden sysctls (kernel.msgmax)",
            ),
            (
                json!({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}),
                "seccompProfile (pod must not set securityContext.seccompProfile.type to \
                 \"Unconfined\")",
            ),
            (
                json!({"securityContext": {"seLinuxOptions": {"type": "x", "user": "u"}}}),
                "seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type \"x\"; \
                 user may not be set)",
            ),
            (
                json!({"initContainers": [{"name": "a",
                    "securityContext": {"procMount": "Unmasked"}}]}),
                "procMount (container \"a\" must not set securityContext.procMount to \
                 \"Unmasked\")",
            ),
            (
                json!({"containers": [{"name": "a", "livenessProbe": {"httpGet": {"host": "h"}}}]}),
                "probe or lifecycle host (container \"a\" uses probe or lifecycle host \"h\")",
            ),
        ];
        for (spec, expected) in cases {
            assert_eq!(found(Level::Baseline, &spec), expected);
        }
    }

    #[test]
    fn a_version_has_the_checks_that_it_had_when_it_was_new() {
        let judged = |version: &str, level: Level, spec: &Value| {
            let version = Version::parse(version).unwrap();
            violations(level, version, &json!({"spec": spec})).len()
        };
        let probe =
            json!({"containers": [{"name": "a", "livenessProbe": {"httpGet": {"host": "h"}}}]});
        let sysctl = |name: &str| json!({"securityContext": {"sysctls": [{"name": name}]}});
        for (version, spec, count) in [
            ("v1.33", &probe, 0),
            ("v1.34", &probe, 1),
            ("latest", &probe, 1),
            ("v1.28", &sysctl("net.ipv4.tcp_fin_timeout"), 1),
            ("v1.29", &sysctl("net.ipv4.tcp_fin_timeout"), 0),
            ("v1.31", &sysctl("net.ipv4.tcp_rmem"), 1),
            ("v1.32", &sysctl("net.ipv4.tcp_rmem"), 0),
        ] {
            assert_eq!(judged(version, Level::Baseline, spec), count, "{version} {spec}");
        }
        let root = json!({"securityContext": {"runAsUser": 0, "runAsNonRoot": true,
            "seccompProfile": {"type": "RuntimeDefault"}}, "containers": []});
        assert_eq!(judged("v1.22", Level::Restricted, &root), 0);
        assert_eq!(judged("v1.23", Level::Restricted, &root), 1);
        let raw = json!({"containers": [{"name": "a", "securityContext": {
            "allowPrivilegeEscalation": false, "runAsNonRoot": true,
            "seccompProfile": {"type": "RuntimeDefault"}, "capabilities": {"add": ["NET_RAW"]}}}]});
        assert_eq!(judged("v1.21", Level::Restricted, &raw), 1);
        assert_eq!(judged("v1.22", Level::Restricted, &raw), 1);
        assert_eq!(Version::parse("v1.+3"), None);
        assert_eq!(Version::parse("1.30"), None);
    }

    #[test]
    fn the_restricted_standard_wants_to_be_told_what_is_given_up() {
        let plain = json!({"containers": [{"name": "a"}]});
        assert_eq!(
            found(Level::Restricted, &plain),
            "allowPrivilegeEscalation != false (container \"a\" must set \
             securityContext.allowPrivilegeEscalation=false)\n\
             unrestricted capabilities (container \"a\" must set \
             securityContext.capabilities.drop=[\"ALL\"])\n\
             runAsNonRoot != true (pod or container \"a\" must set \
             securityContext.runAsNonRoot=true)\n\
             seccompProfile (pod or container \"a\" must set \
             securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")"
        );
        let good = json!({
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "volumes": [{"name": "v", "emptyDir": {}}, {"name": "t", "projected": {}}],
            "containers": [{"name": "a", "securityContext": {"allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}}],
        });
        assert_eq!(found(Level::Restricted, &good), "");
        let mut odd = good.clone();
        odd["volumes"][0] = json!({"name": "v", "hostPath": {"path": "/"}});
        odd["securityContext"]["runAsUser"] = json!(0);
        assert_eq!(
            found(Level::Restricted, &odd),
            "restricted volume types (volume \"v\" uses restricted volume type \"hostPath\")\n\
             runAsUser=0 (pod must not set runAsUser=0)"
        );
    }
}
