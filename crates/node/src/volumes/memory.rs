//! Volumes in memory: file systems that this node mounts below a pod's directory, and takes away
//! with it. Who may not mount gets directories in their place.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

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

/// Removes a directory with what is mounted in it. What stays mounted is nobody's to delete.
pub fn remove(directory: &Path) -> io::Result<()> {
    unmount(directory)?;
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Takes away what is mounted in a directory, also what containers mounted there. Namespaces of
/// others may hold on to a mount, so what is in memory of ours is deleted before.
pub fn unmount(directory: &Path) -> io::Result<()> {
    let directory = match fs::canonicalize(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    let is_within = |one: &&Mounted| one.point != directory && one.point.starts_with(&directory);
    let mounts = read_mounts()?;
    // Later ones lie over or within earlier ones.
    for one in mounts.iter().rev().filter(is_within) {
        if is_ours(one, &directory, &mounts) {
            empty(&one.point);
        }
        if let Err(error) = system::unmount(&one.point) {
            tracing::debug!(path = %one.point.display(), %error, "not unmounted");
        }
    }
    match read_mounts()?.iter().find(is_within) {
        Some(one) => {
            Err(io::Error::other(format!("something stays mounted at {}", one.point.display())))
        }
        None => Ok(()),
    }
}

/// Something that is mounted in our namespace.
#[derive(Debug, PartialEq)]
struct Mounted {
    device: String,
    point: PathBuf,
    kind: String,
}

fn read_mounts() -> io::Result<Vec<Mounted>> {
    Ok(fs::read_to_string("/proc/self/mountinfo")?.lines().filter_map(parse).collect())
}

fn parse(line: &str) -> Option<Mounted> {
    let (own, rest) = line.split_once(" - ")?;
    let mut fields = own.split(' ');
    let (device, point) = (fields.nth(2)?.to_owned(), fields.nth(1)?);
    Some(Mounted { device, point: plain(point), kind: rest.split(' ').next()?.to_owned() })
}

/// Spaces and the like are told as a backslash and three digits.
fn plain(text: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let code = after.get(..3).filter(|_| *first == b'\\');
        let code = code.and_then(|code| u8::from_str_radix(str::from_utf8(code).ok()?, 8).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// Whether it is memory that we mounted: where we do, and nowhere else. What a container mounted
/// may be the host's.
fn is_ours(one: &Mounted, directory: &Path, all: &[Mounted]) -> bool {
    let depth = one.point.strip_prefix(directory).map_or(0, |within| within.components().count());
    let alike = all.iter().filter(|other| other.device == one.device);
    one.kind == "tmpfs" && (1..=2).contains(&depth) && alike.count() == 1
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_memory_that_is_nowhere_else_is_ours() {
        let told = "27 1 254:0 / / rw shared:1 - ext4 /dev/vda rw\n\
            31 27 0:30 / /run rw shared:4 master:7 - tmpfs tmpfs rw\n\
            32 27 0:31 / /v/p\\040d/objects rw - tmpfs tmpfs rw\n\
            33 27 0:30 / /v/p\\040d/empty-dir/a rw - tmpfs tmpfs rw\n\
            34 27 254:0 /etc /v/p\\040d/empty-dir/b rw - ext4 /dev/vda rw\n\
            35 27 0:33 / /v/p\\040d/empty-dir/c/deep rw - tmpfs tmpfs rw\n";
        let mounts: Vec<Mounted> = told.lines().filter_map(parse).collect();
        let directory = Path::new("/v/p d");
        let ours = mounts.iter().filter(|one| is_ours(one, directory, &mounts));
        let points: Vec<&Path> = ours.map(|one| one.point.as_path()).collect();
        assert_eq!(points, [directory.join("objects")]);
    }
}
