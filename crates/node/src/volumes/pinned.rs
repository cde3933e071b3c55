//! Places within volumes for an engine, which knows paths only. A place is opened so that no link
//! leads out of its volume and then mounted elsewhere, where programs of the pod cannot change what
//! the path means.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::system::{open_below, opened, unmount};
use crate::runtime::Mount;
use crate::runtimes::process::system::mount;

/// Mounts the place that a mount means, if that is not all of its volume; the path to use.
pub fn pin(wanted: &Mount, at: &Path) -> io::Result<PathBuf> {
    let Some(within) = wanted.within.as_ref().filter(|it| !it.as_os_str().is_empty()) else {
        return Ok(wanted.source.clone());
    };
    let place = open_below(&File::open(&wanted.source)?, within)?;
    let is_directory = fs::metadata(opened(&place))?.is_dir();
    if let Some(folder) = at.parent() {
        fs::create_dir_all(folder)?;
    }
    match is_directory {
        true => fs::create_dir_all(at)?,
        false => drop(File::create(at)?),
    }
    let (from, to) = (opened(&place), at.to_owned());
    let text = |path: &Path| CString::new(path.as_os_str().as_bytes());
    mount(&text(&from)?, &text(&to)?, (None, libc::MS_BIND | libc::MS_REC))?;
    Ok(to)
}

/// Takes away what was pinned in a directory, and the directory.
pub fn remove(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let _ = unmount(&path);
        // What is still mounted is not empty, and is left.
        let _ = fs::remove_dir(&path).or_else(|_| fs::remove_file(&path));
    }
    let _ = fs::remove_dir(directory);
}
