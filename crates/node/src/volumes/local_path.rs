//! Directories of the volumes that the local-path provisioner makes for claims.
//!
//! Only the node's user can enter the root directory, so that neither users of the machine nor pods
//! reach a volume but through its mount. No volume is open to every user: it belongs to the
//! `fsGroup` or to the user of the pod that mounts it.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use reconcile::{Context, Object};
use serde_json::Value;

use super::claim::{PROVISIONED_BY, PROVISIONER, VOLUME};
use super::{list, owner, text};
use crate::simulated::POD;

/// Root directory of the volumes of storage classes without the parameter `path`.
const ROOT: &str = "/var/lib/setpoint/local-path";
const ROOT_MODE: u32 = 0o700;
const VOLUME_MODE: u32 = 0o770;
/// Permission bits of users that are neither the owner nor in the group.
const OTHERS: u32 = 0o007;

/// Creates the directory of a volume if it does not exist. Missing parents are created for the
/// node's user only.
pub fn make(path: &Path) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(ROOT_MODE).create(path)?;
    fs::set_permissions(path, Permissions::from_mode(VOLUME_MODE))
}

/// Removes the permissions of other users from the directory of a volume, and gives the directory
/// to a user if one is named.
pub fn restrict(path: &Path, user: Option<u32>) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    if !found.is_dir() {
        return Ok(());
    }
    if let Some(user) = user.filter(|user| *user != found.uid()) {
        match chown(path, Some(user), None) {
            Err(error) if owner::is_tolerated(&error) => {}
            changed => changed?,
        }
    }
    match found.mode() & OTHERS {
        0 => Ok(()),
        _ => fs::set_permissions(path, Permissions::from_mode(found.mode() & 0o7770)),
    }
}

/// Restricts the root directory, and the volumes of this node that no pod of it uses. Volumes in
/// use are restricted when a pod mounts them next.
pub async fn restrict_existing(context: &Context, node: &str) {
    context.cache(POD).reaches(1).await;
    context.cache(VOLUME).reaches(1).await;
    let used = claims_in_use(context, node);
    let volumes = context.cache(VOLUME).all();
    let unused = volumes.iter().filter(|volume| {
        let claim = &volume.value["spec"]["claimRef"];
        let claim = (text(&claim["namespace"]).to_owned(), text(&claim["name"]).to_owned());
        volume.annotation(PROVISIONED_BY) == Some(PROVISIONER) && !used.contains(&claim)
    });
    let paths: Vec<PathBuf> = unused.filter_map(|volume| path(volume)).collect();
    let work = move || restrict_all(Path::new(ROOT), &paths);
    if let Err(error) = tokio::task::spawn_blocking(work).await {
        tracing::warn!(%error, "permissions of volumes not checked");
    }
}

fn claims_in_use(context: &Context, node: &str) -> BTreeSet<(String, String)> {
    let pods = context.cache(POD).all();
    let here = pods.iter().filter(|pod| pod.value["spec"]["nodeName"] == node);
    let claims = here.flat_map(|pod| {
        let volumes = list(&pod.value["spec"]["volumes"]);
        volumes
            .filter_map(|volume| Some((pod.name.namespace.to_string(), claim_name(pod, volume)?)))
    });
    claims.collect()
}

/// Returns the name of the claim of a pod's volume, if the volume is one of a claim.
pub fn claim_name(pod: &Object, volume: &Value) -> Option<String> {
    match volume["persistentVolumeClaim"]["claimName"].as_str() {
        Some(name) => Some(name.to_owned()),
        None if volume["ephemeral"].is_object() => {
            Some(format!("{}-{}", pod.name.name, text(&volume["name"])))
        }
        None => None,
    }
}

fn path(volume: &Object) -> Option<PathBuf> {
    volume.value["spec"]["hostPath"]["path"].as_str().map(PathBuf::from)
}

fn restrict_all(root: &Path, volumes: &[PathBuf]) {
    for directory in [root.parent().unwrap_or(root), root] {
        let Ok(found) = fs::symlink_metadata(directory) else { continue };
        if found.is_dir() && found.mode() & 0o077 != 0 {
            report(directory, fs::set_permissions(directory, Permissions::from_mode(ROOT_MODE)));
        }
    }
    for volume in volumes.iter().filter(|volume| volume.is_dir()) {
        report(volume, restrict(volume, None));
    }
}

fn report(path: &Path, result: io::Result<()>) {
    match result {
        Err(error) if owner::is_tolerated(&error) => {}
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "permissions not restricted");
        }
        Ok(()) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::process::tests::directory;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn volumes_and_their_root_are_closed_to_other_users() {
        let directory = directory("local-path");
        let root = directory.0.join("setpoint/local-path");
        let volume = root.join("pvc-1_a_data");
        make(&volume).unwrap();
        assert_eq!((mode(&root), mode(&volume)), (0o700, 0o770));
        // As versions before this one left them.
        for path in [&directory.0.join("setpoint"), &root, &volume] {
            fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
        }
        restrict_all(&root, &[volume.clone(), root.join("missing")]);
        assert_eq!((mode(&directory.0.join("setpoint")), mode(&root)), (0o700, 0o700));
        assert_eq!(mode(&volume), 0o770);
    }

    #[test]
    fn a_volume_is_given_to_the_user_of_the_pod() {
        let directory = directory("local-path-user");
        let volume = directory.0.join("pvc-1_a_data");
        make(&volume).unwrap();
        let own = fs::metadata(&volume).unwrap().uid();
        restrict(&volume, Some(4242)).unwrap();
        let uid = fs::metadata(&volume).unwrap().uid();
        assert_eq!(uid, if own == 0 { 4242 } else { own });
        assert_eq!(mode(&volume), 0o770);
    }
}
