//! The objects that make a server ask.

use api::dynamo::{GROUP, HUB, SPOKE};
use serde_json::{Value, json};

use crate::{NAMESPACE, WEBHOOK_SERVICE, names};

pub const DEFAULT_GRAPH: &str = "/mutate/nvidia.com/v1beta1/dynamographdeployments";
pub const VALIDATE_GRAPH: &str = "/validate/nvidia.com/v1beta1/dynamographdeployments";
pub const DEFAULT_COMPONENT: &str = "/mutate-nvidia-com-v1beta1-dynamocomponentdeployment";
pub const VALIDATE_COMPONENT: &str = "/validate/nvidia.com/v1beta1/dynamocomponentdeployments";
/// Where older configurations ask the same.
pub const VALIDATE_COMPONENT_LEGACY: &str =
    "/validate-nvidia-com-v1alpha1-dynamocomponentdeployment";
pub const VALIDATE_MODEL: &str = "/validate-nvidia-com-v1alpha1-dynamomodel";
pub const DEFAULT_REQUEST: &str = "/mutate-nvidia-com-v1beta1-dynamographdeploymentrequest";
pub const VALIDATE_REQUEST: &str = "/validate-nvidia-com-v1beta1-dynamographdeploymentrequest";

pub const VALIDATE_CHECKPOINT: &str = "/validate-nvidia-com-v1alpha1-dynamocheckpoint";
/// Pods that may start from a checkpoint.
pub const RESTORE_POD: &str = "/mutate-core-v1-pod-checkpoint-restore";

const TIMEOUT_SECONDS: u64 = 10;

pub fn configurations() -> [Value; 2] {
    let both = ["CREATE", "UPDATE"];
    let graphs = "dynamographdeployments";
    let components = "dynamocomponentdeployments";
    let mut component = webhook(
        "mdynamocomponentdeploymentv1beta1.kb.io",
        DEFAULT_COMPONENT,
        components,
        &["CREATE"],
    );
    component["matchPolicy"] = json!("Exact");
    let requests = "dynamographdeploymentrequests";
    let request = "mdynamographdeploymentrequestv1beta1.kb.io";
    let request = webhook(request, DEFAULT_REQUEST, requests, &["CREATE"]);
    let mut model = webhook("vdynamomodel.kb.io", VALIDATE_MODEL, "dynamomodels", &both);
    model["rules"][0]["apiVersions"] = json!([SPOKE]);
    let mut checkpoint =
        webhook("vdynamocheckpoint.kb.io", VALIDATE_CHECKPOINT, "dynamocheckpoints", &both);
    checkpoint["rules"][0]["apiVersions"] = json!([SPOKE]);
    let mut restore = webhook("mpodcheckpointrestore.kb.io", RESTORE_POD, "pods", &["CREATE"]);
    restore["rules"][0]["apiGroups"] = json!([""]);
    restore["rules"][0]["apiVersions"] = json!(["v1"]);
    // A pod that starts slowly is better than none.
    restore["failurePolicy"] = json!("Ignore");
    restore["objectSelector"] = json!({"matchLabels": {names::RESTORE_CANDIDATE: "true"}});
    [
        configuration(
            "Mutating",
            "dynamo-operator-mutating",
            vec![
                webhook("mdynamographdeployment.kb.io", DEFAULT_GRAPH, graphs, &both),
                component,
                request,
                restore,
            ],
        ),
        configuration(
            "Validating",
            "dynamo-operator-validating",
            vec![
                webhook("vdynamographdeployment.kb.io", VALIDATE_GRAPH, graphs, &both),
                webhook("vdynamocomponentdeployment.kb.io", VALIDATE_COMPONENT, components, &both),
                checkpoint,
                model,
                webhook("vdynamographdeploymentrequest.kb.io", VALIDATE_REQUEST, requests, &both),
            ],
        ),
    ]
}

fn configuration(word: &str, name: &str, webhooks: Vec<Value>) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": format!("{word}WebhookConfiguration"),
        "metadata": {"name": name, "labels": {"app.kubernetes.io/part-of": "dynamo-operator",
            "nvidia.com/dynamo-operator-namespace": NAMESPACE}},
        "webhooks": webhooks,
    })
}

fn webhook(name: &str, path: &str, plural: &str, operations: &[&str]) -> Value {
    json!({
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig":
            {"service": {"namespace": NAMESPACE, "name": WEBHOOK_SERVICE, "path": path}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_SECONDS,
        "rules": [{"apiGroups": [GROUP], "apiVersions": [HUB], "resources": [plural],
            "operations": operations, "scope": "*"}],
    })
}
