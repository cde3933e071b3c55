//! Who may do what: the operators, those who stand in for the add-ons, and users.
//!
//! Users get their rights through the roles that every cluster has: whoever may edit a namespace
//! may edit its machines.

use serde_json::{Value, json};

use crate::{NAMESPACE, SERVICE_ACCOUNT};

const RBAC: &str = "rbac.authorization.k8s.io";
const OPERATOR: &str = "novasphere-manager-role";
/// Who stands in for the controllers of KubeVirt and CDI; also the name of the role.
pub const PROVIDER: &str = "system:machine-provider";
/// Who runs machines on a node and answers what is asked of them; also the name of the role.
pub const LAUNCHER: &str = "system:machine-launcher";

/// What the operator is known to ask for, whether each of it is used or not.
const EVERYTHING: [&str; 7] = ["create", "delete", "get", "list", "patch", "update", "watch"];
const READ: [&str; 3] = ["get", "list", "watch"];
/// What is done with objects that are made and kept.
const MAKE: [&str; 6] = ["create", "delete", "get", "list", "patch", "watch"];
/// Events are made, and counted when they repeat.
const TELL: [&str; 2] = ["create", "patch"];

/// The rights of the operators alone, for those who install the rest themselves.
pub fn operator() -> [Value; 2] {
    let account = json!({"kind": "ServiceAccount", "namespace": NAMESPACE,
        "name": SERVICE_ACCOUNT});
    [role(OPERATOR, operator_rules()), binding(OPERATOR, account)]
}

/// The rights of those who stand in for the add-ons.
pub fn add_ons() -> Vec<Value> {
    let user = |name: &str| json!({"apiGroup": RBAC, "kind": "User", "name": name});
    let mut all = vec![
        role(PROVIDER, provider_rules()),
        binding(PROVIDER, user(PROVIDER)),
        role(LAUNCHER, launcher_rules()),
        binding(LAUNCHER, user(LAUNCHER)),
    ];
    all.extend(of_users("kubevirt.io", &machine_rules));
    all.extend(of_users("cdi.kubevirt.io", &volume_rules));
    all
}

/// The rights of users to what the operators make machines of.
pub fn users() -> Vec<Value> {
    of_users(api::wukong::GROUP, &wukong_rules)
}

fn role(name: &str, rules: Value) -> Value {
    json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole",
        "metadata": {"name": name}, "rules": rules})
}

fn binding(name: &str, subject: Value) -> Value {
    json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [subject]})
}

/// What a user may do with something.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    View,
    Edit,
    Admin,
}

/// A role for each access, which is part of what every cluster calls so.
fn of_users(group: &str, rules: &dyn Fn(Access) -> Value) -> Vec<Value> {
    let all = [(Access::Admin, "admin"), (Access::Edit, "edit"), (Access::View, "view")];
    let one = |(access, name): (Access, &str)| {
        let mut role = role(&format!("{group}:{name}"), rules(access));
        role["metadata"]["labels"] = json!({format!("{RBAC}/aggregate-to-{name}"): "true"});
        role
    };
    all.into_iter().map(one).collect()
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

fn verbs(access: Access) -> Vec<&'static str> {
    match access {
        Access::View => READ.to_vec(),
        Access::Edit => EVERYTHING.to_vec(),
        Access::Admin => [&EVERYTHING[..], &["deletecollection"]].concat(),
    }
}

fn wukong_rules(access: Access) -> Value {
    json!([rule(api::wukong::GROUP, &["wukongs", "wukongsnapshots"], &verbs(access))])
}

fn volume_rules(access: Access) -> Value {
    let mut rules = vec![rule("cdi.kubevirt.io", &["datavolumes"], &verbs(access))];
    if access != Access::View {
        rules.push(rule("subresources.kubevirt.io", &["datavolumes/upload"], &["get"]));
    }
    json!(rules)
}

fn machine_rules(access: Access) -> Value {
    let subresources = "subresources.kubevirt.io";
    let machines = ["virtualmachines", "virtualmachineinstances"];
    let snapshots =
        ["virtualmachinesnapshots", "virtualmachinesnapshotcontents", "virtualmachinerestores"];
    let mut rules = vec![
        rule("kubevirt.io", &machines, &verbs(access)),
        rule("snapshot.kubevirt.io", &snapshots, &verbs(access)),
        rule(
            subresources,
            &["virtualmachineinstances/guestosinfo", "virtualmachineinstances/usage"],
            &["get"],
        ),
    ];
    if access != Access::View {
        let joined = ["console", "vnc", "portforward"]
            .map(|of| format!("virtualmachineinstances/{of}"))
            .into_iter()
            .chain(["virtualmachines/portforward".to_owned()]);
        let joined: Vec<String> = joined.collect();
        let joined: Vec<&str> = joined.iter().map(String::as_str).collect();
        rules.push(rule(subresources, &joined, &["get"]));
        let asked = ["start", "stop", "restart", "addvolume", "removevolume"]
            .map(|of| format!("virtualmachines/{of}"))
            .into_iter()
            .chain(
                ["pause", "unpause", "reset", "addvolume", "removevolume"]
                    .map(|of| format!("virtualmachineinstances/{of}")),
            );
        let asked: Vec<String> = asked.collect();
        let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
        rules.push(rule(subresources, &asked, &["update"]));
    }
    json!(rules)
}

fn operator_rules() -> Value {
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
        rule("", &["persistentvolumeclaims", "services"], &MAKE),
        rule("", &["secrets"], &["get"]),
        rule("", &["events"], &TELL),
        rule("storage.k8s.io", &["storageclasses"], &["list", "watch"]),
        rule("apiextensions.k8s.io", &["customresourcedefinitions"], &["get"]),
        // The webhook checks what the writer of a Wukong may do to the network of nodes.
        rule("authorization.k8s.io", &["subjectaccessreviews"], &["create"]),
    ])
}

fn provider_rules() -> Value {
    json!([
        rule("kubevirt.io", &["virtualmachines"], &["list", "patch", "watch"]),
        rule("kubevirt.io", &["virtualmachines/status"], &["update"]),
        rule("kubevirt.io", &["virtualmachines/finalizers"], &["update"]),
        rule("kubevirt.io", &["virtualmachineinstances"], &MAKE),
        rule("kubevirt.io", &["virtualmachineinstances/status"], &["update"]),
        rule("cdi.kubevirt.io", &["datavolumes"], &["create", "list", "watch"]),
        rule("cdi.kubevirt.io", &["datavolumes/status"], &["update"]),
        rule("cdi.kubevirt.io", &["datavolumes/finalizers"], &["update"]),
        rule("snapshot.kubevirt.io", &["virtualmachinerestores"], &["list", "watch"]),
        rule(
            "nmstate.io",
            &["nodenetworkconfigurationpolicies", "nodenetworkconfigurationenactments"],
            &["list", "watch"]
        ),
        rule("nmstate.io", &["nodenetworkconfigurationpolicies/status"], &["update"]),
        rule("", &["persistentvolumeclaims"], &["create", "list", "patch", "watch"]),
        rule("", &["persistentvolumes", "nodes"], &["list", "watch"]),
        rule("", &["events"], &TELL),
        rule("storage.k8s.io", &["storageclasses"], &["list", "watch"]),
        rule("apiextensions.k8s.io", &["customresourcedefinitions"], &["get"]),
    ])
}

fn launcher_rules() -> Value {
    let write = ["get", "list", "patch", "watch"];
    json!([
        rule("kubevirt.io", &["virtualmachines", "virtualmachineinstances"], &write),
        rule("kubevirt.io", &["virtualmachines/status"], &["patch"]),
        rule("kubevirt.io", &["virtualmachineinstances/status"], &["update"]),
        rule("cdi.kubevirt.io", &["datavolumes"], &READ),
        rule("snapshot.kubevirt.io", &["virtualmachinesnapshots"], &READ),
        rule("snapshot.kubevirt.io", &["virtualmachinerestores"], &["list", "watch"]),
        rule(
            "snapshot.kubevirt.io",
            &["virtualmachinesnapshots/status", "virtualmachinerestores/status"],
            &["patch"]
        ),
        rule("k8s.cni.cncf.io", &["network-attachment-definitions"], &["get"]),
        rule("nmstate.io", &["nodenetworkconfigurationpolicies"], &["list", "watch"]),
        rule("nmstate.io", &["nodenetworkconfigurationpolicies/finalizers"], &["update"]),
        rule("nmstate.io", &["nodenetworkconfigurationenactments"], &["create", "get"]),
        rule("nmstate.io", &["nodenetworkconfigurationenactments/status"], &["patch"]),
        rule("", &["persistentvolumeclaims"], &write),
        rule("", &["persistentvolumes", "secrets"], &["get"]),
        rule("", &["services"], &["list", "watch"]),
        rule(
            "discovery.k8s.io",
            &["endpointslices"],
            &["create", "delete", "get", "list", "update", "watch"]
        ),
        rule("", &["nodes"], &["get", "patch"]),
        rule("", &["events"], &TELL),
        rule("apiextensions.k8s.io", &["customresourcedefinitions"], &["get"]),
    ])
}
