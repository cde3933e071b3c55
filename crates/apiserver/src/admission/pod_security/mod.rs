//! PodSecurity: what the labels of a namespace let its pods be.
//!
//! | file | |
//! |---|---|
//! | `standards.rs` | the standards `baseline` and `restricted`, as a table of checks |
//! | `checks.rs` | each check: what of a pod it forbids |
//!
//! `enforce` refuses pods; `warn` warns also whoever writes a workload that would make such pods.
//! Versions are read and shown; what holds is always the newest standard.
//!
//! Upstream: staging/src/k8s.io/pod-security-admission

mod checks;
mod standards;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use store::Entry;

use self::standards::{Level, violations};
use super::{Attributes, Operation, Plugin, lookup};
use crate::persist::stored;
use crate::registry::edit;
use crate::server::Server;
use crate::status::Error;

const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
const WARN: &str = "pod-security.kubernetes.io/warn";

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
        let (enforced, warned) = (Asked::of(&namespace, ENFORCE), Asked::of(&namespace, WARN));
        if let Some(path) = template(attributes) {
            let pod = edit::at(object, path);
            warn(attributes, warned.as_ref(), pod);
            return Ok(());
        }
        if attributes.old.is_some_and(|old| !is_other(old, object)) {
            return Ok(());
        }
        match enforced.and_then(|asked| asked.violated_by(object)) {
            Some(why) => Err(attributes.refuse(object, &format!("violates PodSecurity {why}"))),
            None => {
                warn(attributes, warned.as_ref(), object);
                Ok(())
            }
        }
    }
}

/// What a namespace asks of its pods.
struct Asked {
    level: Level,
    /// As the label says it.
    version: String,
}

impl Asked {
    /// None where everything is let through, as where nothing is said.
    fn of(namespace: &Arc<Entry>, label: &str) -> Option<Asked> {
        let labels = stored(namespace);
        let level = Level::named(labels.label(label)?)?;
        let version = labels.label(&format!("{label}-version")).unwrap_or("latest").to_owned();
        Some(Asked { level, version })
    }

    /// The standard, and what of the pod is against it.
    fn violated_by(&self, pod: &Value) -> Option<String> {
        let found = violations(self.level, pod);
        let standard = format!("\"{}:{}\"", self.level.name(), self.version);
        (!found.is_empty()).then(|| format!("{standard}: {}", found.join(", ")))
    }
}

fn warn(attributes: &Attributes<'_>, asked: Option<&Asked>, pod: &Value) {
    if let Some(why) = asked.and_then(|asked| asked.violated_by(pod)) {
        attributes.warnings.add(format!("would violate PodSecurity {why}"));
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
            (!is_version(value)).then_some("must be \"latest\" or \"v1.x\"")
        }
        _ => None,
    }
}

fn is_version(text: &str) -> bool {
    let minor = text.strip_prefix("v1.");
    text == "latest" || minor.is_some_and(|it| it.parse::<u32>().is_ok() && !it.starts_with('+'))
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
