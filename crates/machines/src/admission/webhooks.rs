//! The objects that make a server ask.

use serde_json::{Value, json};

use crate::{NAMESPACE, WEBHOOK_SERVICE};

pub const DEFAULT: &str = "/mutate-vm-novasphere-dev-v1alpha1-wukong";
pub const VALIDATE: &str = "/validate-vm-novasphere-dev-v1alpha1-wukong";

pub fn configurations() -> [Value; 2] {
    [
        configuration("Mutating", "novasphere-mutating-webhook-configuration", "m", DEFAULT),
        configuration("Validating", "novasphere-validating-webhook-configuration", "v", VALIDATE),
    ]
}

fn configuration(word: &str, name: &str, letter: &str, path: &str) -> Value {
    let client =
        json!({"service": {"namespace": NAMESPACE, "name": WEBHOOK_SERVICE, "path": path}});
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": format!("{word}WebhookConfiguration"),
        "metadata": {"name": name},
        "webhooks": [{
            "name": format!("{letter}wukong.kb.io"),
            "admissionReviewVersions": ["v1"],
            "clientConfig": client,
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "rules": [{"apiGroups": [api::wukong::GROUP], "apiVersions": [api::wukong::VERSION],
                "resources": ["wukongs"], "operations": ["CREATE", "UPDATE"], "scope": "*"}],
        }],
    })
}
