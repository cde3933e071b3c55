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

/// In the order in which they are told.
const BASELINE: [Check; 8] = [
    checks::app_armor_profile,
    checks::host_namespaces,
    checks::host_ports,
    checks::host_probes,
    checks::privileged,
    checks::proc_mount,
    checks::se_linux_options,
    checks::sysctls,
];

/// Those of the baseline that the restricted standard has its own form of.
const BASELINE_ALONE: [Check; 3] = [
    checks::capabilities_of_baseline,
    checks::host_path_volumes,
    checks::seccomp_profile_of_baseline,
];

const HOST_PROCESS: Check = checks::host_process;

const RESTRICTED: [Check; 6] = [
    checks::allow_privilege_escalation,
    checks::capabilities_of_restricted,
    checks::volume_types,
    checks::run_as_non_root,
    checks::run_as_user,
    checks::seccomp_profile_of_restricted,
];

/// What of a pod, or of the template of one, is against a standard.
pub fn violations(level: Level, pod: &Value) -> Vec<String> {
    let pod = Pod::of(pod);
    let own: &[Check] = match level {
        Level::Baseline => &BASELINE_ALONE,
        Level::Restricted => &RESTRICTED,
    };
    let all = BASELINE.iter().chain([&HOST_PROCESS]).chain(own);
    all.filter_map(|check| check(&pod)).map(|found| found.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(level: Level, spec: &Value) -> String {
        violations(level, &json!({"spec": spec})).join("\n")
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
