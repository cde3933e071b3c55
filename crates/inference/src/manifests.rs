//! What the operators need to find: definitions of their kinds, roles, and what asks them before
//! objects are written.

use api::dynamo::GROUP;
use serde_json::{Value, json};

use crate::admission::webhooks;
use crate::settings::Settings;
use crate::{Enabled, NAMESPACE, SERVICE_ACCOUNT, leader_worker_set, request};

const RBAC: &str = "rbac.authorization.k8s.io";
const ALL_VERBS: [&str; 7] = ["create", "delete", "get", "list", "patch", "update", "watch"];
const READ: [&str; 3] = ["get", "list", "watch"];
const CHANGE: [&str; 3] = ["get", "patch", "update"];

/// Everything to be applied, in order.
pub fn all(enabled: Enabled) -> Vec<Value> {
    let mut all = vec![namespace()];
    if enabled.leader_worker_set {
        all.extend(leader_worker_set::manifests::all());
    }
    if enabled.dynamo {
        all.extend(api::dynamo::definitions());
        all.extend([
            api::dynamo_checkpoint::definition(),
            api::dynamo_model::definition(),
            api::dynamo_request::definition(),
        ]);
    }
    all.extend(roles(enabled));
    if enabled.dynamo {
        all.extend(webhooks::configurations());
    }
    all
}

/// The rights over graphs and models alone.
pub fn roles(enabled: Enabled) -> Vec<Value> {
    if !enabled.dynamo {
        return Vec::new();
    }
    let names = Settings::default().roles;
    vec![
        role(SERVICE_ACCOUNT, operator_rules()),
        binding(SERVICE_ACCOUNT),
        role(&names.planner, planner_rules()),
        role(&names.picker, picker_rules()),
        request::manifests::profiling_role(),
    ]
}

fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
}

fn role(name: &str, rules: Value) -> Value {
    json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole",
        "metadata": {"name": name}, "rules": rules})
}

fn binding(name: &str) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "namespace": NAMESPACE, "name": SERVICE_ACCOUNT}],
    })
}

fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": groups, "resources": resources, "verbs": verbs})
}

/// The kinds of our own.
const OWN: [&str; 7] = [
    "dynamocheckpoints",
    "dynamocomponentdeployments",
    "dynamographdeploymentrequests",
    "dynamographdeployments",
    "dynamographdeploymentscalingadapters",
    "dynamomodels",
    "dynamoworkermetadatas",
];

fn operator_rules() -> Value {
    let of_own = |part: &str| OWN.map(|plural| format!("{plural}/{part}"));
    let (status, finalizers) = (of_own("status"), of_own("finalizers"));
    let text = |all: &[String]| all.to_vec();
    json!([
        rule(&[GROUP], &OWN, &ALL_VERBS),
        {"apiGroups": [GROUP], "resources": text(&status), "verbs": CHANGE},
        {"apiGroups": [GROUP], "resources": text(&finalizers), "verbs": ["update"]},
        rule(&[GROUP], &["dynamographdeploymentscalingadapters/scale"], &CHANGE),
        rule(
            &[""],
            &["configmaps", "persistentvolumeclaims", "secrets", "serviceaccounts", "services"],
            &ALL_VERBS
        ),
        rule(&["", "events.k8s.io"], &["events"], &ALL_VERBS),
        rule(&[""], &["pods"], &[&ALL_VERBS[..], &["deletecollection"]].concat()),
        rule(&[""], &["nodes"], &["get", "list"]),
        rule(&[""], &["pods/log"], &["get"]),
        rule(&[""], &["endpoints"], &READ),
        rule(&["apps"], &["deployments"], &ALL_VERBS),
        rule(&["apps"], &["daemonsets"], &READ),
        rule(&["autoscaling"], &["horizontalpodautoscalers"], &ALL_VERBS),
        rule(&["batch"], &["jobs"], &ALL_VERBS),
        rule(&["coordination.k8s.io"], &["leases"], &ALL_VERBS),
        rule(&["networking.k8s.io"], &["ingressclasses", "ingresses"], &ALL_VERBS),
        rule(&["discovery.k8s.io"], &["endpointslices"], &READ),
        rule(
            &[RBAC],
            &["clusterrolebindings", "clusterroles", "rolebindings", "roles"],
            &ALL_VERBS
        ),
        rule(&[GROUP], &["podsnapshots"], &["create", "get", "list", "patch", "update", "watch"]),
        rule(
            &["grove.io"],
            &["podcliquesets"],
            &ALL_VERBS
        ),
        rule(
            &["grove.io"],
            &["clustertopologybindings", "podcliques", "podcliquescalinggroups"],
            &READ
        ),
        rule(&["grove.io"], &["podcliques/scale", "podcliquescalinggroups/scale"], &CHANGE),
        rule(
            &["networking.istio.io"],
            &["destinationrules", "virtualservices"],
            &ALL_VERBS
        ),
        rule(&["resource.k8s.io"], &["resourceclaimtemplates"], &ALL_VERBS),
        rule(&["resource.k8s.io"], &["deviceclasses", "resourceclaims"], &READ),
        rule(&["scheduling.run.ai"], &["queues"], &["get", "list"]),
        rule(&["scheduling.volcano.sh"], &["podgroups"], &ALL_VERBS),
        rule(&["leaderworkerset.x-k8s.io"], &["leaderworkersets"], &ALL_VERBS),
        rule(&["inference.networking.k8s.io"], &["inferencepools"], &ALL_VERBS),
        rule(&["inference.networking.x-k8s.io"], &["inferencepools"], &READ),
        rule(
            &["apiextensions.k8s.io"],
            &["customresourcedefinitions", "customresourcedefinitions/status"],
            &["get", "list", "patch", "update", "watch"]
        ),
        rule(
            &["admissionregistration.k8s.io"],
            &["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
            &["get", "list", "patch", "update", "watch"]
        ),
        rule(&["authentication.k8s.io"], &["tokenreviews"], &["create"]),
        rule(&["authorization.k8s.io"], &["subjectaccessreviews"], &["create"]),
    ])
}

fn planner_rules() -> Value {
    json!([
        rule(&[GROUP], &["dynamographdeployments"], &["create", "get", "list", "patch", "update"]),
        rule(&[GROUP], &["dynamographdeploymentscalingadapters/scale"], &["patch"]),
        rule(&["discovery.k8s.io"], &["endpointslices"], &READ),
        rule(&[GROUP], &["dynamoworkermetadatas"], &ALL_VERBS),
    ])
}

fn picker_rules() -> Value {
    let pools = ["inference.networking.k8s.io", "inference.networking.x-k8s.io"];
    json!([
        rule(&pools, &["inferencepools"], &READ),
        rule(&[""], &["pods"], &READ),
        rule(&["discovery.k8s.io"], &["endpointslices"], &READ),
        rule(&[GROUP], &["dynamoworkermetadatas"], &ALL_VERBS),
        rule(&["authentication.k8s.io"], &["tokenreviews"], &["create"]),
        rule(&["authorization.k8s.io"], &["subjectaccessreviews"], &["create"]),
    ])
}
