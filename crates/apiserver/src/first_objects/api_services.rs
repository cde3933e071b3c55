//! An APIService for every group and version the server itself serves.
//!
//! Upstream: pkg/controlplane/apiserver/aggregator.go

use serde_json::json;

use super::{First, first};
use crate::resources::Registry;

/// Groups by how early their resources are listed, with the priority of the version.
const PRIORITIES: &[(&str, &str, u32, u32)] = &[
    ("", "v1", 18_000, 1),
    ("apps", "v1", 17_800, 15),
    ("events.k8s.io", "v1", 17_750, 15),
    ("authentication.k8s.io", "v1", 17_700, 15),
    ("authorization.k8s.io", "v1", 17_600, 15),
    ("autoscaling", "v2", 17_500, 30),
    ("autoscaling", "v1", 17_500, 15),
    ("batch", "v1", 17_400, 15),
    ("certificates.k8s.io", "v1", 17_300, 15),
    ("networking.k8s.io", "v1", 17_200, 15),
    ("policy", "v1", 17_100, 15),
    ("rbac.authorization.k8s.io", "v1", 17_000, 15),
    ("storage.k8s.io", "v1", 16_800, 15),
    ("apiextensions.k8s.io", "v1", 16_700, 15),
    ("admissionregistration.k8s.io", "v1", 16_700, 15),
    ("scheduling.k8s.io", "v1", 16_600, 15),
    ("coordination.k8s.io", "v1", 16_500, 15),
    ("node.k8s.io", "v1", 16_300, 15),
    ("discovery.k8s.io", "v1", 16_200, 15),
    ("flowcontrol.apiserver.k8s.io", "v1", 16_100, 21),
    ("resource.k8s.io", "v1", 15_900, 20),
];

/// The group that describes the others does not describe itself.
pub fn objects(registry: &Registry) -> Vec<First> {
    let served =
        PRIORITIES.iter().filter(|(group, version, ..)| registry.has_group_version(group, version));
    let describe = |(group, version, group_priority, version_priority): &(&str, &str, u32, u32)| {
        let mut spec = json!({
            "version": version,
            "groupPriorityMinimum": group_priority,
            "versionPriority": version_priority,
        });
        if !group.is_empty() {
            spec["group"] = json!(group);
        }
        let object = json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {
                "name": format!("{version}.{group}"),
                "labels": {"kube-aggregator.kubernetes.io/automanaged": "onstart"},
            },
            "spec": spec,
            "status": {"conditions": [{
                "type": "Available", "status": "True", "reason": "Local",
                "message": "Local APIServices are always available",
            }]},
        });
        first("apiregistration.k8s.io", "apiservices", object)
    };
    served.map(describe).collect()
}
