//! The definitions of the two PodGroup kinds, and the right to use them. They are installed when
//! the cluster starts, because no other program brings them.

use serde_json::{Value, json};

const ROLE: &str = "system:setpoint-scheduler";

/// Everything to be applied, in order.
pub fn manifests() -> Vec<Value> {
    vec![coscheduling(), volcano(), role(), binding()]
}

fn coscheduling() -> Value {
    let spec = json!({
        "type": "object",
        "properties": {
            "minMember": {"type": "integer", "format": "int32", "minimum": 1,
                "description": "How many pods must be able to start for any of them to."},
            "minResources": amounts("What must be free before the pods are tried."),
            "scheduleTimeoutSeconds": {"type": "integer", "format": "int32",
                "description": "How long room is kept for pods that cannot start yet."},
        },
    });
    let status = json!({
        "type": "object",
        "properties": {
            "phase": {"type": "string"},
            "occupiedBy": {"type": "string"},
            "scheduled": count(),
            "running": count(),
            "succeeded": count(),
            "failed": count(),
            "scheduleStartTime": {"type": "string", "format": "date-time"},
        },
    });
    let columns = json!([
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
        {"name": "MinMember", "type": "integer", "jsonPath": ".spec.minMember"},
        {"name": "Running", "type": "integer", "jsonPath": ".status.running"},
        {"name": "Succeeded", "type": "integer", "jsonPath": ".status.succeeded"},
        {"name": "Failed", "type": "integer", "jsonPath": ".status.failed"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    let mut definition =
        definition("scheduling.x-k8s.io", "v1alpha1", &["pg", "pgs"], (spec, status, columns));
    // Groups of k8s.io need somebody's approval on record.
    definition["metadata"]["annotations"] = json!({"api-approved.kubernetes.io":
        "https://github.com/kubernetes-sigs/scheduler-plugins/pull/50"});
    definition
}

fn volcano() -> Value {
    let level = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let spec = json!({
        "type": "object",
        "properties": {
            "minMember": {"type": "integer", "format": "int32",
                "description": "How many pods must be able to start for any of them to."},
            "minTaskMember": {"type": "object",
                "additionalProperties": {"type": "integer", "format": "int32"}},
            "minResources": amounts("What must be free before the pods are tried."),
            "queue": {"type": "string", "default": "default"},
            "priorityClassName": {"type": "string"},
            "networkTopology": {"type": "object", "properties": {
                "mode": {"type": "string", "enum": ["hard", "soft"], "default": "hard"},
                "highestTierAllowed": {"type": "integer", "default": 1},
                "highestTierName": {"type": "string"}}},
            "subGroupPolicy": {"type": "array", "items": level},
        },
    });
    let condition = json!({
        "type": "object",
        "properties": {
            "type": {"type": "string"}, "status": {"type": "string"},
            "transitionID": {"type": "string"}, "reason": {"type": "string"},
            "message": {"type": "string"},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
        },
    });
    let status = json!({
        "type": "object",
        "properties": {
            "phase": {"type": "string"},
            "conditions": {"type": "array", "items": condition},
            "running": count(),
            "succeeded": count(),
            "failed": count(),
        },
    });
    let columns = json!([
        {"name": "STATUS", "type": "string", "jsonPath": ".status.phase"},
        {"name": "minMember", "type": "integer", "jsonPath": ".spec.minMember"},
        {"name": "RUNNINGS", "type": "integer", "jsonPath": ".status.running"},
        {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "QUEUE", "type": "string", "priority": 1, "jsonPath": ".spec.queue"},
    ]);
    let short = ["pg", "podgroup-v1beta1"];
    definition("scheduling.volcano.sh", "v1beta1", &short, (spec, status, columns))
}

fn definition(
    group: &str,
    version: &str,
    short: &[&str],
    (spec, status, columns): (Value, Value, Value),
) -> Value {
    let schema = json!({
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("podgroups.{group}")},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "PodGroup", "listKind": "PodGroupList", "plural": "podgroups",
                "singular": "podgroup", "shortNames": short},
            "versions": [{"name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
                "additionalPrinterColumns": columns}],
        },
    })
}

fn role() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": ROLE},
        "rules": [
            {"apiGroups": ["scheduling.x-k8s.io", "scheduling.volcano.sh"],
                "resources": ["podgroups"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": ["scheduling.x-k8s.io", "scheduling.volcano.sh"],
                "resources": ["podgroups/status"], "verbs": ["get", "patch", "update"]},
            // An event that repeats is read, and counted.
            {"apiGroups": [""], "resources": ["events"], "verbs": ["get"]},
        ],
    })
}

fn binding() -> Value {
    let group = "rbac.authorization.k8s.io";
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": ROLE},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": ROLE},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "system:kube-scheduler"}],
    })
}

fn count() -> Value {
    json!({"type": "integer", "format": "int32"})
}

fn amounts(description: &str) -> Value {
    json!({"type": "object", "description": description, "additionalProperties": {
        "anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true}})
}
