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

/// Where pins are, below the directory of the node.
pub const DIRECTORY: &str = "subpaths";
/// How often one place can have been mounted over.
const LAYERS_MAX: usize = 1_024;

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
    // Who tried before may have been killed: what it mounted here is the volume's own file.
    clear(at);
    match is_directory {
        true => fs::create_dir_all(at)?,
        false => drop(File::options().write(true).create(true).truncate(false).open(at)?),
    }
    let (from, to) = (opened(&place), at.to_owned());
    let text = |path: &Path| CString::new(path.as_os_str().as_bytes());
    mount(&text(&from)?, &text(&to)?, (None, libc::MS_BIND | libc::MS_REC))?;
    Ok(to)
}

/// Takes away what was pinned in a directory and in those below, and the directory.
pub fn remove(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        // Only what is known not to be a mount is looked into: behind one are the user's files.
        if clear(&path) == Cleared::Yes && entry.file_type().is_ok_and(|it| it.is_dir()) {
            remove(&path);
        }
        // What is still mounted is not empty, and is left.
        let _ = fs::remove_dir(&path).or_else(|_| fs::remove_file(&path));
    }
    let _ = fs::remove_dir(directory);
}

/// Whether nothing is mounted at a place any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cleared {
    Yes,
    Unknown,
}

/// Unmounts all that was mounted at a place, one over the other.
fn clear(place: &Path) -> Cleared {
    for _ in 0..LAYERS_MAX {
        match unmount(place) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Cleared::Yes,
            Err(_) => return Cleared::Unknown,
        }
    }
    Cleared::Unknown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::process::tests::directory;

    #[test]
    fn a_file_of_a_volume_is_whole_after_its_start_was_tried_again() {
        let directory = directory("pinned");
        let volume = directory.0.join("volume");
        fs::create_dir_all(volume.join("folder")).unwrap();
        for file in ["one", "folder/two"] {
            fs::write(volume.join(file), "kept").unwrap();
        }
        let pins = directory.0.join("pins");
        let within = |part: &str| Mount {
            source: volume.clone(),
            within: Some(part.into()),
            ..Mount::default()
        };
        for _ in 0..2 {
            let file = pin(&within("one"), &pins.join("main-0/0"));
            let folder = pin(&within("folder"), &pins.join("main-0/1"));
            let (Ok(file), Ok(folder)) = (file, folder) else {
                // Only root mounts.
                return remove(&pins);
            };
            assert_eq!(fs::read_to_string(file).unwrap(), "kept");
            assert_eq!(fs::read_to_string(folder.join("two")).unwrap(), "kept");
        }
        remove(&pins);
        assert!(!pins.exists());
        assert_eq!(fs::read_to_string(volume.join("one")).unwrap(), "kept");
        assert_eq!(fs::read_to_string(volume.join("folder/two")).unwrap(), "kept");
    }
}
