//! Installs what components of ours need to find: definitions of their kinds, roles, and more.

use std::time::Duration;

use apiserver::endpoints::discovery::fingerprint;
use reconcile::requests::Requests;
use reconcile::{Context, Kind, Name};
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

/// Says what was applied last, so that a start that brings nothing new writes nothing.
const INSTALLED: &str = "setpoint.dev/installed";

/// Applies every manifest, in order; tries again until all are there or everything is to stop.
pub async fn install(context: &Context, manifests: &[Value]) {
    for manifest in manifests {
        let Some(kind) = kind_of(manifest) else {
            tracing::error!(kind = %manifest["kind"], "nobody installs this kind");
            continue;
        };
        let requests = context.requests(MANAGER, Default::default());
        while let Err(error) = install_one(&requests, kind, manifest).await {
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

/// Applies a manifest, unless just this one was applied before and still holds: to apply a large
/// definition takes much longer than to look at it.
async fn install_one(
    requests: &Requests,
    kind: Kind,
    manifest: &Value,
) -> Result<(), reconcile::Error> {
    let text = |field: &str| manifest["metadata"][field].as_str().unwrap_or_default();
    let name = Name::new(text("namespace"), text("name"));
    let digest = format!("{:016x}", fingerprint(manifest.to_string().as_bytes()));
    // Who may not look applies.
    if let Ok(Some(there)) = requests.get(kind, &name).await
        && there.annotation(INSTALLED) == Some(&digest)
        && holds(&there.value, manifest)
    {
        return Ok(());
    }
    let mut marked = manifest.clone();
    marked["metadata"]["annotations"][INSTALLED] = digest.into();
    requests.apply(kind, &marked).await.map(drop)
}

/// Whether everything that a manifest says is so in an object, which may say more.
fn holds(object: &Value, manifest: &Value) -> bool {
    match (object, manifest) {
        (Value::Object(there), Value::Object(wanted)) => wanted
            .iter()
            .all(|(name, wanted)| there.get(name).is_some_and(|there| holds(there, wanted))),
        (Value::Array(there), Value::Array(wanted)) => {
            there.len() == wanted.len()
                && there.iter().zip(wanted).all(|(there, wanted)| holds(there, wanted))
        }
        _ => object == manifest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_object_may_say_more_than_its_manifest_and_nothing_else() {
        let object = json!({"a": {"b": [{"c": 1, "defaulted": true}], "more": 2}});
        for (manifest, expected) in [
            (json!({"a": {"b": [{"c": 1}]}}), true),
            (json!({}), true),
            (json!({"a": {"b": []}}), false),
            (json!({"a": {"b": [{"c": 2}]}}), false),
            (json!({"a": {"absent": null}}), false),
        ] {
            assert_eq!(holds(&object, &manifest), expected, "{manifest}");
        }
    }
}
