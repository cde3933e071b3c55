//! What the operators need to find: definitions of their kinds, roles, and what asks them before
//! objects are written.

use serde_json::{Value, json};

use crate::admission::webhooks;
use crate::{NAMESPACE, SERVICE_ACCOUNT};

const RBAC: &str = "rbac.authorization.k8s.io";
const ROLE: &str = "novasphere-manager-role";

/// Everything to be applied, in order.
pub fn all() -> Vec<Value> {
    let mut all = vec![namespace()];
    all.extend(api::wukong::definitions());
    all.extend(roles());
    all.extend(webhooks::configurations());
    all
}

/// The definitions of the add-ons, for a cluster whose machines are ours.
pub fn add_ons() -> Vec<Value> {
    api::add_ons::definitions()
}

/// The rights alone, for those who install the rest themselves.
pub fn roles() -> [Value; 2] {
    let role = json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole",
        "metadata": {"name": ROLE}, "rules": rules()});
    let binding = json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": {"name": ROLE},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": ROLE},
        "subjects": [{"kind": "ServiceAccount", "namespace": NAMESPACE, "name": SERVICE_ACCOUNT}],
    });
    [role, binding]
}

fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

/// What the operator is known to ask for, whether each of it is used or not.
const EVERYTHING: [&str; 7] = ["create", "delete", "get", "list", "patch", "update", "watch"];
const READ: [&str; 3] = ["get", "list", "watch"];
/// What is done with objects that are made and kept.
const MAKE: [&str; 6] = ["create", "delete", "get", "list", "patch", "watch"];
/// Events are made, and counted when they repeat.
const TELL: [&str; 2] = ["create", "patch"];

fn rules() -> Value {
    let own = api::wukong::GROUP;
    json!([
        rule(own, &["wukongs"], &EVERYTHING),
        rule(own, &["wukongs/status"], &["get", "patch", "update"]),
        // Who makes owners wait for what they own must be allowed to.
        rule(own, &["wukongs/finalizers"], &["update"]),
        rule(own, &["wukongsnapshots"], &READ),
        rule(own, &["wukongsnapshots/status"], &["get", "patch", "update"]),
        rule(own, &["wukongsnapshots/finalizers"], &["update"]),
        rule("kubevirt.io", &["virtualmachines"], &EVERYTHING),
        rule("kubevirt.io", &["virtualmachineinstances"], &READ),
        rule(
            "k8s.cni.cncf.io",
            // The second is what servers call it.
            &["networkattachmentdefinitions", "network-attachment-definitions"],
            &EVERYTHING
        ),
        rule("cdi.kubevirt.io", &["datavolumes"], &EVERYTHING),
        rule("nmstate.io", &["nodenetworkconfigurationpolicies"], &MAKE),
        rule(
            "snapshot.kubevirt.io",
            &["virtualmachinesnapshots"],
            &["create", "get", "list", "watch"]
        ),
        rule(
            "snapshot.kubevirt.io",
            &["virtualmachinerestores"],
            &["create", "delete", "get", "list", "watch"]
        ),
        rule("", &["persistentvolumeclaims"], &MAKE),
        rule("", &["secrets"], &["get"]),
        rule("", &["events"], &TELL),
        rule("storage.k8s.io", &["storageclasses"], &["list", "watch"]),
        rule("apiextensions.k8s.io", &["customresourcedefinitions"], &["get"]),
    ])
}
