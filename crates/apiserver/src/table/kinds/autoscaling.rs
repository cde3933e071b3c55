//! Autoscalers, and the scale of what they scale.
//!
//! Upstream: pkg/printers/internalversion/printers.go (formatHPAMetrics, printScale)

use serde_json::Value;

use super::super::read::{age, at, integer, list, name, plain, text};
use super::super::{Column, Printer, cells};

pub static PRINTERS: &[Printer] = &[
    Printer::new("autoscaling", "HorizontalPodAutoscaler", AUTOSCALER, autoscaler),
    Printer::new("autoscaling", "Scale", SCALE, |object, now| {
        let wanted = integer(object, &["spec", "replicas"]);
        let there = integer(object, &["status", "replicas"]);
        cells![name(object), wanted, there, age(object, now)]
    }),
];

const AUTOSCALER: &[Column] = &[
    Column::NAME,
    Column::text("Reference", "What is scaled."),
    Column::text("Targets", "What is measured, and what it should be."),
    Column::text("MinPods", "The fewest pods there may be."),
    Column::text("MaxPods", "The most pods there may be."),
    Column::text("Replicas", "How many pods there are."),
    Column::AGE,
];

const SCALE: &[Column] = &[
    Column::text("Name", "The name of the object in its namespace."),
    Column::integer("Desired", "How many pods are wanted."),
    Column::integer("Available", "How many pods there are."),
    Column::AGE,
];

const METRICS_SHOWN_MAX: usize = 2;
const UNKNOWN: &str = "<unknown>";

fn autoscaler(object: &Value, now: i64) -> Vec<Value> {
    let target = at(object, &["spec", "scaleTargetRef"]);
    let fewest = match at(object, &["spec", "minReplicas"]).as_i64() {
        Some(fewest) => fewest.to_string(),
        None => "<unset>".to_owned(),
    };
    cells![
        name(object),
        format!("{}/{}", text(target, &["kind"]), text(target, &["name"])),
        targets(object),
        fewest,
        integer(object, &["spec", "maxReplicas"]),
        integer(object, &["status", "currentReplicas"]),
        age(object, now),
    ]
}

fn targets(object: &Value) -> String {
    let wanted = at(object, &["spec", "targetCPUUtilizationPercentage"]);
    if !wanted.is_null() {
        // The form of autoscaling/v1, which measures nothing else.
        let current = at(object, &["status", "currentCPUUtilizationPercentage"]);
        return format!("cpu: {}/{}", percent(current, UNKNOWN), percent(wanted, "<auto>"));
    }
    let specs = list(object, &["spec", "metrics"]);
    if specs.is_empty() {
        return "<none>".to_owned();
    }
    let statuses = list(object, &["status", "currentMetrics"]);
    let shown: Vec<String> = specs
        .iter()
        .take(METRICS_SHOWN_MAX)
        .enumerate()
        .map(|(index, spec)| metric(spec, statuses.get(index).unwrap_or(&Value::Null)))
        .collect();
    let line = shown.join(", ");
    match specs.len() - shown.len() {
        0 => line,
        more => format!("{line} + {more} more..."),
    }
}

fn metric(spec: &Value, status: &Value) -> String {
    let source = match text(spec, &["type"]) {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let target = at(spec, &[source, "target"]);
    let current = at(status, &[source, "current"]);
    let average = at(target, &["averageValue"]);
    if !source.ends_with("esource") {
        if average.is_null() {
            return format!(
                "{}/{}",
                amount(at(current, &["value"])),
                amount(at(target, &["value"]))
            );
        }
        let ending = if source == "pods" { "" } else { " (avg)" };
        let current = amount(at(current, &["averageValue"]));
        return format!("{current}/{}{ending}", amount(average));
    }
    let resource = text(spec, &[source, "name"]);
    if average.is_null() {
        let current = percent(at(current, &["averageUtilization"]), UNKNOWN);
        let wanted = percent(at(target, &["averageUtilization"]), "<auto>");
        return format!("{resource}: {current}/{wanted}");
    }
    format!("{resource}: {}/{}", amount(at(current, &["averageValue"])), amount(average))
}

fn amount(value: &Value) -> String {
    if value.is_null() { UNKNOWN.to_owned() } else { plain(value) }
}

fn percent(value: &Value, instead: &str) -> String {
    value.as_i64().map(|number| format!("{number}%")).unwrap_or_else(|| instead.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::super::tests::check;

    fn check_targets(metrics: Value, current: Value, shown: &str) {
        check(
            "autoscaling",
            "HorizontalPodAutoscaler",
            json!({
                "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "minReplicas": 1,
                    "maxReplicas": 9, "metrics": metrics},
                "status": {"currentReplicas": 2, "currentMetrics": current},
            }),
            json!(["x", "Deployment/web", shown, "1", 9, 2, "5m"]),
        );
    }

    #[test]
    fn targets_are_shown_as_current_and_wanted() {
        let cpu = |target: Value| {
            let resource = json!({"name": "cpu", "target": target});
            json!({"type": "Resource", "resource": resource})
        };
        let used =
            json!({"resource": {"current": {"averageUtilization": 50, "averageValue": "1"}}});
        check_targets(json!([]), json!([]), "<none>");
        let percent = cpu(json!({"averageUtilization": 80}));
        check_targets(json!([percent]), json!([]), "cpu: <unknown>/80%");
        check_targets(json!([percent]), json!([used]), "cpu: 50%/80%");
        check_targets(json!([cpu(json!({}))]), json!([used]), "cpu: 50%/<auto>");
        check_targets(json!([cpu(json!({"averageValue": "2"}))]), json!([used]), "cpu: 1/2");
        let container = json!({"type": "ContainerResource", "containerResource": {
            "name": "memory", "container": "c", "target": {"averageUtilization": 60}}});
        check_targets(json!([container]), json!([]), "memory: <unknown>/60%");
        let pods = json!({"type": "Pods", "pods": {"target": {"averageValue": "100m"}}});
        let now = json!({"pods": {"current": {"averageValue": "50m"}}});
        check_targets(json!([pods]), json!([now]), "50m/100m");
        let external = json!({"type": "External", "external": {"target": {"averageValue": "5"}}});
        check_targets(json!([external]), json!([]), "<unknown>/5 (avg)");
        let object = json!({"type": "Object", "object": {"target": {"value": "7"}}});
        let now = json!({"object": {"current": {"value": "3"}}});
        check_targets(json!([object]), json!([now]), "3/7");
        check_targets(json!([{"type": "Odd"}]), json!([]), "<unknown type>");
        check_targets(
            json!([percent, pods, object, object]),
            json!([used]),
            "cpu: 50%/80%, <unknown>/100m + 2 more...",
        );
    }

    #[test]
    fn the_old_version_knows_only_cpu() {
        check(
            "autoscaling",
            "HorizontalPodAutoscaler",
            json!({
                "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 3,
                    "targetCPUUtilizationPercentage": 80},
                "status": {"currentCPUUtilizationPercentage": 10},
            }),
            json!(["x", "Deployment/web", "cpu: 10%/80%", "<unset>", 3, 0, "5m"]),
        );
    }

    #[test]
    fn scales() {
        let scale = json!({"spec": {"replicas": 3}, "status": {"replicas": 2}});
        check("autoscaling", "Scale", scale, json!(["x", 3, 2, "5m"]));
    }
}
