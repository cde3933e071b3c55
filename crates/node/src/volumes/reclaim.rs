//! Removes the directories of volumes that were made for claims and are deleted with them.
//!
//! Only what was made by our own provisioner, on this node, and under the name that it gives: an
//! object that looks like one of ours must not remove anything else.

use std::path::{Component, Path, PathBuf};

use reconcile::{Context, Object};
use serde_json::Value;

use super::claim::{PROVISIONED_BY, PROVISIONER, VOLUME};
use super::text;

/// Looks at every volume that goes, from here on.
pub fn follow(context: &Context, node: &str) {
    let node = node.to_owned();
    context.cache(VOLUME).subscribe(move |change| {
        let (Some(volume), None) = (&change.old, &change.new) else { return };
        let Some(directory) = directory(volume, &node) else { return };
        // It may be large, and nobody waits for it.
        tokio::task::spawn_blocking(move || match super::remove(&directory) {
            Err(error) => {
                tracing::warn!(directory = %directory.display(), %error, "volume not removed");
            }
            Ok(()) => tracing::info!(directory = %directory.display(), "volume removed"),
        });
    });
}

/// The directory that goes with a volume of this node.
fn directory(volume: &Object, node: &str) -> Option<PathBuf> {
    let spec = &volume.value["spec"];
    let is_ours = volume.annotation(PROVISIONED_BY) == Some(PROVISIONER);
    if !is_ours || spec["persistentVolumeReclaimPolicy"] != "Delete" || !is_on(spec, node) {
        return None;
    }
    let path = Path::new(spec["hostPath"]["path"].as_str()?);
    let claim = &spec["claimRef"];
    let name = &volume.name.name;
    let expected = format!("{name}_{}_{}", text(&claim["namespace"]), text(&claim["name"]));
    let is_plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    let is_named = path.file_name().is_some_and(|name| *name == *expected);
    let holds = path.is_absolute() && path.components().all(is_plain) && is_named;
    holds.then(|| path.to_owned())
}

fn is_on(spec: &Value, node: &str) -> bool {
    let terms = &spec["nodeAffinity"]["required"]["nodeSelectorTerms"];
    let terms = terms.as_array().into_iter().flatten();
    let names =
        |one: &Value| one["values"].as_array().is_some_and(|all| all.iter().any(|it| it == node));
    let mut requirements = terms.flat_map(|term| {
        let fields = ["matchExpressions", "matchFields"];
        fields.into_iter().filter_map(|field| term[field].as_array()).flatten()
    });
    requirements.any(names)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_was_made_here_under_its_own_name_is_removed() {
        let volume = |path: &str, by: &str, policy: &str, node: &str| {
            let key = "kubernetes.io/hostname";
            let terms = [json!({"matchExpressions": [
                {"key": key, "operator": "In", "values": [node]}]})];
            Object::new(json!({
                "metadata": {"name": "pvc-1", "annotations": {PROVISIONED_BY: by}},
                "spec": {"persistentVolumeReclaimPolicy": policy, "hostPath": {"path": path},
                    "claimRef": {"namespace": "n", "name": "c"},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}}))
        };
        let own = "/var/x/pvc-1_n_c";
        let found = |volume: Object| directory(&volume, "here").is_some();
        assert!(found(volume(own, PROVISIONER, "Delete", "here")));
        assert!(!found(volume(own, "another.io/driver", "Delete", "here")));
        assert!(!found(volume(own, PROVISIONER, "Retain", "here")));
        assert!(!found(volume(own, PROVISIONER, "Delete", "elsewhere")));
        for path in ["/", "/etc", "/var/x/pvc-2_n_c", "/var/../x/pvc-1_n_c", "pvc-1_n_c"] {
            assert!(!found(volume(path, PROVISIONER, "Delete", "here")), "{path}");
        }
    }
}
