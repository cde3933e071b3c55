//! `matchLabelKeys`: selectors by the values that the pod's own labels have at its creation.
//!
//! Upstream: pkg/registry/core/pod/strategy.go (applyMatchLabelKeysAndMismatchLabelKeys)

use serde_json::{Value, json};

use crate::registry::edit::{self, each_mut};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub fn apply(pod: &mut Value) {
    let labels = edit::at(pod, &["metadata", "labels"]).clone();
    for affinity in ["podAffinity", "podAntiAffinity"] {
        for term in each_mut(pod, &["spec", "affinity", affinity, REQUIRED]) {
            apply_to_term(term, &labels);
        }
        for term in each_mut(pod, &["spec", "affinity", affinity, PREFERRED]) {
            if let Some(term) = edit::at_mut(term, &["podAffinityTerm"]) {
                apply_to_term(term, &labels);
            }
        }
    }
    for constraint in each_mut(pod, &["spec", "topologySpreadConstraints"]) {
        apply_to_term(constraint, &labels);
    }
}

fn apply_to_term(term: &mut Value, labels: &Value) {
    if !edit::has(term, &["labelSelector"]) {
        return;
    }
    let mut added = Vec::new();
    for (list, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in edit::list(term, &[list]) {
            if let Some(value) = key.as_str().and_then(|key| labels.get(key)) {
                added.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    let Some(selector) = edit::at_mut(term, &["labelSelector"]) else { return };
    if added.is_empty() {
        return;
    }
    edit::set_default(selector, "matchExpressions", json!([]));
    if let Some(expressions) = edit::at_mut(selector, &["matchExpressions"])
        && let Some(expressions) = expressions.as_array_mut()
    {
        expressions.extend(added);
    }
}
