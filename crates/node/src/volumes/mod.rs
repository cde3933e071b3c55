//! The volumes of a pod: directories of this machine, with what belongs into them.
//!
//! What comes from objects of the API is written by `files.rs`; how a container comes to see a
//! volume is the runtime's matter.

mod below;
mod claim;
mod files;
mod host_path;
mod payload;
pub(crate) mod system;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use reconcile::Object;
use serde_json::Value;

use crate::pod::environment::{Sources, Variables, expand};
use crate::pod::worker::Shared;
use crate::runtime::{Mount, Refusal};

use below::Missing;
pub use payload::Tokens;

/// A volume on this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Volume {
    pub path: PathBuf,
    pub read_only: bool,
}

/// What volumes are made of.
pub struct Materials<'a> {
    pub sources: &'a Sources,
    /// Of the pod.
    pub directory: &'a Path,
    /// Tokens that were asked for, kept until they are due.
    pub tokens: &'a mut Tokens,
}

const FROM_OBJECTS: [&str; 4] = ["configMap", "secret", "projected", "downwardAPI"];

/// Whether a volume of the pod follows objects that may change.
pub fn follow_objects(pod: &Object) -> bool {
    list(&pod.value["spec"]["volumes"])
        .any(|volume| FROM_OBJECTS.iter().any(|kind| volume[*kind].is_object()))
}

/// Makes every volume of a pod, or brings it up to date.
pub async fn make(
    shared: &Shared,
    pod: &Object,
    mut materials: Materials<'_>,
) -> Result<BTreeMap<String, Volume>, Refusal> {
    let mut made = BTreeMap::new();
    for volume in list(&pod.value["spec"]["volumes"]) {
        let name = text(&volume["name"]).to_owned();
        let one = make_one(shared, (pod, volume), &mut materials).await.map_err(|message| {
            let message = format!("MountVolume.SetUp failed for volume {name:?} : {message}");
            Refusal { reason: "FailedMount", message }
        })?;
        made.insert(name, one);
    }
    Ok(made)
}

async fn make_one(
    shared: &Shared,
    (pod, volume): (&Object, &Value),
    materials: &mut Materials<'_>,
) -> Result<Volume, String> {
    let name = text(&volume["name"]);
    let place = |kind: &str| materials.directory.join(kind).join(name);
    if volume["emptyDir"].is_object() {
        let path = place("empty-dir");
        empty(&path).map_err(|error| error.to_string())?;
        return Ok(Volume { path, read_only: false });
    }
    if volume["hostPath"].is_object() {
        let path = host_path::check(&volume["hostPath"])?;
        return Ok(Volume { path, read_only: false });
    }
    if volume["persistentVolumeClaim"].is_object() || volume["ephemeral"].is_object() {
        return claim::find(shared, pod, volume).await;
    }
    if FROM_OBJECTS.iter().any(|kind| volume[*kind].is_object()) {
        let path = place("objects");
        let payload = payload::payload(shared, (pod, volume), materials).await?;
        files::write(&path, &payload).map_err(|error| error.to_string())?;
        return Ok(Volume { path, read_only: true });
    }
    let kinds: Vec<&str> = volume
        .as_object()
        .into_iter()
        .flatten()
        .map(|(kind, _)| &**kind)
        .filter(|kind| *kind != "name")
        .collect();
    Err(format!("this node has no volumes of the kind {}", kinds.join(", ")))
}

fn empty(path: &Path) -> io::Result<()> {
    if !path.exists() {
        fs::create_dir_all(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o777))?;
    }
    Ok(())
}

/// What a container sees where.
pub fn mounts(
    container: &Value,
    volumes: &BTreeMap<String, Volume>,
    variables: &Variables,
) -> Result<Vec<Mount>, Refusal> {
    let mut mounts = Vec::new();
    for mount in list(&container["volumeMounts"]) {
        let name = text(&mount["name"]);
        let refused = |message: String| Refusal { reason: "CreateContainerConfigError", message };
        let volume = volumes
            .get(name)
            .ok_or_else(|| refused(format!("cannot find volume {name:?} to mount")))?;
        let part = match mount["subPathExpr"].as_str() {
            Some(template) => expand(template, variables),
            None => text(&mount["subPath"]).to_owned(),
        };
        let missing = if volume.read_only { Missing::Refuse } else { Missing::Make };
        let within = match part.as_str() {
            "" => None,
            part => Some(below::prepare(&volume.path, part, missing).map_err(|error| {
                refused(format!(
                    "failed to prepare subPath for volumeMount {name:?} of container {:?}: {error}",
                    text(&container["name"])
                ))
            })?),
        };
        mounts.push(Mount {
            source: volume.path.clone(),
            target: Path::new("/").join(text(&mount["mountPath"])),
            read_only: volume.read_only || mount["readOnly"] == true,
            within,
            recursive: false,
            optional: false,
        });
    }
    Ok(mounts)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
