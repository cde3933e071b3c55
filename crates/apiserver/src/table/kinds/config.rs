//! What pods are given: configuration, secrets, identities, and room in a namespace.
//!
//! Upstream: pkg/printers/internalversion/printers.go

use serde_json::Value;

use super::super::read::{age, at, count, name, plain, text};
use super::super::{Column, Printer, cells};

pub static PRINTERS: &[Printer] = &[
    Printer::new("", "ConfigMap", CONFIG_MAP, |object, now| {
        let entries = count(object, &["data"]) + count(object, &["binaryData"]);
        cells![name(object), entries, age(object, now)]
    }),
    Printer::new("", "Secret", SECRET, |object, now| {
        cells![name(object), text(object, &["type"]), count(object, &["data"]), age(object, now)]
    }),
    Printer::new("", "ServiceAccount", &[Column::NAME, Column::AGE], |object, now| {
        cells![name(object), age(object, now)]
    }),
    Printer::new("", "Namespace", NAMESPACE, |object, now| {
        cells![name(object), text(object, &["status", "phase"]), age(object, now)]
    }),
    Printer::new("", "ResourceQuota", RESOURCE_QUOTA, resource_quota),
];

const CONFIG_MAP: &[Column] =
    &[Column::NAME, Column::text("Data", "How many entries there are."), Column::AGE];

const SECRET: &[Column] = &[
    Column::NAME,
    Column::text("Type", "What the secret is for."),
    Column::text("Data", "How many entries there are."),
    Column::AGE,
];

const NAMESPACE: &[Column] = &[
    Column::NAME,
    Column::text("Status", "Active, or Terminating while it is emptied."),
    Column::AGE,
];

const RESOURCE_QUOTA: &[Column] = &[
    Column::NAME,
    Column::text("Request", "What is used of what may be requested or counted."),
    Column::text("Limit", "What is used of the limits there may be."),
    Column::AGE,
];

fn resource_quota(object: &Value, now: i64) -> Vec<Value> {
    let used = at(object, &["status", "used"]);
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in at(object, &["status", "hard"]).as_object().into_iter().flatten() {
        let used = used.get(resource).map(plain).unwrap_or_else(|| "0".to_owned());
        let line = format!("{resource}: {used}/{}", plain(hard));
        if resource.starts_with("limits.") { limits.push(line) } else { requests.push(line) }
    }
    cells![name(object), requests.join(", "), limits.join(", "), age(object, now)]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::tests::check;

    #[test]
    fn entries_are_counted() {
        let config = json!({"data": {"a": "1", "b": "2"}, "binaryData": {"c": "AA=="}});
        check("", "ConfigMap", config, json!(["x", 3, "5m"]));
        check("", "ConfigMap", json!({}), json!(["x", 0, "5m"]));
        let secret = json!({"type": "kubernetes.io/tls", "data": {"tls.crt": "", "tls.key": ""}});
        check("", "Secret", secret, json!(["x", "kubernetes.io/tls", 2, "5m"]));
    }

    #[test]
    fn namespaces_and_identities() {
        let namespace = json!({"status": {"phase": "Active"}});
        check("", "Namespace", namespace, json!(["x", "Active", "5m"]));
        check("", "ServiceAccount", json!({}), json!(["x", "5m"]));
    }

    #[test]
    fn quotas_show_what_is_used_of_what() {
        check(
            "",
            "ResourceQuota",
            json!({"status": {
                "hard": {"pods": "10", "requests.cpu": "4", "limits.cpu": "8",
                    "limits.memory": "1Gi"},
                "used": {"pods": "3", "requests.cpu": "500m", "limits.cpu": "1"},
            }}),
            json!([
                "x",
                "pods: 3/10, requests.cpu: 500m/4",
                "limits.cpu: 1/8, limits.memory: 0/1Gi",
                "5m"
            ]),
        );
        check("", "ResourceQuota", json!({}), json!(["x", "", "", "5m"]));
    }
}
