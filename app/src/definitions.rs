//! Installs what components of ours need to find: definitions of their kinds, roles, and more.

use std::time::Duration;

use reconcile::{Context, Kind};
use serde_json::Value;

/// Who applies.
const MANAGER: &str = "setpoint";
const RETRY: Duration = Duration::from_secs(1);

const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

const KINDS: [Kind; 11] = [
    Kind::cluster("", "v1", "Namespace", "namespaces"),
    Kind::namespaced("", "v1", "ServiceAccount", "serviceaccounts"),
    Kind::namespaced("", "v1", "ConfigMap", "configmaps"),
    Kind::cluster(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    ),
    Kind::cluster(RBAC, "v1", "ClusterRole", "clusterroles"),
    Kind::cluster(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings"),
    Kind::namespaced(RBAC, "v1", "Role", "roles"),
    Kind::namespaced(RBAC, "v1", "RoleBinding", "rolebindings"),
    Kind::cluster(ADMISSION, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
    Kind::cluster(
        ADMISSION,
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
    ),
    training::kinds::CLUSTER_TRAINING_RUNTIME,
];

/// The kind of a manifest, of those that are installed.
pub fn kind_of(manifest: &Value) -> Option<Kind> {
    KINDS.iter().find(|kind| manifest["kind"] == kind.kind).copied()
}

/// Applies every manifest, in order; tries again until all are there or everything is to stop.
pub async fn install(context: &Context, manifests: &[Value]) {
    for manifest in manifests {
        let Some(kind) = kind_of(manifest) else {
            tracing::error!(kind = %manifest["kind"], "nobody installs this kind");
            continue;
        };
        let requests = context.requests(MANAGER, Default::default());
        while let Err(error) = requests.apply(kind, manifest).await {
            if *context.stop.borrow() {
                return;
            }
            let name = &manifest["metadata"]["name"];
            tracing::warn!(%kind, %name, error = %error.chain(), "not installed; trying again");
            tokio::select! {
                () = tokio::time::sleep(RETRY) => {}
                () = context.stopping() => return,
            }
        }
    }
}
