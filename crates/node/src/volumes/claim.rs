//! The volume behind a claim: a path of this machine.

use std::path::PathBuf;

use reconcile::{Kind, Name, Object};
use serde_json::Value;

use super::{Volume, text};
use crate::pod::worker::Shared;
use crate::register::MANAGER;

const CLAIM: Kind = Kind::namespaced("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");
const VOLUME: Kind = Kind::cluster("", "v1", "PersistentVolume", "persistentvolumes");

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
    if found.value["status"]["phase"] != "Bound" {
        return Err(format!("PersistentVolumeClaim {claim_name:?} is not bound"));
    }
    let name = Name::new("", text(&found.value["spec"]["volumeName"]));
    let bound = requests.get(VOLUME, &name).await.map_err(|error| error.said())?;
    let bound = bound.ok_or_else(|| format!("persistentvolume {name:?} not found"))?;
    let spec = &bound.value["spec"];
    let path = spec["hostPath"]["path"].as_str().or(spec["local"]["path"].as_str());
    let path = path.ok_or_else(|| {
        format!("persistentvolume {name:?} is neither a local nor a hostPath volume")
    })?;
    let path = PathBuf::from(path);
    std::fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Volume { path, read_only: claim["readOnly"] == true })
}
