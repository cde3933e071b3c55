//! What the operators need to find: definitions of their kinds, roles, and what asks them before
//! objects are written.

use api::dynamo::GROUP;
use api::roles::{GROUP as RBAC, cluster_binding, cluster_role, rule};
use serde_json::{Value, json};

use crate::admission::webhooks;
use crate::namespace_scope::LEASE_NAME;
use crate::settings::Settings;
use crate::{Enabled, NAMESPACE, SERVICE_ACCOUNT, leader_worker_set, names, request};

/// Who has the rights.
const ACCOUNT: (&str, &str) = (NAMESPACE, SERVICE_ACCOUNT);
const ALL_VERBS: [&str; 7] = ["create", "delete", "get", "list", "patch", "update", "watch"];
const READ: [&str; 3] = ["get", "list", "watch"];

/// Everything to be applied, in order.
pub fn all(enabled: Enabled) -> Vec<Value> {
    let mut all = vec![namespace()];
    if enabled.leader_worker_set {
        all.extend(leader_worker_set::manifests::all());
    }
    if enabled.dynamo {
        all.extend(definitions());
    }
    all.extend(roles(enabled));
    if enabled.dynamo {
        all.extend(webhooks::configurations());
    }
    all
}

/// The kinds of graphs; each says which operator brought it.
fn definitions() -> impl Iterator<Item = Value> {
    let others = [
        api::dynamo_checkpoint::definition(),
        api::dynamo_model::definition(),
        api::dynamo_request::definition(),
    ];
    let version = Settings::default().version;
    api::dynamo::definitions().into_iter().chain(others).map(move |mut one| {
        one["metadata"]["annotations"][names::OPERATOR_VERSION] = json!(version);
        one
    })
}

/// The rights over graphs and models alone.
pub fn roles(enabled: Enabled) -> Vec<Value> {
    if !enabled.dynamo {
        return Vec::new();
    }
    let names = Settings::default().roles;
    vec![
        cluster_role(SERVICE_ACCOUNT, operator_rules()),
        cluster_binding(SERVICE_ACCOUNT, ACCOUNT),
        cluster_role(&names.planner, planner_rules()),
        cluster_role(&names.picker, picker_rules()),
        request::manifests::profiling_role(),
    ]
}

/// The accounts of planners, pickers and profilers in the one namespace that operators work in:
/// such operators do not make them.
pub fn accounts(enabled: Enabled, namespace: &str) -> Vec<Value> {
    if !enabled.dynamo {
        return Vec::new();
    }
    let roles = Settings::default().roles;
    let accounts = [
        (names::PLANNER_ACCOUNT, roles.planner),
        (names::PICKER_ACCOUNT, roles.picker),
        (request::ACCOUNT, roles.profiler),
    ];
    let with_binding = accounts.into_iter().flat_map(|(account, role)| {
        let meta = |name: &str| json!({"namespace": namespace, "name": name});
        [
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta(account)}),
            json!({
                "apiVersion": format!("{RBAC}/v1"),
                "kind": "RoleBinding",
                "metadata": meta(&format!("{account}-binding")),
                "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": role},
                "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
            }),
        ]
    });
    let mut all: Vec<Value> = with_binding.collect();
    // The lease by which others know that the namespace is not theirs.
    let verbs = ["create", "delete", "get", "patch"];
    let mut marks =
        cluster_role(LEASE_NAME, json!([rule(&["coordination.k8s.io"], &["leases"], &verbs)]));
    marks["kind"] = json!("Role");
    marks["metadata"]["namespace"] = json!(namespace);
    let mut bound = cluster_binding(LEASE_NAME, ACCOUNT);
    bound["kind"] = json!("RoleBinding");
    bound["roleRef"]["kind"] = json!("Role");
    bound["metadata"]["namespace"] = json!(namespace);
    all.extend([marks, bound]);
    all
}

fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
}

/// What the operators do, and what they give to others: nobody gives what he does not have.
/// `tests/operators/rights.rs` holds it against what they ask for.
fn operator_rules() -> Value {
    let make = ["create", "list", "update", "watch"];
    let make_and_drop = ["create", "delete", "list", "update", "watch"];
    json!([
        // Our own kinds.
        rule(&[GROUP], &["dynamographdeployments"], &ALL_VERBS),
        rule(&[GROUP], &["dynamocheckpoints", "dynamoworkermetadatas"], &ALL_VERBS),
        rule(
            &[GROUP],
            &["dynamocomponentdeployments"],
            &["create", "delete", "list", "patch", "update", "watch"]
        ),
        rule(
            &[GROUP],
            &["dynamographdeploymentscalingadapters"],
            &["create", "delete", "list", "patch", "update", "watch"]
        ),
        rule(&[GROUP], &["dynamographdeploymentscalingadapters/scale"], &["patch"]),
        rule(
            &[GROUP],
            &["dynamographdeploymentrequests"],
            &["get", "list", "patch", "update", "watch"]
        ),
        rule(&[GROUP], &["dynamomodels"], &["list", "patch", "watch"]),
        rule(&[GROUP], &STATUS, &["update"]),
        rule(&[GROUP], &FINALIZERS, &["update"]),
        // What is made of them.
        rule(&[""], &["configmaps"], &ALL_VERBS),
        rule(&[""], &["persistentvolumeclaims"], &["create", "get", "list", "watch"]),
        rule(&[""], &["secrets"], &["create", "list", "watch"]),
        rule(&[""], &["serviceaccounts"], &["create", "get", "list", "update", "watch"]),
        rule(&[""], &["services"], &make_and_drop),
        rule(&[""], &["events"], &["create", "patch"]),
        rule(&["apps"], &["deployments"], &make_and_drop),
        rule(&["batch"], &["jobs"], &["create", "delete", "get", "list", "watch"]),
        rule(&["networking.k8s.io"], &["ingresses"], &make_and_drop),
        rule(&["leaderworkerset.x-k8s.io"], &["leaderworkersets"], &make),
        // The same where a cluster knows more.
        rule(&[GROUP], &["podsnapshots"], &["create", "list", "watch"]),
        rule(&["grove.io"], &["podcliquesets"], &make),
        rule(&["grove.io"], &["podcliques", "podcliquescalinggroups"], &["list", "watch"]),
        rule(&["grove.io"], &["podcliques/scale", "podcliquescalinggroups/scale"], &["patch"]),
        rule(&["networking.istio.io"], &["destinationrules", "virtualservices"], &make_and_drop),
        rule(&["resource.k8s.io"], &["resourceclaimtemplates"], &make_and_drop),
        rule(&["scheduling.run.ai"], &["queues"], &["get"]),
        rule(&["inference.networking.k8s.io"], &["inferencepools"], &ALL_VERBS),
        rule(&["inference.networking.x-k8s.io"], &["inferencepools"], &READ),
        rule(&[RBAC], &["roles"], &make),
        rule(&[RBAC], &["rolebindings"], &["create", "delete", "get", "list", "update", "watch"]),
        // Objects of older installations are written again.
        rule(&["apiextensions.k8s.io"], &["customresourcedefinitions"], &["get", "patch"]),
        rule(&["apiextensions.k8s.io"], &["customresourcedefinitions/status"], &["patch"]),
        // What is looked at, and what pods are told.
        rule(&[""], &["pods"], &["create", "delete", "get", "list", "patch", "watch"]),
        rule(&[""], &["pods/log"], &["get"]),
        rule(&[""], &["nodes"], &["get", "list"]),
        rule(&[""], &["endpoints"], &READ),
        rule(&["discovery.k8s.io"], &["endpointslices"], &READ),
        rule(&["grove.io"], &["clustertopologybindings"], &READ),
        rule(&[RBAC], &["clusterroles"], &["list", "watch"]),
        // Who has a namespace to himself says so by a lease.
        rule(&["coordination.k8s.io"], &["leases"], &["list", "watch"]),
        rule(&["authentication.k8s.io"], &["tokenreviews"], &["create"]),
        rule(&["authorization.k8s.io"], &["subjectaccessreviews"], &["create"]),
    ])
}

const STATUS: [&str; 6] = [
    "dynamocheckpoints/status",
    "dynamocomponentdeployments/status",
    "dynamographdeploymentrequests/status",
    "dynamographdeployments/status",
    "dynamographdeploymentscalingadapters/status",
    "dynamomodels/status",
];

/// Of kinds whose objects own others.
const FINALIZERS: [&str; 4] = [
    "dynamocheckpoints/finalizers",
    "dynamocomponentdeployments/finalizers",
    "dynamographdeploymentrequests/finalizers",
    "dynamographdeployments/finalizers",
];

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
