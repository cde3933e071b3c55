//! What is said of a node that says nothing itself.

use k8s_openapi::jiff::Timestamp;
use reconcile::{Object, conditions};
use serde_json::{Value, json};

/// The conditions that a node reports itself.
const REPORTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// The status with everything Unknown that the node should have reported; `None` if it is so.
pub fn unknown(node: &Object, now: Timestamp) -> Option<Value> {
    let mut status = node.value["status"].clone();
    let mut all = status["conditions"].as_array().cloned().unwrap_or_default();
    for kind in REPORTED {
        match all.iter_mut().find(|condition| condition["type"] == kind) {
            None => all.push(json!({
                "type": kind,
                "status": "Unknown",
                "reason": "NodeStatusNeverUpdated",
                "message": "Kubelet never posted node status.",
                "lastHeartbeatTime": node.value["metadata"]["creationTimestamp"],
                "lastTransitionTime": conditions::time(now),
            })),
            Some(condition) if condition["status"] != "Unknown" => {
                condition["status"] = json!("Unknown");
                condition["reason"] = json!("NodeStatusUnknown");
                condition["message"] = json!("Kubelet stopped posting node status.");
                condition["lastTransitionTime"] = json!(conditions::time(now));
            }
            Some(_) => {}
        }
    }
    status["conditions"] = json!(all);
    (status != node.value["status"]).then_some(status)
}
