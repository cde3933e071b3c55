//! What controllers ask of a pod, and how they make one.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::{Kind, Object, Wake, conditions, owners};
use serde_json::Value;

/// Owners of many pods spend about a ninth of their time on reporting what the pods do.
pub const REST: u32 = 8;

/// How far apart the clocks of machines may be.
const SKEW_SECONDS_MAX: i64 = 60;

/// The annotation by which a user says which pod to delete first: the lowest.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

pub fn phase(pod: &Object) -> &str {
    pod.value["status"]["phase"].as_str().unwrap_or_default()
}

/// Neither finished nor going.
pub fn is_active(pod: &Object) -> bool {
    !is_finished(pod) && !pod.is_terminating()
}

pub fn is_finished(pod: &Object) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

pub fn is_ready(pod: &Object) -> bool {
    conditions::is_true(&pod.value["status"], "Ready")
}

/// Since when the pod has been ready.
pub fn ready_since(pod: &Object) -> Option<Timestamp> {
    let ready = conditions::find(&pod.value["status"], "Ready")?;
    if ready["status"] != "True" {
        return None;
    }
    ready["lastTransitionTime"].as_str()?.parse().ok()
}

/// Whether the pod has been ready for so long.
pub fn is_available(pod: &Object, seconds_min: i64, now: Timestamp) -> bool {
    is_ready(pod)
        && (seconds_min == 0
            || ready_since(pod).is_some_and(|since| seconds_left(since, seconds_min, now) == 0))
}

/// When the next ready pod becomes available, nothing else may happen.
pub fn wake_when_available<'a>(
    pods: impl Iterator<Item = &'a Arc<Object>>,
    seconds_min: i64,
    now: Timestamp,
) -> Wake {
    let since = pods.filter_map(|pod| ready_since(pod));
    let left = since.map(|since| seconds_left(since, seconds_min, now));
    match left.filter(|left| *left > 0).min() {
        Some(left) => Wake::After(Duration::from_secs(left)),
        None => Wake::OnChange,
    }
}

/// How long until what is ready since a time has been so for long enough.
fn seconds_left(since: Timestamp, seconds_min: i64, now: Timestamp) -> u64 {
    let ready = now.as_second() - since.as_second();
    // Ready since a time to come: the clock was set back, and nobody knows how long it has been.
    if ready < -SKEW_SECONDS_MAX {
        return 0;
    }
    u64::try_from(seconds_min - ready).unwrap_or(0)
}

pub fn node(pod: &Object) -> &str {
    pod.value["spec"]["nodeName"].as_str().unwrap_or_default()
}

pub fn restarts(pod: &Object) -> i64 {
    let statuses = pod.value["status"]["containerStatuses"].as_array();
    let restarts = |status: &Value| status["restartCount"].as_i64();
    statuses.into_iter().flatten().filter_map(restarts).max().unwrap_or(0)
}

/// Which of two active pods is to be deleted first; the lesser goes.
pub fn deletion_rank(pod: &Object, others_on_node: usize) -> impl Ord + use<> {
    let phase = match phase(pod) {
        "Pending" => 0,
        "Running" => 2,
        _ => 1,
    };
    let cost = pod.annotation(DELETION_COST).and_then(|cost| cost.parse::<i32>().ok());
    let later = |at: Option<Timestamp>| std::cmp::Reverse(at.map(|at| at.as_second()));
    (
        !node(pod).is_empty(),
        phase,
        is_ready(pod),
        cost.unwrap_or(0),
        std::cmp::Reverse(others_on_node),
        later(ready_since(pod)),
        std::cmp::Reverse(restarts(pod)),
        later(pod.created()),
        pod.name.clone(),
    )
}

/// A pod as a template wants it, controlled by its owner.
pub fn from_template(template: &Value, name: &str, owner_kind: Kind, owner: &Object) -> Value {
    let mut pod = owners::child(crate::kinds::POD, name, owner_kind, owner);
    for field in ["labels", "annotations", "finalizers"] {
        if !template["metadata"][field].is_null() {
            pod["metadata"][field] = template["metadata"][field].clone();
        }
    }
    pod["spec"] = template["spec"].clone();
    pod
}
