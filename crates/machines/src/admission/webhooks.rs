//! The objects that make a server ask.

use serde_json::{Value, json};

use crate::kinds::{CLAIM, DATA_VOLUME, WUKONG};
use crate::{NAMESPACE, WEBHOOK_SERVICE};

pub const DEFAULT: &str = "/mutate-vm-novasphere-dev-v1alpha1-wukong";
pub const VALIDATE: &str = "/validate-vm-novasphere-dev-v1alpha1-wukong";

pub const BASES: &str = "/validate-bases";

pub fn configurations() -> [Value; 2] {
    [
        configuration("Mutating", "novasphere-mutating-webhook-configuration", "m", DEFAULT),
        configuration("Validating", "novasphere-validating-webhook-configuration", "v", VALIDATE),
    ]
}

/// Asks before something goes whose disks others may be linked to. Where machines are not ours,
/// nothing is linked.
pub fn of_bases() -> Value {
    let name = "setpoint-linked-clones";
    let mut made = configuration("Validating", name, "bases.", BASES);
    let rule = |group: &str, version: &str, resource: &str| {
        json!({"apiGroups": [group], "apiVersions": [version], "resources": [resource],
            "operations": ["DELETE"], "scope": "Namespaced"})
    };
    // Claims are not of machines alone: where nobody answers, nothing that is linked runs either.
    made["webhooks"][0]["failurePolicy"] = json!("Ignore");
    made["webhooks"][0]["rules"] = json!([
        rule("", "v1", CLAIM.plural),
        rule(DATA_VOLUME.group, DATA_VOLUME.version, DATA_VOLUME.plural),
        rule(WUKONG.group, WUKONG.version, WUKONG.plural),
    ]);
    made
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
