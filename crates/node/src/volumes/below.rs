//! Places within a volume, which no link may lead out of: `subPath`.
//!
//! Programs of the pod can change the volume at any time, so nothing here goes by names twice: each
//! step is opened from the one before it, and the runtime opens the place once more the same way.
//!
//! Upstream: pkg/volume/util/subpath/subpath_linux.go

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use super::system::{make_file_in, make_in, open_below};

/// Whether what is missing is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    Make,
    Refuse,
}

/// A place within a volume, made if it is not there.
pub fn prepare(volume: &Path, part: &str, missing: Missing) -> io::Result<PathBuf> {
    let part = clean(part)?;
    let root = open_volume(volume)?;
    match missing {
        Missing::Make => make(&root, &part, Last::Directory)?,
        Missing::Refuse => open_below(&root, &part)?,
    };
    Ok(part)
}

/// What a place is that is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    Directory,
    File,
}

/// Opens a place within a directory, with all steps to it that are missing.
pub fn make(root: &File, part: &Path, last: Last) -> io::Result<OwnedFd> {
    // As the volume itself: its owners decide who may write.
    let mode = root.metadata()?.mode() & 0o7777;
    let count = part.components().count();
    let mut open = OwnedFd::from(root.try_clone()?);
    let mut so_far = PathBuf::new();
    for (index, step) in part.components().enumerate() {
        so_far.push(step);
        open = match open_below(root, &so_far) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match last == Last::File && index + 1 == count {
                    true => make_file_in(&open, step.as_ref())?,
                    false => make_in(&open, step.as_ref(), mode)?,
                }
                open_below(root, &so_far)?
            }
            opened => opened?,
        };
    }
    Ok(open)
}

/// Only directories have places within; what is none is not waited for, as a pipe would be.
pub fn open_volume(volume: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(volume)
}

/// A relative path without steps upwards.
pub fn clean(part: &str) -> io::Result<PathBuf> {
    let mut kept = PathBuf::new();
    for step in Path::new(part).components() {
        match step {
            Component::Normal(name) => kept.push(name),
            Component::CurDir => {}
            _ => return Err(io::Error::other("it must be a relative path without '..'")),
        }
    }
    Ok(kept)
}
