//! Volumes in memory: file systems that this node mounts below a pod's directory, and takes away
//! with it. Who may not mount gets directories in their place.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::system;
use crate::runtimes::process::system::is_root;

/// Makes a directory in memory, at most so large; a plain one where nothing may be mounted.
pub fn make(path: &Path, mode: u32, bytes_max: Option<u64>) -> io::Result<()> {
    fs::create_dir_all(path)?;
    if !is_root() || is_mounted(path) {
        return Ok(());
    }
    let size = bytes_max.map(|bytes| format!(",size={bytes}")).unwrap_or_default();
    match system::mount_memory(path, &format!("mode={mode:o}{size}")) {
        // Root without the right to mount, as in many containers.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        mounted => mounted,
    }
}

/// Whether something is mounted at a directory.
pub fn is_mounted(path: &Path) -> bool {
    let device = |path: &Path| fs::symlink_metadata(path).map(|found| found.dev()).ok();
    let around = path.parent().and_then(device);
    device(path).zip(around).is_some_and(|(own, around)| own != around)
}

/// Removes a pod's directory with what is mounted in it.
pub fn remove(directory: &Path) -> io::Result<()> {
    unmount(directory)?;
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Takes away what is mounted in a pod's directory. Namespaces of others may hold on to a mount, so
/// what is in memory is deleted before.
pub fn unmount(directory: &Path) -> io::Result<()> {
    let children = |path: &Path| -> Vec<_> {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter(|it| it.file_type().is_ok_and(|kind| kind.is_dir())).collect()
    };
    for kind in children(directory) {
        let inner = children(&kind.path());
        for place in inner.iter().chain([&kind]).map(fs::DirEntry::path) {
            // Twice, should two of us ever have mounted one over the other.
            for _ in 0..2 {
                if is_mounted(&place) {
                    empty(&place);
                    system::unmount(&place)?;
                }
            }
        }
    }
    Ok(())
}

fn empty(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let removed = match is_directory {
            true => fs::remove_dir_all(entry.path()),
            false => fs::remove_file(entry.path()),
        };
        if let Err(error) = removed {
            tracing::debug!(path = %entry.path().display(), %error, "not removed from memory");
        }
    }
}
