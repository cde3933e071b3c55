//! An autoscaler of autoscaling/v2 as one of v1, and back: what v1 cannot say goes into
//! annotations.
//!
//! Upstream: pkg/apis/autoscaling/v1/conversion.go

use serde_json::{Value, json};

use crate::registry::edit::{self, object};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

fn is_cpu_utilization(metric: &Value) -> bool {
    edit::text(metric, &["resource", "name"]) == "cpu"
        && (edit::has(metric, &["resource", "target", "averageUtilization"])
            || edit::has(metric, &["resource", "current", "averageUtilization"]))
}

pub fn to_v1(scaler: &Value) -> Value {
    let mut v1 = scaler.clone();
    edit::set(&mut v1, "apiVersion", "autoscaling/v1");
    let mut notes: Vec<(&str, Value)> = Vec::new();
    if let Some(spec) = edit::at_mut(&mut v1, &["spec"]) {
        let metrics = edit::remove(spec, "metrics");
        let (cpu, rest) = split(metrics);
        if let Some(cpu) = cpu {
            let target = edit::at(&cpu, &["resource", "target", "averageUtilization"]).clone();
            edit::set(spec, "targetCPUUtilizationPercentage", target);
        }
        notes.push((METRICS, Value::Array(rest)));
        notes.push((BEHAVIOR, edit::remove(spec, "behavior").unwrap_or(Value::Null)));
    }
    if let Some(status) = edit::at_mut(&mut v1, &["status"]) {
        let (cpu, rest) = split(edit::remove(status, "currentMetrics"));
        if let Some(cpu) = cpu {
            let current = edit::at(&cpu, &["resource", "current", "averageUtilization"]).clone();
            edit::set(status, "currentCPUUtilizationPercentage", current);
        }
        notes.push((CURRENT_METRICS, Value::Array(rest)));
        let conditions = edit::remove(status, "conditions").unwrap_or(Value::Null);
        notes.push((CONDITIONS, conditions));
        edit::set_default(status, "currentReplicas", 0);
    }
    for (name, note) in notes {
        if edit::is_empty(&note) {
            continue;
        }
        let metadata = object(&mut v1, "metadata");
        if let Some(annotations) = metadata.and_then(|it| object(it, "annotations")) {
            edit::set(annotations, name, note.to_string());
        }
    }
    v1
}

/// The first metric of CPU utilisation, and the others.
fn split(metrics: Option<Value>) -> (Option<Value>, Vec<Value>) {
    let mut cpu = None;
    let mut rest = Vec::new();
    for metric in metrics.as_ref().and_then(Value::as_array).into_iter().flatten() {
        if cpu.is_none() && is_cpu_utilization(metric) {
            cpu = Some(metric.clone());
        } else {
            rest.push(metric.clone());
        }
    }
    (cpu, rest)
}

pub fn to_v2(scaler: &Value) -> Value {
    let mut v2 = scaler.clone();
    edit::set(&mut v2, "apiVersion", "autoscaling/v2");
    let mut note = |name: &str| -> Value {
        let metadata = edit::at_mut(&mut v2, &["metadata"]);
        let Some(metadata) = metadata else { return Value::Null };
        let Some(annotations) = edit::at_mut(metadata, &["annotations"]) else {
            return Value::Null;
        };
        let text = edit::remove(annotations, name);
        if edit::is_empty(annotations) {
            edit::remove(metadata, "annotations");
        }
        let text = text.as_ref().and_then(Value::as_str).unwrap_or("");
        serde_json::from_str(text).unwrap_or(Value::Null)
    };
    let (metrics, behavior) = (note(METRICS), note(BEHAVIOR));
    let (current, conditions) = (note(CURRENT_METRICS), note(CONDITIONS));
    if let Some(spec) = edit::at_mut(&mut v2, &["spec"]) {
        let target = edit::remove(spec, "targetCPUUtilizationPercentage");
        let target = target.map(|it| json!({"type": "Utilization", "averageUtilization": it}));
        join(spec, "metrics", target.map(|it| ("target", it)), metrics);
        if !behavior.is_null() {
            edit::set(spec, "behavior", behavior);
        }
    }
    if let Some(status) = edit::at_mut(&mut v2, &["status"]) {
        let used = edit::remove(status, "currentCPUUtilizationPercentage");
        let used = used.map(|it| json!({"averageUtilization": it}));
        join(status, "currentMetrics", used.map(|it| ("current", it)), current);
        if edit::at(status, &["currentMetrics"]).is_null() {
            edit::set(status, "currentMetrics", Value::Null);
        }
        if !conditions.is_null() {
            edit::set(status, "conditions", conditions);
        }
    }
    v2
}

fn join(into: &mut Value, list: &str, cpu: Option<(&str, Value)>, others: Value) {
    let mut all = Vec::new();
    if let Some((name, value)) = cpu {
        all.push(json!({"type": "Resource", "resource": {"name": "cpu", name: value}}));
    }
    all.extend(others.as_array().cloned().unwrap_or_default());
    if !all.is_empty() {
        edit::set(into, list, all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_autoscaler_converted_twice_is_itself() {
        let v2 = json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "a"},
            "spec": {
                "maxReplicas": 3,
                "metrics": [
                    {"type": "Resource", "resource": {"name": "cpu", "target":
                        {"type": "Utilization", "averageUtilization": 50}}},
                    {"type": "Pods", "pods": {"metric": {"name": "m"}, "target":
                        {"type": "AverageValue", "averageValue": "1"}}},
                ],
                "behavior": {"scaleUp": {"selectPolicy": "Max"}},
            },
            "status": {"currentReplicas": 1, "desiredReplicas": 1, "currentMetrics": null},
        });
        let v1 = to_v1(&v2);
        assert_eq!(v1["spec"]["targetCPUUtilizationPercentage"], 50);
        assert_eq!(v1["spec"].get("metrics"), None);
        assert!(v1["metadata"]["annotations"][METRICS].as_str().unwrap().contains("Pods"));
        assert_eq!(to_v2(&v1), v2);
    }
}
