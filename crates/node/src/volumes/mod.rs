//! The volumes of a pod: directories of this machine, with what belongs into them.
//!
//! What comes from objects of the API is written by `files.rs`; how a container comes to see a
//! volume is the runtime's matter.

pub(crate) mod below;
pub(crate) mod claim;
mod files;
mod host_path;
pub(crate) mod local_path;
pub(crate) mod memory;
mod owner;
mod payload;
pub(crate) mod pinned;
pub mod reclaim;
pub mod shared_memory;
pub(crate) mod system;
pub mod usage;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use amounts::Quantity;
use reconcile::Object;
use reconcile::plan::Notice;
use serde_json::Value;

use crate::pod::environment::{Sources, Variables, expand};
use crate::pod::worker::{Shared, say};
use crate::runtime::{Mount, Propagation, Refusal};

use below::Missing;
use owner::{Applied, Owner};
pub use payload::Tokens;

/// A volume on this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Volume {
    pub path: PathBuf,
    pub read_only: bool,
    /// Whether what is in it belongs to the pod's group.
    pub has_group: bool,
    /// True if the local-path provisioner made it for a claim.
    pub is_local_path: bool,
}

impl Volume {
    fn new(path: PathBuf) -> Volume {
        Volume { path, read_only: false, has_group: false, is_local_path: false }
    }
}

/// What volumes are made of.
pub struct Materials<'a> {
    pub sources: &'a Sources,
    /// Of the pod.
    pub directory: &'a Path,
    /// Tokens that were asked for, kept until they are due.
    pub tokens: &'a mut Tokens,
    /// Volumes that were made before: what is in them is the containers' by now.
    pub known: Option<&'a BTreeMap<String, Volume>>,
}

impl Materials<'_> {
    fn is_known(&self, volume: &str) -> bool {
        self.known.is_some_and(|known| known.contains_key(volume))
    }
}

/// What the files of a pod that come from objects take at the most.
const OBJECTS_BYTES_MAX: u64 = 64 << 20;

const FROM_OBJECTS: [&str; 4] = ["configMap", "secret", "projected", "downwardAPI"];

/// Whether files of the pod tell of the pod itself.
pub fn tell_of_pod(pod: &Object) -> bool {
    let tells = |volume: &Value| {
        let mut sources = list(&volume["projected"]["sources"]);
        volume["downwardAPI"].is_object() || sources.any(|it| it["downwardAPI"].is_object())
    };
    list(&pod.value["spec"]["volumes"]).any(tells)
}

/// Makes every volume of a pod, or brings it up to date.
pub async fn make(
    shared: &Shared,
    pod: &Object,
    mut materials: Materials<'_>,
) -> Result<BTreeMap<String, Volume>, Refusal> {
    let owner = Owner::of(pod);
    let mut made = BTreeMap::new();
    let mut unchanged = Vec::new();
    // Containers that run already keep the access that they began with.
    let is_running = !shared.runtime.of_pod(&pod.uid).is_empty();
    for volume in list(&pod.value["spec"]["volumes"]) {
        let name = text(&volume["name"]).to_owned();
        let failed = |message: String| {
            let message = format!("MountVolume.SetUp failed for volume {name:?} : {message}");
            Refusal { reason: "FailedMount", message }
        };
        let one = make_one(shared, (pod, volume), &mut materials).await.map_err(failed)?;
        if one.is_local_path && !is_running && !materials.is_known(&name) {
            let (path, user) = (one.path.clone(), owner.user_of_volumes());
            let restrict = move || local_path::restrict(&path, user);
            aside(restrict).await.map_err(|why| failed(format!("set owner failed: {why}")))?;
        }
        if one.has_group && !materials.is_known(&name) {
            let path = one.path.clone();
            let take = move || owner.take(&path);
            let taken = aside(take).await;
            let taken = taken.map_err(|why| failed(format!("applyFSGroup failed: {why}")))?;
            if taken == Applied::Refused {
                unchanged.push(name.clone());
            }
        }
        made.insert(name, one);
    }
    if let (Some(group), false) = (owner.group, unchanged.is_empty()) {
        let message = fs_group_warning(group, &unchanged);
        say(shared, pod, Notice::warning("FSGroupNotApplied", message)).await;
    }
    Ok(made)
}

fn fs_group_warning(group: u32, volumes: &[String]) -> String {
    format!(
        "fsGroup {group} was not applied to volumes {}: only root may change the group of files; \
         containers use them as the user that runs Setpoint",
        volumes.join(", ")
    )
}

/// Works with files on a thread that may wait for them: they may be many, or far away, and the
/// other pods do not wait.
pub(crate) async fn aside<T, E>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, String>
where
    T: Send + 'static,
    E: ToString + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(broken) => Err(broken.to_string()),
    }
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
        let size = memory_size(pod, &volume["emptyDir"], &materials.sources.capacity);
        let (medium, at) = (text(&volume["emptyDir"]["medium"]).to_owned(), path.clone());
        aside(move || empty(&medium, &at, size)).await?;
        return Ok(Volume { has_group: true, ..Volume::new(path) });
    }
    if volume["hostPath"].is_object() {
        let (wanted, private) = (volume["hostPath"].clone(), shared.options.private.clone());
        let check = move || {
            host_path::check_private(&wanted, &private)?;
            host_path::check(&wanted)
        };
        let path = aside(check).await?;
        return Ok(Volume::new(path));
    }
    if volume["persistentVolumeClaim"].is_object() || volume["ephemeral"].is_object() {
        return claim::find(shared, pod, volume).await;
    }
    if FROM_OBJECTS.iter().any(|kind| volume[*kind].is_object()) {
        let around = materials.directory.join("objects");
        aside(move || memory::make(&around, 0o755, Some(OBJECTS_BYTES_MAX))).await?;
        let path = place("objects");
        let payload = payload::payload(shared, (pod, volume), materials).await?;
        let (group, at) = (Owner::of(pod).group, path.clone());
        aside(move || files::write(&at, &payload, group)).await?;
        return Ok(Volume { read_only: true, ..Volume::new(path) });
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

/// A directory that begins empty and goes with the pod.
fn empty(medium: &str, path: &Path, bytes_max: Option<u64>) -> io::Result<()> {
    match medium {
        "" if path.exists() => return Ok(()),
        "" => fs::create_dir_all(path)?,
        "Memory" => return memory::make(path, 0o777, bytes_max),
        other => return Err(io::Error::other(format!("unknown storage medium {other:?}"))),
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o777))
}

/// Gives the volumes of claims that a container mounts to the user of its image, unless the pod
/// names a user or a group for them.
pub async fn give_to_image_user(
    pod: &Object,
    container: &Value,
    volumes: &BTreeMap<String, Volume>,
    user: Option<u32>,
) -> Result<(), Refusal> {
    let owner = Owner::of(pod);
    if owner.group.is_some() || owner.user.is_some() || user.is_none() {
        return Ok(());
    }
    for mount in list(&container["volumeMounts"]) {
        let volume = volumes.get(text(&mount["name"])).filter(|volume| volume.is_local_path);
        let Some(path) = volume.map(|volume| volume.path.clone()) else { continue };
        let given = aside(move || local_path::restrict(&path, user)).await;
        given.map_err(|why| Refusal {
            reason: "CreateContainerError",
            message: format!("could not give volume {} to user of image: {why}", mount["name"]),
        })?;
    }
    Ok(())
}

/// The least of what the volume, the pod and the node allow.
fn memory_size(pod: &Object, volume: &Value, capacity: &Value) -> Option<u64> {
    let limits = amounts::pod::of(&pod.value, "limits");
    let limit = limits.get("memory").copied();
    let bounds = [Quantity::read(&volume["sizeLimit"]), limit, Quantity::read(&capacity["memory"])];
    let bounds = bounds.into_iter().flatten().filter(|bound| !bound.is_zero());
    bounds.filter_map(|bound| u64::try_from(bound.value()).ok()).min()
}

/// Takes away what is mounted for the pods of a node that has stopped; what is on disk stays.
pub fn unmount_all(directory: &Path) -> io::Result<()> {
    for pod in fs::read_dir(directory.join("volumes")).into_iter().flatten().flatten() {
        memory::unmount(&pod.path())?;
    }
    let pins = directory.join(pinned::DIRECTORY);
    pinned::remove(&pins);
    // Whoever removes the directory next would remove what is mounted there.
    match pins.exists() {
        true => Err(io::Error::other(format!("{} is still in use", pins.display()))),
        false => Ok(()),
    }
}

/// Removes a pod's directory with all that is in it.
pub fn remove(directory: &Path) -> io::Result<()> {
    memory::remove(directory)
}

/// What a container sees where.
pub async fn mounts(
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
            part => {
                let (of, part) = (volume.path.clone(), part.to_owned());
                let prepared = aside(move || below::prepare(&of, &part, missing)).await;
                Some(prepared.map_err(|why| {
                    refused(format!(
                        "failed to prepare subPath for volumeMount {name:?} of container {:?}: \
                         {why}",
                        text(&container["name"])
                    ))
                })?)
            }
        };
        mounts.push(Mount {
            source: volume.path.clone(),
            target: Path::new("/").join(text(&mount["mountPath"])),
            read_only: volume.read_only || mount["readOnly"] == true,
            within,
            recursive: matches!(
                mount["recursiveReadOnly"].as_str(),
                Some("Enabled" | "IfPossible")
            ),
            optional: false,
            propagation: match text(&mount["mountPropagation"]) {
                "HostToContainer" => Propagation::FromHost,
                "Bidirectional" => Propagation::Both,
                _ => Propagation::None,
            },
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
