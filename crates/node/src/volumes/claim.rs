//! The volume behind a claim: a path of this machine.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use reconcile::{Kind, Name, Object};
use serde_json::Value;

use super::{Volume, host_path, text};
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
    let claim_name = match claim["claimName"].as_str() {
        Some(name) => name.to_owned(),
        None => format!("{}-{}", pod.name.name, text(&volume["name"])),
    };
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
        return Ok(Volume { path, read_only, has_group: !read_only });
    }
    if !spec["hostPath"].is_object() {
        let what = "is neither a local nor a hostPath volume";
        return Err(format!("persistentvolume \"{name}\" {what}"));
    }
    let is_ours = bound.annotation(PROVISIONED_BY) == Some(PROVISIONER);
    let wanted = spec["hostPath"].clone();
    let make = move || {
        let is_new = is_ours && !PathBuf::from(text(&wanted["path"])).exists();
        let path = host_path::check(&wanted)?;
        if is_new {
            // As with every volume that is made for a claim: its pods may run as anybody.
            let open = std::fs::Permissions::from_mode(0o777);
            std::fs::set_permissions(&path, open).map_err(|error| error.to_string())?;
        }
        Ok::<PathBuf, String>(path)
    };
    let path = super::aside(make).await?;
    Ok(Volume { path, read_only, has_group: is_ours && !read_only })
}
