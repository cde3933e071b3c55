//! Which pod is which: names, numbers, labels.

use k8s_openapi::jiff::Timestamp;
use reconcile::Object;
use serde_json::{Value, json};

use super::volume_claims;
use crate::kinds::STATEFUL_SET;
use crate::pods;
use crate::revisions;

pub const NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
pub const INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

pub fn pod_name(set: &Object, ordinal: i64) -> String {
    format!("{}-{ordinal}", set.name.name)
}

/// The number of a pod; `None` if its name is not one of the set's.
pub fn ordinal(set: &Object, pod: &Object) -> Option<i64> {
    let number = pod.name.name.strip_prefix(&*set.name.name)?.strip_prefix('-')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { number.parse().ok() } else { None }
}

/// The revision a pod was made from.
pub fn revision(pod: &Object) -> &str {
    pod.label(revisions::POD_LABEL).unwrap_or_default()
}

/// A pod of a number, as a template wants it.
pub fn pod(set: &Object, template: &Value, ordinal: i64, revision: &str) -> Value {
    let name = pod_name(set, ordinal);
    let mut pod = pods::from_template(template, &name, STATEFUL_SET, set);
    pod["metadata"]["labels"][NAME_LABEL] = json!(name);
    pod["metadata"]["labels"][INDEX_LABEL] = json!(ordinal.to_string());
    pod["metadata"]["labels"][revisions::POD_LABEL] = json!(revision);
    pod["spec"]["hostname"] = json!(name);
    if let Some(service) = set.value["spec"]["serviceName"].as_str() {
        pod["spec"]["subdomain"] = json!(service);
    }
    let claimed = volume_claims::volumes(set, ordinal);
    if !claimed.is_empty() {
        let own = template["spec"]["volumes"].as_array().into_iter().flatten();
        let is_free = |volume: &&Value| claimed.iter().all(|one| one["name"] != volume["name"]);
        let own: Vec<Value> = own.filter(is_free).cloned().collect();
        pod["spec"]["volumes"] = json!([claimed, own].concat());
    }
    pod
}

/// The labels by which a pod is known, if it lacks them.
pub fn missing_labels(set: &Object, pod: &Object) -> Option<Value> {
    let ordinal = ordinal(set, pod)?;
    if pod.label(NAME_LABEL) == Some(&*pod.name.name) {
        return None;
    }
    let labels = json!({NAME_LABEL: &*pod.name.name, INDEX_LABEL: ordinal.to_string()});
    Some(json!({"metadata": {"labels": labels}}))
}

pub fn is_running_and_ready(pod: &Object) -> bool {
    pods::phase(pod) == "Running" && pods::is_ready(pod)
}

pub fn is_running_and_available(pod: &Object, seconds_min: i64, now: Timestamp) -> bool {
    pods::phase(pod) == "Running" && pods::is_available(pod, seconds_min, now)
}
