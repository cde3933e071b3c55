//! Whom the files of a volume belong to: `fsGroup`.
//!
//! Upstream: pkg/volume/volume_linux.go (SetVolumeOwnership)

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, lchown};
use std::path::Path;

use reconcile::Object;

use super::system::{self, give_to, open_in};
use crate::pod::spec;
use crate::runtimes::process::capabilities;

/// Directories below each other that are gone through.
const DEPTH_MAX: u32 = 64;

/// What a group may do in a volume.
const READ: u32 = 0o440;
const READ_WRITE: u32 = 0o660;
const SEARCH: u32 = 0o110;
/// What is made in a directory belongs to its group.
const SET_GROUP: u32 = 0o2000;

/// To whom the pod says its volumes belong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    pub group: Option<u32>,
    /// Whom all containers run as, if that is one user.
    pub user: Option<u32>,
    pub policy: Policy,
}

/// When the files of a volume that exists are given to the group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    #[default]
    Always,
    OnRootMismatch,
}

impl Owner {
    pub fn of(pod: &Object) -> Owner {
        let number =
            |value: &serde_json::Value| value.as_u64().and_then(|it| u32::try_from(it).ok());
        let context = &pod.value["spec"]["securityContext"];
        let of_pod = number(&context["runAsUser"]);
        let mut users: Vec<Option<u32>> = spec::containers(pod)
            .iter()
            .map(|it| number(&it.value["securityContext"]["runAsUser"]).or(of_pod))
            .collect();
        users.dedup();
        let policy = match context["fsGroupChangePolicy"].as_str() {
            Some("OnRootMismatch") => Policy::OnRootMismatch,
            _ => Policy::Always,
        };
        let user = if users.len() == 1 { users[0] } else { None };
        Owner { group: number(&context["fsGroup"]), user, policy }
    }

    /// Returns the user that volumes of claims belong to: that of all containers, unless a group
    /// is named for them.
    pub fn user_of_volumes(&self) -> Option<u32> {
        if self.group.is_none() { self.user } else { None }
    }

    /// Gives what is in a volume to the pod's group, who may then read and write it.
    pub fn take(&self, volume: &Path) -> io::Result<Applied> {
        match self.try_take(volume) {
            Ok(()) => Ok(Applied::Completely),
            Err(error) if is_tolerated(&error) => Ok(Applied::Refused),
            Err(error) => Err(error),
        }
    }

    fn try_take(&self, volume: &Path) -> io::Result<()> {
        let Some(group) = self.group else { return Ok(()) };
        let opened = File::options().read(true).custom_flags(libc::O_PATH).open(volume)?;
        let root = opened.metadata()?;
        let wanted = mode(&root, READ_WRITE);
        let is_fine = root.gid() == group && root.mode() & wanted == wanted;
        if self.policy == Policy::OnRootMismatch && is_fine {
            return Ok(());
        }
        // The root is last: as long as it does not fit, the rest may not either.
        let opened = OwnedFd::from(opened);
        if root.is_dir() {
            walk(&opened, group, 0)?;
        }
        give(&opened, &root, group)
    }
}

/// Result of applying `fsGroup` to a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    Completely,
    /// Only root may give files to a group that the server's user is not a member of.
    Refused,
}

/// True if a change of owner failed because this process is unprivileged. Its containers run as
/// the same user and can use the files without the change.
pub fn is_tolerated(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied && !may_change_owners()
}

fn may_change_owners() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    capabilities::has(capabilities::effective(&status), capabilities::CHOWN)
}

/// Programs of the pod may change what is there meanwhile, so nothing goes by its name twice.
fn walk(directory: &OwnedFd, group: u32, depth: u32) -> io::Result<()> {
    if depth > DEPTH_MAX {
        return Err(io::Error::other("its directories are too deep"));
    }
    for entry in fs::read_dir(system::opened(directory))? {
        let name = entry?.file_name();
        let open = match open_in(directory, Path::new(&name), libc::O_PATH) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            open => File::from(open?),
        };
        let found = open.metadata()?;
        let open = OwnedFd::from(open);
        if found.is_dir() {
            walk(&open, group, depth + 1)?;
        }
        give(&open, &found, group)?;
    }
    Ok(())
}

fn give(opened: &OwnedFd, found: &Metadata, group: u32) -> io::Result<()> {
    give_to(opened, group)?;
    if found.is_symlink() {
        return Ok(());
    }
    let mode = (found.mode() & 0o7777) | mode(found, READ_WRITE);
    fs::set_permissions(system::opened(opened), fs::Permissions::from_mode(mode))
}

fn mode(found: &Metadata, rights: u32) -> u32 {
    if found.is_dir() { rights | SEARCH | SET_GROUP } else { rights }
}

/// Gives a file that was just written to the pod: its group may read it.
pub fn give_file(path: &Path, (user, group): (Option<u32>, Option<u32>)) -> io::Result<()> {
    if user.is_none() && group.is_none() {
        return Ok(());
    }
    match lchown(path, user, group) {
        Err(error) if is_tolerated(&error) => return Ok(()),
        given => given?,
    }
    if group.is_some() {
        let mode = fs::metadata(path)?.mode() & 0o7777;
        fs::set_permissions(path, fs::Permissions::from_mode(mode | READ))?;
    }
    Ok(())
}
