//! What the operators need to find: definitions of their kinds, roles, what asks them before
//! objects are written, and the runtimes that everybody has.

use api::roles::{GROUP as RBAC, cluster_binding, cluster_role, rule};
use serde_json::{Value, json};

use crate::admission::webhooks;
use crate::runtimes::{self, Choice};
use crate::{Enabled, NAMESPACE, SERVICE_ACCOUNT};

/// Who has the rights.
const ACCOUNT: (&str, &str) = (NAMESPACE, SERVICE_ACCOUNT);
const PUBLIC: &str = "kubeflow-trainer-public";
const JOB_SET_ROLE: &str = "jobset-manager-role";

/// Everything to be applied, in order.
pub fn all(enabled: Enabled, choice: Choice, version: &str) -> Vec<Value> {
    let mut all = operators(enabled, version);
    if enabled.trainer {
        all.extend(runtimes::manifests(choice));
    }
    all
}

/// What the operators need to find, in order; objects of their own kinds come after that.
pub fn operators(enabled: Enabled, version: &str) -> Vec<Value> {
    let mut all = vec![namespace()];
    if enabled.job_set {
        all.push(api::job_set::definition());
    }
    if enabled.trainer {
        all.extend(api::training::definitions());
        all.extend(public(version));
    }
    all.extend(roles(enabled));
    all.extend(webhooks::configurations(enabled));
    all
}

/// The rights alone, for those who install the rest themselves.
pub fn roles(enabled: Enabled) -> Vec<Value> {
    let mut all = Vec::new();
    if enabled.job_set {
        all.extend([
            cluster_role(JOB_SET_ROLE, job_set_rules()),
            cluster_binding(JOB_SET_ROLE, ACCOUNT),
        ]);
    }
    if enabled.trainer {
        all.extend([
            cluster_role(SERVICE_ACCOUNT, trainer_rules()),
            cluster_binding(SERVICE_ACCOUNT, ACCOUNT),
        ]);
    }
    all
}

fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
}

/// What a cache does.
const FOLLOW: [&str; 2] = ["list", "watch"];
/// What is done with objects that are made and kept as they are to be.
const APPLY: [&str; 4] = ["create", "list", "patch", "watch"];
/// Events are made, and counted when they repeat.
const TELL: [&str; 2] = ["create", "patch"];

/// Exactly what is asked for: `tests/training/rights.rs` knows.
fn trainer_rules() -> Value {
    let trainer = [api::training::GROUP];
    json!([
        rule(&[""], &["configmaps"], &["create", "get", "list", "patch", "watch"]),
        rule(&[""], &["secrets"], &APPLY),
        rule(&[""], &["events"], &TELL),
        rule(&[""], &["limitranges"], &FOLLOW),
        // Progress is read from the log of a job's first pod.
        rule(&[""], &["pods"], &["list"]),
        rule(&[""], &["pods/log"], &["get"]),
        rule(&["authentication.k8s.io"], &["tokenreviews"], &["create"]),
        // A job whose time is over loses its JobSet, whoever makes something of JobSets.
        rule(
            &["jobset.x-k8s.io"],
            &["jobsets"],
            &["create", "delete", "get", "list", "patch", "watch"]
        ),
        rule(&["node.k8s.io"], &["runtimeclasses"], &FOLLOW),
        rule(&["scheduling.k8s.io"], &["priorityclasses"], &["list"]),
        rule(&["scheduling.x-k8s.io", "scheduling.volcano.sh"], &["podgroups"], &APPLY),
        rule(&trainer, &["trainjobs"], &["delete", "get", "list", "watch"]),
        rule(
            &trainer,
            &["clustertrainingruntimes", "trainingruntimes"],
            &["get", "list", "patch", "watch"]
        ),
        rule(&trainer, &["trainjobs/status"], &["patch", "update"]),
        // Who makes owners wait for what they own must be allowed to.
        rule(&trainer, &["trainjobs/finalizers"], &["update"]),
    ])
}

fn job_set_rules() -> Value {
    json!([
        rule(&[""], &["persistentvolumeclaims", "services"], &["create", "list", "watch"]),
        rule(&[""], &["events"], &TELL),
        rule(&["batch"], &["jobs"], &["create", "delete", "list", "patch", "watch"]),
        // One that goes on after it was held begins anew.
        rule(&["batch"], &["jobs/status"], &["update"]),
        rule(&["jobset.x-k8s.io"], &["jobsets"], &["delete", "get", "list", "watch"]),
        rule(&["jobset.x-k8s.io"], &["jobsets/status"], &["update"]),
        rule(&["jobset.x-k8s.io"], &["jobsets/finalizers"], &["update"]),
    ])
}

/// The version, for everybody who has a name: clients look for it.
fn public(version: &str) -> [Value; 3] {
    let meta = json!({"name": PUBLIC, "namespace": NAMESPACE});
    [
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta,
            "data": {"kubeflow_trainer_version": version}}),
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": meta,
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [PUBLIC],
                "verbs": ["get"]}]}),
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": meta,
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": PUBLIC},
            "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": "system:authenticated"}]}),
    ]
}
