//! What is allowed in a pod but surely not meant.
//!
//! Upstream: pkg/api/pod/warnings.go

use crate::registry::amount;
use crate::registry::field::Field;

const OLD_NODE_LABELS: [(&str, &str, &str); 6] = [
    ("beta.kubernetes.io/arch", "v1.14", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "v1.14", "kubernetes.io/os"),
    ("failure-domain.beta.kubernetes.io/region", "v1.17", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "v1.17", "topology.kubernetes.io/zone"),
    ("beta.kubernetes.io/instance-type", "v1.17", "node.kubernetes.io/instance-type"),
    ("beta.kubernetes.io/fluentd-ds-ready", "v1.6", ""),
];

pub fn of_spec(spec: &Field<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    for (key, entry) in spec.entries("nodeSelector") {
        warnings.extend(old_node_label(key, &entry));
    }
    for volume in spec.items("volumes") {
        if volume.has("gitRepo") {
            warnings.push(format!("{}: deprecated in v1.11", volume.at("gitRepo").path()));
        }
    }
    for secret in spec.items("imagePullSecrets") {
        if secret.text("name").is_empty() {
            warnings.push(format!("{}: invalid empty name \"\"", secret.at("name").path()));
        }
    }
    for kind in ["initContainers", "containers"] {
        for container in spec.items(kind) {
            of_container(&container, &mut warnings);
        }
    }
    let grace = spec.at("terminationGracePeriodSeconds");
    if grace.as_int().is_some_and(|seconds| seconds < 0) {
        warnings.push(format!(
            "{}: must be >= 0; negative values are invalid and will be treated as 1",
            grace.path()
        ));
    }
    warnings
}

fn old_node_label(key: &str, entry: &Field<'_>) -> Option<String> {
    let (_, since, instead) = OLD_NODE_LABELS.iter().find(|(old, _, _)| *old == key)?;
    let path = entry.path();
    Some(match *instead {
        "" => format!("{path}: deprecated since {since}"),
        _ => format!("{path}: deprecated since {since}; use \"{instead}\" instead"),
    })
}

fn of_container(container: &Field<'_>, warnings: &mut Vec<String>) {
    let resources = container.at("resources");
    for list in ["limits", "requests"] {
        for (name, entry) in resources.entries(list) {
            let bytes = ["memory", "ephemeral-storage"].contains(&name);
            if bytes && amount::read(entry.value).is_some_and(|it| !amount::is_integer(&it)) {
                warnings.push(format!(
                    "{}: fractional byte value {} is invalid, must be an integer",
                    entry.path(),
                    entry.value
                ));
            }
        }
    }
    let mut names: Vec<&str> = Vec::new();
    for variable in container.items("env") {
        let name = variable.text("name");
        if names.contains(&name) {
            warnings.push(format!(
                "{}: hides previous definition of {name:?}, which may be dropped when using apply",
                variable.path()
            ));
        }
        names.push(name);
    }
    let mut ports: Vec<(i64, &str, i64, String)> = Vec::new();
    for port in container.items("ports") {
        let number = port.int("containerPort").unwrap_or(0);
        let host = port.int("hostPort").unwrap_or(0);
        let protocol = port.text("protocol");
        let same = ports.iter().find(|it| (it.0, it.1, it.2) == (number, protocol, host));
        if let Some((.., first)) = same {
            let path = port.path();
            warnings.push(format!("{path}: duplicate port definition with {first}"));
        }
        ports.push((number, protocol, host, port.path()));
    }
}
