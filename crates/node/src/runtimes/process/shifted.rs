//! Gives the files of a volume to the ids of a pod, where the file system has no idmapped mounts.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::ids::{COUNT, IdRange};
use crate::volumes::system::{give_all_to, open_in, opened};

/// Directories below each other that are gone through.
const DEPTH_MAX: u32 = 64;

/// Changes the owners of a volume to the same ids of a pod, unless that was done before.
pub fn give(volume: &Path, range: IdRange) -> io::Result<()> {
    let open = File::options().read(true).custom_flags(libc::O_PATH).open(volume)?;
    let root = open.metadata()?;
    if (range.first..range.first + COUNT).contains(&root.uid()) {
        return Ok(());
    }
    let open = OwnedFd::from(open);
    // The root is last: as long as it is not given, the rest may not be either.
    if root.is_dir() {
        walk(&open, range, 0)?;
    }
    give_one(&open, &root, range)
}

/// Containers of the pod may change what is there meanwhile, so nothing goes by its name twice.
fn walk(directory: &OwnedFd, range: IdRange, depth: u32) -> io::Result<()> {
    if depth > DEPTH_MAX {
        return Err(io::Error::other("its directories are too deep"));
    }
    for entry in fs::read_dir(opened(directory))? {
        let name = entry?.file_name();
        let open = match open_in(directory, Path::new(&name), libc::O_PATH) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            open => File::from(open?),
        };
        let found = open.metadata()?;
        let open = OwnedFd::from(open);
        if found.is_dir() {
            walk(&open, range, depth + 1)?;
        }
        give_one(&open, &found, range)?;
    }
    Ok(())
}

fn give_one(open: &OwnedFd, found: &Metadata, range: IdRange) -> io::Result<()> {
    // Ids of another pod that had the volume are the same ids of this one.
    let id = |id: u32| range.first + id % COUNT;
    give_all_to(open, (id(found.uid()), id(found.gid())))
}
