//! PodSecurity: what the labels of a namespace let its pods be.
//!
//! | file | |
//! |---|---|
//! | `standards.rs` | the standards `baseline` and `restricted`, as a table of checks |
//! | `checks.rs` | each check: what of a pod it forbids |
//!
//! `enforce` refuses pods; `warn` warns also whoever writes a workload that would make such pods;
//! `audit` annotates the audit event. A namespace without a label of its own enforces the default
//! of the cluster, except for namespaces of the system and of operators.
//!
//! Upstream: staging/src/k8s.io/pod-security-admission

mod checks;
mod standards;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use store::Entry;

pub use self::standards::Level;
use self::standards::{Version, violations};
use super::{Attributes, Operation, Plugin, lookup};
use crate::persist::stored;
use crate::registry::edit;
use crate::server::Server;
use crate::status::Error;

const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
const WARN: &str = "pod-security.kubernetes.io/warn";
const AUDIT: &str = "pod-security.kubernetes.io/audit";
/// Annotations of audit events.
const AUDIT_VIOLATIONS: &str = "pod-security.kubernetes.io/audit-violations";
const ENFORCE_POLICY: &str = "pod-security.kubernetes.io/enforce-policy";
/// Namespaces of the system, which no default applies to.
const SYSTEM_PREFIX: &str = "kube-";

/// Where the pod of a workload is described.
const TEMPLATES: [(&str, &str, &[&str]); 8] = [
    ("", "podtemplates", &["template"]),
    ("", "replicationcontrollers", &["spec", "template"]),
    ("apps", "daemonsets", &["spec", "template"]),
    ("apps", "deployments", &["spec", "template"]),
    ("apps", "replicasets", &["spec", "template"]),
    ("apps", "statefulsets", &["spec", "template"]),
    ("batch", "cronjobs", &["spec", "jobTemplate", "spec", "template"]),
    ("batch", "jobs", &["spec", "template"]),
];

/// Level of namespaces without labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    /// Level that is enforced; `None` allows everything.
    pub enforce: Option<Level>,
    /// Namespaces that the default does not apply to, besides those of the system.
    pub exempt: Vec<String>,
}

impl Defaults {
    fn level(&self, namespace: &str) -> Option<Level> {
        let is_exempt = namespace.starts_with(SYSTEM_PREFIX);
        let is_exempt = is_exempt || self.exempt.iter().any(|exempt| exempt == namespace);
        self.enforce.filter(|_| !is_exempt)
    }
}

pub struct PodSecurity;

#[async_trait]
impl Plugin for PodSecurity {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        let is_written = matches!(attributes.operation, Operation::Create | Operation::Update);
        let is_pod = attributes.resource.plural == "pods" && attributes.resource.group.is_empty();
        let is_whole = attributes.subresource.is_empty();
        let adds = attributes.subresource == "ephemeralcontainers";
        is_written && (is_pod && (is_whole || adds) || is_whole && template(attributes).is_some())
    }

    async fn validate(
        &self,
        server: &Server,
        attributes: &Attributes<'_>,
        object: &Value,
    ) -> Result<(), Error> {
        let name = attributes.namespace;
        let Some(namespace) = lookup::entry(server, "", "namespaces", ("", name)).await? else {
            return Ok(());
        };
        let policy = Policy::of(&namespace, name, &server.admission.pod_security);
        if let Some(path) = template(attributes) {
            let pod = edit::at(object, path);
            policy.audit(attributes, pod);
            policy.warn(attributes, pod);
            return Ok(());
        }
        if attributes.old.is_some_and(|old| !is_other(old, object)) {
            return Ok(());
        }
        if let Some(enforced) = &policy.enforce {
            attributes.request.annotations.add(ENFORCE_POLICY, enforced.name());
        }
        policy.audit(attributes, object);
        match policy.enforce.as_ref().and_then(|standard| standard.violated_by(object)) {
            Some(why) => {
                let remedy = policy.remedy(name);
                let why = format!("violates PodSecurity {why}{remedy}");
                Err(attributes.refuse(object, &why))
            }
            None => {
                policy.warn(attributes, object);
                Ok(())
            }
        }
    }
}

/// Standards that apply to the pods of a namespace.
struct Policy {
    enforce: Option<Standard>,
    warn: Option<Standard>,
    audit: Option<Standard>,
    is_default: bool,
}

impl Policy {
    fn of(namespace: &Arc<Entry>, name: &str, defaults: &Defaults) -> Policy {
        let has = |label: &str| stored(namespace).label(label).is_some();
        let is_default = !has(ENFORCE);
        let by_default = || {
            let level = defaults.level(name)?;
            Some(Standard { level, version: "latest".to_owned() })
        };
        let warn = match has(WARN) {
            true => Standard::of(namespace, WARN),
            // Whoever writes a workload learns at once that its pods will be refused.
            false if is_default => by_default(),
            false => None,
        };
        let enforce = match is_default {
            true => by_default(),
            false => Standard::of(namespace, ENFORCE),
        };
        Policy { enforce, warn, audit: Standard::of(namespace, AUDIT), is_default }
    }

    fn warn(&self, attributes: &Attributes<'_>, pod: &Value) {
        if let Some(why) = self.warn.as_ref().and_then(|standard| standard.violated_by(pod)) {
            attributes.warnings.add(format!("would violate PodSecurity {why}"));
        }
    }

    fn audit(&self, attributes: &Attributes<'_>, pod: &Value) {
        if let Some(why) = self.audit.as_ref().and_then(|standard| standard.violated_by(pod)) {
            let text = format!("would violate PodSecurity {why}");
            attributes.request.annotations.add(AUDIT_VIOLATIONS, text);
        }
    }

    /// Returns how an administrator allows such pods, where the namespace has not decided itself.
    fn remedy(&self, namespace: &str) -> String {
        match self.is_default {
            true => format!(
                " (the default of this cluster; to allow it, an administrator runs `kubectl label \
                 namespace {namespace} {ENFORCE}=privileged`)"
            ),
            false => String::new(),
        }
    }
}

/// A standard in a version.
struct Standard {
    level: Level,
    /// As the label says it.
    version: String,
}

impl Standard {
    /// Reads a label of a namespace; `None` where it allows everything or is missing.
    fn of(namespace: &Arc<Entry>, label: &str) -> Option<Standard> {
        let labels = stored(namespace);
        let level = Level::named(labels.label(label)?)?;
        let version = labels.label(&format!("{label}-version")).unwrap_or("latest").to_owned();
        Some(Standard { level, version })
    }

    fn name(&self) -> String {
        format!("{}:{}", self.level.name(), self.version)
    }

    /// Returns the standard and what of the pod is against it.
    fn violated_by(&self, pod: &Value) -> Option<String> {
        // Labels are checked when they are written; the newest standard is the safe one.
        let version = Version::parse(&self.version).unwrap_or(Version::LATEST);
        let found = violations(self.level, version, pod);
        (!found.is_empty()).then(|| format!("{:?}: {}", self.name(), found.join(", ")))
    }
}

fn template(attributes: &Attributes<'_>) -> Option<&'static [&'static str]> {
    let is_meant = |(group, plural, _): &&(&str, &str, &[&str])| {
        attributes.resource.group == *group && attributes.resource.plural == *plural
    };
    TEMPLATES.iter().find(is_meant).map(|(_, _, path)| *path)
}

/// Whether a change of a pod is one that the standards could judge differently: its images may
/// change, its finalizers and labels too.
fn is_other(old: &Value, new: &Value) -> bool {
    let judged = |pod: &Value| {
        let mut spec = pod["spec"].clone();
        for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates", "nodeName"] {
            edit::remove(&mut spec, field);
        }
        for list in ["containers", "initContainers", "ephemeralContainers"] {
            for container in edit::each_mut(&mut spec, &[list]) {
                edit::remove(container, "image");
                edit::remove(container, "resources");
            }
        }
        spec
    };
    judged(old) != judged(new)
}

/// What is wrong with a label of a namespace, if it is one of ours.
pub fn label_fault(label: &str, value: &str) -> Option<&'static str> {
    match label.strip_prefix("pod-security.kubernetes.io/")? {
        "enforce" | "warn" | "audit" => (!standards::LEVELS.contains(&value))
            .then_some("must be one of privileged, baseline, restricted"),
        "enforce-version" | "warn-version" | "audit-version" => {
            Version::parse(value).is_none().then_some("must be \"latest\" or \"v1.x\"")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_name_levels_and_versions() {
        let is_good = |mode: &str, value: &str| {
            label_fault(&format!("pod-security.kubernetes.io/{mode}"), value).is_none()
        };
        assert!(is_good("warn", "baseline") && !is_good("enforce", "strict"));
        assert!(is_good("audit-version", "v1.30") && is_good("warn-version", "latest"));
        assert!(!is_good("warn-version", "1.30") && !is_good("warn-version", "v1.+3"));
        assert_eq!(label_fault("app", "x"), None);
    }

    #[test]
    fn only_what_the_standards_judge_is_another_pod() {
        let pod = serde_json::json!({"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let mut other = pod.clone();
        other["metadata"]["labels"]["a"] = "c".into();
        other["spec"]["containers"][0]["image"] = "j".into();
        other["spec"]["nodeName"] = "n".into();
        assert!(!is_other(&pod, &other));
        other["spec"]["hostNetwork"] = true.into();
        assert!(is_other(&pod, &other));
    }
}
