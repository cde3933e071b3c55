//! Whether a daemon belongs on a node.

use reconcile::Object;
use serde_json::{Value, json};

use super::node_affinity;

/// What a node means for a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// One is to run there.
    Run,
    /// None is to be started; one that runs may stay.
    Stay,
    /// None is to be there.
    Leave,
}

/// Daemons run on nodes that have troubles, because they are what a node needs.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
const NO_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// Adds to a pod what every daemon tolerates.
pub fn add_tolerations(pod_spec: &mut Value) {
    let uses_host_network = pod_spec["hostNetwork"] == true;
    let mut tolerations = pod_spec["tolerations"].as_array().cloned().unwrap_or_default();
    let network = uses_host_network.then_some(NO_NETWORK);
    for (key, effect) in TOLERATED.into_iter().chain(network) {
        let added = json!({"key": key, "operator": "Exists", "effect": effect});
        if !tolerations.contains(&added) {
            tolerations.push(added);
        }
    }
    pod_spec["tolerations"] = json!(tolerations);
}

/// `pod_spec` is that of the template, with the tolerations of daemons.
pub fn of(pod_spec: &Value, node: &Object) -> Placement {
    let name = pod_spec["nodeName"].as_str().unwrap_or_default();
    let is_named = name.is_empty() || name == &*node.name.name;
    if !is_named || !node_affinity::allows(pod_spec, node) {
        return Placement::Leave;
    }
    let is_against = |effect: &str| {
        let taints = node.value["spec"]["taints"].as_array().into_iter().flatten();
        taints.filter(|taint| taint["effect"] == effect).any(|taint| !is_tolerated(pod_spec, taint))
    };
    if is_against("NoExecute") {
        Placement::Leave
    } else if is_against("NoSchedule") {
        Placement::Stay
    } else {
        Placement::Run
    }
}

fn is_tolerated(pod_spec: &Value, taint: &Value) -> bool {
    let tolerations = pod_spec["tolerations"].as_array().into_iter().flatten();
    let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let mut fits = tolerations.map(|toleration| {
        let field = |name: &str| text(toleration, name);
        let of_effect = field("effect").is_empty() || field("effect") == text(taint, "effect");
        let of_key = field("key").is_empty() || field("key") == text(taint, "key");
        let of_value = match field("operator").as_str() {
            "Exists" => true,
            "" | "Equal" => field("value") == text(taint, "value"),
            _ => false,
        };
        // A toleration of every key says so with `Exists`.
        let is_whole = !field("key").is_empty() || field("operator") == "Exists";
        of_effect && of_key && of_value && is_whole
    });
    fits.any(|fits| fits)
}
