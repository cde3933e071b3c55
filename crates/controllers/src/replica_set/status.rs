//! What a ReplicaSet says of its pods.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::conditions::{self, Condition, Truth};
use reconcile::{Object, Wake};
use serde_json::{Value, json};

use crate::pods;

pub fn status(
    object: &Object,
    held: &[&Arc<Object>],
    failure: Option<&str>,
    now: Timestamp,
) -> Value {
    let active: Vec<_> = held.iter().filter(|pod| pods::is_active(pod)).collect();
    let terminating = held.iter().filter(|pod| pod.is_terminating() && !pods::is_finished(pod));
    let labels = object.value["spec"]["template"]["metadata"]["labels"].as_object();
    let has_all = |pod: &Object| {
        labels.into_iter().flatten().all(|(key, value)| pod.label(key) == value.as_str())
    };
    let seconds = min_ready_seconds(object);
    let count =
        |matches: &dyn Fn(&Object) -> bool| active.iter().filter(|pod| matches(pod)).count();
    let mut status = json!({
        "replicas": active.len(),
        "observedGeneration": object.generation(),
    });
    // Zero is how the API says nothing.
    for (field, number) in [
        ("fullyLabeledReplicas", count(&has_all)),
        ("readyReplicas", count(&pods::is_ready)),
        ("availableReplicas", count(&|pod| pods::is_available(pod, seconds, now))),
    ] {
        if number > 0 {
            status[field] = json!(number);
        }
    }
    status["terminatingReplicas"] = json!(terminating.count());
    let mut conditions = object.value["status"]["conditions"].as_array().cloned();
    let conditions = conditions.get_or_insert_default();
    conditions.retain(|condition| condition["type"] != "ReplicaFailure" || failure.is_some());
    if let Some(message) = failure {
        let condition = Condition {
            kind: "ReplicaFailure",
            status: Truth::True,
            reason: "FailedCreate",
            message,
            observed_generation: None,
        };
        conditions::set(conditions, &condition, now);
    }
    if !conditions.is_empty() {
        status["conditions"] = json!(conditions);
    }
    status
}

/// When the next ready pod becomes available, nothing else may happen.
pub fn wake(object: &Object, held: &[&Arc<Object>], now: Timestamp) -> Wake {
    pods::wake_when_available(held.iter().copied(), min_ready_seconds(object), now)
}

fn min_ready_seconds(object: &Object) -> i64 {
    object.value["spec"]["minReadySeconds"].as_i64().unwrap_or(0)
}
