//! What the operator for LeaderWorkerSets needs to find: the kind, rights, and what asks it.

use api::roles::{cluster_binding_to, cluster_role, rule};
use serde_json::{Value, json};

use super::labels;
use crate::{NAMESPACE, SERVICE_ACCOUNT, WEBHOOK_SERVICE};

pub const DEFAULT: &str = "/mutate-leaderworkerset-x-k8s-io-v1-leaderworkerset";
pub const VALIDATE: &str = "/validate-leaderworkerset-x-k8s-io-v1-leaderworkerset";
pub const COMPLETE_POD: &str = "/mutate--v1-pod";

const ROLE: &str = "lws-manager-role";

/// Everything to be applied, in order, but for the namespace.
pub fn all() -> Vec<Value> {
    let mut all = vec![api::leader_worker_set::definition()];
    all.extend(roles());
    all.extend(webhooks());
    all
}

/// The rights alone.
pub fn roles() -> [Value; 2] {
    let account = (NAMESPACE, SERVICE_ACCOUNT);
    [cluster_role(ROLE, rules()), cluster_binding_to("lws-manager-rolebinding", ROLE, account)]
}

fn rules() -> Value {
    let read = ["get", "list", "watch"];
    let group = [api::leader_worker_set::GROUP];
    json!([
        rule(&[""], &["nodes"], &["get"]),
        rule(&[""], &["pods"], &["delete", "get", "list", "watch"]),
        rule(&[""], &["pods/finalizers"], &["update"]),
        rule(&[""], &["services"], &["create", "list", "watch"]),
        rule(&[""], &["events"], &["create", "patch"]),
        rule(&["apps"], &["controllerrevisions"], &["create", "delete", "list", "watch"]),
        rule(&["apps"], &["statefulsets"], &["create", "list", "patch", "watch"]),
        rule(&["scheduling.volcano.sh"], &["podgroups"], &["create", "list", "watch"]),
        rule(&group, &["leaderworkersets"], &read),
        rule(&group, &["leaderworkersets/finalizers"], &["update"]),
        rule(&group, &["leaderworkersets/status"], &["update"]),
    ])
}

/// The objects that make a server ask.
pub fn webhooks() -> [Value; 2] {
    let sets = (api::leader_worker_set::GROUP, "leaderworkersets");
    let both = ["CREATE", "UPDATE"];
    let default = webhook("mleaderworkerset.kb.io", DEFAULT, sets, &both);
    let validate = webhook("vleaderworkerset.kb.io", VALIDATE, sets, &both);
    let mut pods = webhook("mpod.kb.io", COMPLETE_POD, ("", "pods"), &["CREATE"]);
    pods["objectSelector"] =
        json!({"matchExpressions": [{"key": labels::NAME, "operator": "Exists"}]});
    [
        configuration("Mutating", "lws-mutating-webhook-configuration", vec![default, pods]),
        configuration("Validating", "lws-validating-webhook-configuration", vec![validate]),
    ]
}

fn configuration(word: &str, name: &str, webhooks: Vec<Value>) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": format!("{word}WebhookConfiguration"),
        "metadata": {"name": name},
        "webhooks": webhooks,
    })
}

fn webhook(name: &str, path: &str, (group, plural): (&str, &str), operations: &[&str]) -> Value {
    json!({
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service":
            {"namespace": NAMESPACE, "name": WEBHOOK_SERVICE, "path": path}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "rules": [{"apiGroups": [group], "apiVersions": ["v1"], "resources": [plural],
            "operations": operations, "scope": "*"}],
    })
}
