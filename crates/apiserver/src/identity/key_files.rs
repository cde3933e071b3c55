//! Where keys are kept: a directory in the data directory, or anything else that keeps bytes.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::Error;

const MODE_PRIVATE: u32 = 0o600;
const MODE_PUBLIC: u32 = 0o644;
const MODE_DIRECTORY: u32 = 0o700;

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privacy {
    /// The owner alone.
    Private,
    Public,
}

/// Keeps small files by name.
///
/// # Guarantees
/// A reader sees the old bytes or the new ones, also after a crash. What was written as private
/// could never be read by others, not even for a moment.
///
/// # Errors
/// Those of the medium. A file that is not there is `None`.
pub trait KeyFiles: Send + Sync {
    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>>;
    fn write(&self, name: &str, bytes: &[u8], privacy: Privacy) -> io::Result<()>;
}

/// Files in a directory, which is made when first written to.
#[derive(Clone, Debug)]
pub struct Directory {
    pub path: PathBuf,
}

impl KeyFiles for Directory {
    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.path.join(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn write(&self, name: &str, bytes: &[u8], privacy: Privacy) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(MODE_DIRECTORY).create(&self.path)?;
        write_atomically(&self.path.join(name), bytes, privacy)
    }
}

/// Replaces a file by way of another in the same directory.
pub fn write_atomically(path: &Path, bytes: &[u8], privacy: Privacy) -> io::Result<()> {
    let mode = match privacy {
        Privacy::Private => MODE_PRIVATE,
        Privacy::Public => MODE_PUBLIC,
    };
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut temporary_name = std::ffi::OsString::from(".");
    temporary_name.push(name);
    temporary_name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(temporary_name);
    // What a crash left behind may have another mode, or be somebody's link.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let written = fill(&temporary, bytes, mode).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
        return written;
    }
    match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => fs::File::open(parent)?.sync_all(),
        None => fs::File::open(".")?.sync_all(),
    }
}

fn fill(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    // The process's mask may have taken bits away.
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.write_all(bytes)?;
    file.sync_all()
}

pub(crate) fn read(files: &dyn KeyFiles, name: &str) -> Result<Option<Vec<u8>>, Error> {
    files.read(name).map_err(|source| Error::ReadKeyFile { name: name.to_owned(), source })
}

pub(crate) fn write_private(files: &dyn KeyFiles, name: &str, bytes: &[u8]) -> Result<(), Error> {
    files
        .write(name, bytes, Privacy::Private)
        .map_err(|source| Error::WriteKeyFile { name: name.to_owned(), source })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use super::*;

    /// Files in memory.
    #[derive(Debug, Default)]
    pub(crate) struct Memory {
        pub(crate) files: Mutex<BTreeMap<String, (Vec<u8>, Privacy)>>,
    }

    impl KeyFiles for Memory {
        fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
            Ok(self.files.lock().unwrap().get(name).map(|(bytes, _)| bytes.clone()))
        }

        fn write(&self, name: &str, bytes: &[u8], privacy: Privacy) -> io::Result<()> {
            self.files.lock().unwrap().insert(name.to_owned(), (bytes.to_vec(), privacy));
            Ok(())
        }
    }

    /// A directory that is gone with its owner.
    pub(crate) struct Scratch(pub(crate) PathBuf);

    impl Scratch {
        pub(crate) fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("setpoint-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn files_are_replaced_whole_and_private_ones_stay_private() {
        let scratch = Scratch::new("key-files");
        let files = Directory { path: scratch.0.join("deep/er") };
        assert_eq!(files.read("a").unwrap(), None);
        files.write("a", b"one", Privacy::Private).unwrap();
        files.write("a", b"two", Privacy::Private).unwrap();
        files.write("b", b"three", Privacy::Public).unwrap();
        assert_eq!(files.read("a").unwrap().as_deref(), Some(&b"two"[..]));
        let mode =
            |name: &str| fs::metadata(files.path.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("a"), mode("b"), mode("")), (0o600, 0o644, 0o700));
        assert_eq!(fs::read_dir(&files.path).unwrap().count(), 2);
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_nothing_behind() {
        let scratch = Scratch::new("key-files-bad");
        fs::create_dir_all(scratch.0.join("taken/by-a-directory")).unwrap();
        let files = Directory { path: scratch.0.clone() };
        assert!(files.write("taken", b"x", Privacy::Private).is_err());
        assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 1);
    }
}
