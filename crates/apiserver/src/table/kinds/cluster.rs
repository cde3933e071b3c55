//! The control plane about itself: its components, its groups, its answers.
//!
//! Upstream: pkg/printers/internalversion/printers.go, kube-aggregator/pkg/registry/apiservice/etcd

use serde_json::Value;

use super::super::read::{age, at, condition, list, name, text};
use super::super::{Column, Printer, cells};

pub static PRINTERS: &[Printer] = &[
    Printer::new("", "ComponentStatus", COMPONENT_STATUS, component_status),
    Printer::new("apiregistration.k8s.io", "APIService", API_SERVICE, api_service),
    Printer::new("", "Status", STATUS, |object, _| {
        cells![text(object, &["status"]), text(object, &["reason"]), text(object, &["message"])]
    }),
];

const COMPONENT_STATUS: &[Column] = &[
    Column::NAME,
    Column::text("Status", "Whether the component is healthy."),
    Column::text("Message", "What the component says of itself."),
    Column::text("Error", "What went wrong when it was asked."),
];

const API_SERVICE: &[Column] = &[
    Column::NAME,
    Column::text("Service", "The service that answers, or Local."),
    Column::text("Available", "Whether it answers, and why not."),
    Column::AGE,
];

const STATUS: &[Column] = &[
    Column::text("Status", "Success, or Failure."),
    Column::text("Reason", "Why it failed, in a word."),
    Column::text("Message", "Why it failed."),
];

fn component_status(object: &Value, _now: i64) -> Vec<Value> {
    let mut conditions = list(object, &["conditions"]).iter();
    let Some(health) = conditions.find(|one| text(one, &["type"]) == "Healthy") else {
        return cells![name(object), "Unknown", "", ""];
    };
    let status = if text(health, &["status"]) == "True" { "Healthy" } else { "Unhealthy" };
    cells![name(object), status, text(health, &["message"]), text(health, &["error"])]
}

fn api_service(object: &Value, now: i64) -> Vec<Value> {
    let service = match at(object, &["spec", "service"]) {
        Value::Null => "Local".to_owned(),
        service => format!("{}/{}", text(service, &["namespace"]), text(service, &["name"])),
    };
    let available = match condition(object, "Available") {
        Some(one) if text(one, &["status"]) == "True" => "True".to_owned(),
        Some(one) => format!("{} ({})", text(one, &["status"]), text(one, &["reason"])),
        None => "Unknown".to_owned(),
    };
    cells![name(object), service, available, age(object, now)]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::tests::check;

    #[test]
    fn components() {
        let condition = json!({"type": "Healthy", "status": "True", "message": "ok"});
        check(
            "",
            "ComponentStatus",
            json!({"conditions": [condition]}),
            json!(["x", "Healthy", "ok", ""]),
        );
        let condition = json!({"type": "Healthy", "status": "False", "error": "no answer"});
        check(
            "",
            "ComponentStatus",
            json!({"conditions": [condition]}),
            json!(["x", "Unhealthy", "", "no answer"]),
        );
        check("", "ComponentStatus", json!({}), json!(["x", "Unknown", "", ""]));
    }

    #[test]
    fn api_services() {
        let group = "apiregistration.k8s.io";
        let up =
            json!({"conditions": [{"type": "Available", "status": "True", "reason": "Local"}]});
        check(group, "APIService", json!({"status": up}), json!(["x", "Local", "True", "5m"]));
        check(
            group,
            "APIService",
            json!({
                "spec": {"service": {"namespace": "d", "name": "s"}},
                "status": {"conditions": [
                    {"type": "Available", "status": "False", "reason": "MissingEndpoints"},
                ]},
            }),
            json!(["x", "d/s", "False (MissingEndpoints)", "5m"]),
        );
    }

    #[test]
    fn answers() {
        let status = json!({"status": "Failure", "reason": "NotFound", "message": "not here"});
        check("", "Status", status, json!(["Failure", "NotFound", "not here"]));
    }
}
