//! The scheduler against a real API server.

mod cluster;
mod oracles;
mod simulation;

use reconcile::Kind;
use serde_json::{Value, json};

pub const CRD: Kind = Kind::cluster(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
);

/// A node with labels and room.
pub fn node(name: &str, cpu: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"},
            "capacity": {"cpu": cpu, "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True",
                "lastHeartbeatTime": "2026-01-01T00:00:00Z",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "reason": "KubeletReady", "message": "ready"}]}})
}

/// A pod that asks for cpu.
pub fn pod(name: &str, cpu: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": name, "labels": {}},
        "spec": {"containers": [{"name": "c", "image": "i",
            "resources": {"requests": {"cpu": cpu}}}]}})
}

/// The kind of one of our manifests.
pub fn kind_of(manifest: &Value) -> Kind {
    let rbac = |kind, plural| Kind::cluster("rbac.authorization.k8s.io", "v1", kind, plural);
    match manifest["kind"].as_str() {
        Some("CustomResourceDefinition") => CRD,
        Some("ClusterRole") => rbac("ClusterRole", "clusterroles"),
        _ => rbac("ClusterRoleBinding", "clusterrolebindings"),
    }
}
