//! Installs manifests of operators by what they say of themselves.

use reconcile::Kind;
use serde_json::{Value, json};

use crate::cluster::Cluster;

const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

pub const DEFINITION: Kind = Kind::cluster(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
);

/// What operators are installed with.
const KINDS: [Kind; 9] = [
    Kind::cluster("", "v1", "Namespace", "namespaces"),
    Kind::namespaced("", "v1", "ConfigMap", "configmaps"),
    DEFINITION,
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
];

impl Cluster {
    /// Installs manifests in their order; `more` are kinds that only some bring.
    pub async fn install_all(&self, more: &[Kind], manifests: &[Value]) {
        for manifest in manifests {
            let mut kinds = KINDS.iter().chain(more);
            let kind = kinds.find(|kind| manifest["kind"] == kind.kind).expect("a known kind");
            self.install(*kind, manifest).await;
        }
    }
}

/// A definition of the version that is stored, without what its schema says, and converted by
/// nobody: a world for each of many plans must be made quickly.
pub fn bare(mut definition: Value) -> Value {
    let spec = definition["spec"].as_object_mut().expect("a definition");
    spec.remove("conversion");
    let versions = spec["versions"].as_array_mut().expect("versions");
    versions.retain(|version| version["storage"] == true);
    for version in versions {
        version["schema"]["openAPIV3Schema"] =
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    }
    definition
}
