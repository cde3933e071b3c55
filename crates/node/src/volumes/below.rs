//! Places within a volume, which no link may lead out of: `subPath`.
//!
//! Programs of the pod can change the volume at any time, so nothing here goes by names twice: each
//! step is opened from the one before it, and the runtime opens the place once more the same way.
//!
//! Upstream: pkg/volume/util/subpath/subpath_linux.go

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use super::system::{make_in, open_below};

/// Whether what is missing is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    Make,
    Refuse,
}

/// A place within a volume, made if it is not there.
pub fn prepare(volume: &Path, part: &str, missing: Missing) -> io::Result<PathBuf> {
    let part = clean(part)?;
    let root = File::open(volume)?;
    // As the volume itself: its owners decide who may write.
    let mode = root.metadata()?.mode() & 0o7777;
    let mut open = OwnedFd::from(root.try_clone()?);
    let mut so_far = PathBuf::new();
    for step in part.components() {
        so_far.push(step);
        open = match open_below(&root, &so_far) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && missing == Missing::Make => {
                make_in(&open, step.as_ref(), mode)?;
                open_below(&root, &so_far)?
            }
            opened => opened?,
        };
    }
    Ok(part)
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
