//! Whether what is mounted below a volume, later and on one side, is seen on the other.
//!
//! A volume that is to pass mounts on to the host has to be taken before the container's namespace
//! turns away from the host's, and only where the host shares at all. Who is to see the host's
//! mounts gets what is left after that; everybody else is cut off.
//!
//! Upstream: pkg/kubelet/kuberuntime (translateMountPropagation), runc's rootfs_linux.go

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use super::mounts::{Source, text};
use super::namespaces::Mapping;
use super::{shifted, system};
use crate::runtime::{Mount, Propagation};

/// Volumes that pass mounts on to the host, by their target.
pub type Trees = BTreeMap<PathBuf, OwnedFd>;

/// Takes the volumes that are to pass mounts on, while this namespace still does.
pub fn take(mounts: &[Mount]) -> io::Result<Trees> {
    let mut trees = Trees::new();
    for one in mounts.iter().filter(|one| one.propagation == Propagation::Both) {
        let told = fs::read_to_string("/proc/self/mountinfo")?;
        let path = one.source.join(one.within.as_deref().unwrap_or(Path::new("")));
        let real = fs::canonicalize(&path)?;
        if let Err(point) = is_shared(&told, &real) {
            let (path, point) = (path.display(), point.display());
            return Err(io::Error::other(format!(
                "path {path} is mounted on {point} but it is not a shared mount"
            )));
        }
        let source = Source::open(one)?;
        trees.insert(one.target.clone(), system::open_tree(&text(&source.path)?)?);
    }
    Ok(trees)
}

/// A volume that is put to its place.
pub struct Binding<'a> {
    pub mount: &'a Mount,
    pub trees: &'a Trees,
    /// Ids of the container, if they are not those of the host.
    pub mapping: Option<&'a Mapping>,
    /// Whether the volume is in a directory of the server, and no path of the host's own.
    pub is_own: bool,
}

/// Puts a volume to its place. Under other ids, its files belong to the same ids inside as outside
/// where the file system can do that.
pub fn bind(binding: &Binding<'_>, source: &Source, point: &Path) -> io::Result<()> {
    if let Some(tree) = binding.trees.get(&binding.mount.target) {
        return system::move_mount(tree, &text(point)?);
    }
    if let Some(mapping) = binding.mapping {
        let tree = system::open_tree(&text(&source.path)?)?;
        if mapping.apply(&tree).is_ok() {
            return system::move_mount(&tree, &text(point)?);
        }
        if binding.is_own && !binding.mount.read_only {
            shifted::give(&source.path, mapping.range)?;
        }
    }
    super::mounts::mount(&source.path, point, libc::MS_BIND | libc::MS_REC)
}

/// Keeps what is mounted elsewhere later away from what was put to its place, if that is so wanted.
pub fn cut_off(one: &Mount, point: &Path) -> io::Result<()> {
    match one.propagation {
        Propagation::None => {
            super::mounts::mount(Path::new("none"), point, libc::MS_REC | libc::MS_PRIVATE)
        }
        Propagation::FromHost | Propagation::Both => Ok(()),
    }
}

/// Whether what a path is mounted on is shared with others; else the mount point that is not.
fn is_shared(mountinfo: &str, path: &Path) -> Result<(), PathBuf> {
    let mut found = (PathBuf::from("/"), false);
    for line in mountinfo.lines() {
        let mut fields = line.split(' ');
        let Some(point) = fields.nth(4) else { continue };
        let point = PathBuf::from(point.replace("\\040", " "));
        // What is mounted later lies over what was there.
        if path.starts_with(&point) && point.starts_with(&found.0) {
            let mut tags = fields.skip(1).take_while(|tag| *tag != "-");
            found = (point, tags.any(|tag| tag.starts_with("shared:")));
        }
    }
    if found.1 { Ok(()) } else { Err(found.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_that_a_path_is_on_says_whether_it_is_shared() {
        let told = "27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
            31 27 0:30 / /data rw shared:4 master:7 - tmpfs tmpfs rw\n\
            32 31 0:31 / /data/own rw - tmpfs tmpfs rw\n\
            33 31 0:32 / /data/a\\040b rw master:9 - tmpfs tmpfs rw\n";
        for (path, expected) in [
            ("/etc", Ok(())),
            ("/data/x", Ok(())),
            ("/data/own/x", Err("/data/own")),
            ("/data/owner", Ok(())),
            ("/data/a b", Err("/data/a b")),
        ] {
            let expected = expected.map_err(PathBuf::from);
            assert_eq!(is_shared(told, Path::new(path)), expected, "{path}");
        }
        assert_eq!(is_shared("", Path::new("/x")), Err(PathBuf::from("/")));
    }
}
