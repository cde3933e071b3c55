//! The volume behind a claim: a path of this machine.

use std::path::PathBuf;

use reconcile::{Kind, Name, Object};
use serde_json::Value;

use super::{Volume, host_path, local_path, text};
use crate::pod::worker::Shared;
use crate::register::MANAGER;

const CLAIM: Kind = Kind::namespaced("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");
/// Who makes volumes that are directories of a node.
pub const PROVISIONER: &str = "setpoint.dev/local-path";
pub const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
pub const VOLUME: Kind = Kind::cluster("", "v1", "PersistentVolume", "persistentvolumes");

pub async fn find(shared: &Shared, pod: &Object, volume: &Value) -> Result<Volume, String> {
    let requests = shared.context.requests(MANAGER, Default::default());
    let claim = &volume["persistentVolumeClaim"];
    let claim_name = local_path::claim_name(pod, volume).unwrap_or_default();
    let name = Name::new(&*pod.name.namespace, claim_name.as_str());
    let found = requests.get(CLAIM, &name).await.map_err(|error| error.said())?;
    let found = found.ok_or_else(|| format!("persistentvolumeclaim {claim_name:?} not found"))?;
    if claim.is_null() && found.controller().is_none_or(|owner| owner != pod.uid) {
        let (claim, pod) = (&found.name, &pod.name);
        return Err(format!("PVC {claim} was not created for pod {pod} (pod is not owner)"));
    }
    if found.value["status"]["phase"] != "Bound" {
        return Err(format!("PersistentVolumeClaim {claim_name:?} is not bound"));
    }
    let name = Name::new("", text(&found.value["spec"]["volumeName"]));
    let bound = requests.get(VOLUME, &name).await.map_err(|error| error.said())?;
    let bound = bound.ok_or_else(|| format!("persistentvolume \"{name}\" not found"))?;
    check_claim(&bound, &found)?;
    let spec = &bound.value["spec"];
    if spec["volumeMode"] == "Block" {
        return Err(format!("persistentvolume \"{name}\" is a block device"));
    }
    let read_only = claim["readOnly"] == true;
    if let Some(path) = spec["local"]["path"].as_str() {
        let path = PathBuf::from(path);
        let looked_at = path.clone();
        if !super::aside(move || looked_at.try_exists()).await.unwrap_or(false) {
            return Err(format!("path {:?} does not exist", path.display().to_string()));
        }
        return Ok(Volume { read_only, has_group: !read_only, ..Volume::new(path) });
    }
    if !spec["hostPath"].is_object() {
        let what = "is neither a local nor a hostPath volume";
        return Err(format!("persistentvolume \"{name}\" {what}"));
    }
    let is_ours = bound.annotation(PROVISIONED_BY) == Some(PROVISIONER);
    let wanted = spec["hostPath"].clone();
    let make = move || {
        if is_ours {
            let path = PathBuf::from(text(&wanted["path"]));
            local_path::make(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        host_path::check(&wanted)
    };
    let path = super::aside(make).await?;
    let has_group = is_ours && !read_only;
    Ok(Volume { path, read_only, has_group, is_local_path: is_ours })
}

/// Checks that a PersistentVolume is bound to the claim that names it. A claim may name any volume,
/// also one of another namespace.
///
/// Upstream: pkg/kubelet/volumemanager/populator (getPVSpec)
pub fn check_claim(volume: &Object, claim: &Object) -> Result<(), String> {
    let reference = &volume.value["spec"]["claimRef"];
    if reference["uid"] == claim.uid.as_str() && !claim.uid.is_empty() {
        return Ok(());
    }
    let (volume, claim) = (&volume.name, &claim.name);
    let bound = match (text(&reference["namespace"]), text(&reference["name"])) {
        (_, "") => "to no claim".to_owned(),
        (namespace, name) => format!("to claim {namespace}/{name} (UID {})", reference["uid"]),
    };
    Err(format!("persistentvolume \"{volume}\" is bound {bound}, not to {claim} of this pod"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_volume_is_mounted_only_for_the_claim_that_it_is_bound_to() {
        let claim = Object::new(json!({"metadata":
            {"namespace": "a", "name": "data", "uid": "u-1"}}));
        let volume = |reference: Value| {
            Object::new(json!({"metadata": {"name": "v"}, "spec": {"claimRef": reference}}))
        };
        let check = |reference: Value| check_claim(&volume(reference), &claim);
        assert_eq!(check(json!({"namespace": "a", "name": "data", "uid": "u-1"})), Ok(()));
        for other in [
            json!(null),
            json!({"namespace": "a", "name": "data", "uid": "u-0"}),
            json!({"namespace": "a", "name": "data"}),
            json!({"namespace": "b", "name": "data", "uid": "u-2"}),
        ] {
            assert!(check(other.clone()).is_err(), "{other}");
        }
        let why = check(json!({"namespace": "b", "name": "c", "uid": "u-2"})).unwrap_err();
        assert!(why.contains("bound to claim b/c"), "{why}");
    }
}
