//! In whose manner new pods begin: Kubernetes writes nothing of what nobody has seen yet; the other
//! profile writes from the start what a pod waits for, so that every reader finds the same fields.

use serde_json::{Value, json};

use crate::resources::Resource;

/// The manner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// As Kubernetes does.
    #[default]
    Kubernetes,
    /// A pod has its three conditions and a waiting status for each container from the start.
    Mission,
}

impl Profile {
    /// Completes an object that is made.
    pub fn begin(self, resource: &Resource, object: &mut Value, now: &str) {
        let is_pod = resource.kind == "Pod" && resource.group.is_empty();
        if self == Profile::Mission && is_pod {
            begin_pod(object, now);
        }
    }
}

fn begin_pod(pod: &mut Value, now: &str) {
    let condition = |kind: &str, reason: &str, message: &str| {
        let mut made = json!({"type": kind, "status": "False", "reason": reason,
            "lastTransitionTime": now});
        if !message.is_empty() {
            made["message"] = json!(message);
        }
        made
    };
    let statuses: Vec<Value> = pod["spec"]["containers"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|container| {
            json!({"name": container["name"], "image": container["image"], "imageID": "",
                "ready": false, "started": false, "restartCount": 0,
                "state": {"waiting": {"reason": "ContainerCreating"}}, "lastState": {}})
        })
        .collect();
    pod["status"]["conditions"] = json!([
        condition("PodScheduled", "Unscheduled", "Pod is waiting to be scheduled"),
        condition("Initialized", "NotInitialized", ""),
        condition("Ready", "NotReady", ""),
    ]);
    pod["status"]["containerStatuses"] = json!(statuses);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_of_the_mission_begins_with_conditions_and_waiting_containers() {
        let mut pod = json!({"spec": {"containers": [{"name": "a", "image": "b"}]}, "status": {}});
        begin_pod(&mut pod, "2026-01-01T00:00:00Z");
        let reasons = pod["status"]["conditions"].as_array().unwrap().iter();
        let reasons: Vec<_> = reasons.map(|one| one["reason"].as_str().unwrap()).collect();
        assert_eq!(reasons, ["Unscheduled", "NotInitialized", "NotReady"]);
        let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
        assert_eq!(waiting["reason"], "ContainerCreating");
    }
}
