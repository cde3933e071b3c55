//! The flow schemas and priority levels without which no request has a place.
//!
//! Upstream: staging/apiserver/pkg/apis/flowcontrol/bootstrap/default.go

use serde_json::{Value, json};

use super::{First, first};

const GROUP: &str = "flowcontrol.apiserver.k8s.io";

pub fn objects() -> [First; 4] {
    let exempt = json!({
        "type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0},
    });
    let rest = json!({
        "type": "Limited",
        "limited": {
            "nominalConcurrencyShares": 5, "lendablePercent": 0,
            "limitResponse": {"type": "Reject"},
        },
    });
    let everybody = ["system:unauthenticated", "system:authenticated"];
    [
        level("exempt", &exempt),
        level("catch-all", &rest),
        schema("exempt", json!({"matchingPrecedence": 1}), &["system:masters"]),
        schema(
            "catch-all",
            json!({"matchingPrecedence": 10_000, "distinguisherMethod": {"type": "ByUser"}}),
            &everybody,
        ),
    ]
}

fn metadata(name: &str) -> Value {
    json!({"name": name, "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}})
}

fn level(name: &str, spec: &Value) -> First {
    let object = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "PriorityLevelConfiguration",
        "metadata": metadata(name), "spec": spec,
    });
    first(GROUP, "prioritylevelconfigurations", object)
}

/// Everything that some groups ask for, at the level of the same name.
fn schema(name: &str, mut spec: Value, groups: &[&str]) -> First {
    let subject = |name: &&str| json!({"kind": "Group", "group": {"name": name}});
    let subjects: Vec<Value> = groups.iter().map(subject).collect();
    spec["priorityLevelConfiguration"] = json!({"name": name});
    spec["rules"] = json!([{
        "subjects": subjects,
        "resourceRules": [{
            "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"],
            "clusterScope": true, "namespaces": ["*"],
        }],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }]);
    let message = format!(
        "This FlowSchema references the PriorityLevelConfiguration object named {name:?} and it \
         exists"
    );
    let object = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "FlowSchema",
        "metadata": metadata(name), "spec": spec,
        "status": {"conditions": [{
            "type": "Dangling", "status": "False", "reason": "Found", "message": message,
        }]},
    });
    first(GROUP, "flowschemas", object)
}
