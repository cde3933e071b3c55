//! The disk as the store sees it: a flat directory of files, behind a trait so that a simulated
//! disk can stand in and lose power at any moment.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const LOCK_NAME: &str = "lock";

/// A directory that belongs to one store.
pub trait Disk: Send + Sync + 'static {
    /// Takes the directory for this process, until the answer is dropped; `None` when another
    /// process has it.
    fn lock(&self) -> io::Result<Option<Box<dyn Send + Sync>>>;

    fn names(&self) -> io::Result<Vec<String>>;

    /// Makes an empty file, replacing one of the same name.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes creations, renames and removals durable.
    fn sync_directory(&self) -> io::Result<()>;

    /// Where it is, for messages.
    fn path(&self) -> PathBuf;
}

/// An open file.
pub trait DiskFile: Send + Sync + 'static {
    fn length(&self) -> io::Result<u64>;

    /// Fills the buffer, or fails.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes what was written durable.
    fn sync(&self) -> io::Result<()>;
}

/// A directory of the real file system.
pub struct RealDisk {
    directory: PathBuf,
}

impl RealDisk {
    /// Makes the directory when it is missing, readable by its owner only.
    pub fn open(directory: &Path) -> io::Result<RealDisk> {
        if !directory.is_dir() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
            if let Some(parent) = directory.parent().filter(|parent| !parent.as_os_str().is_empty())
            {
                File::open(parent)?.sync_all()?;
            }
        }
        Ok(RealDisk { directory: directory.to_owned() })
    }
}

impl Disk for RealDisk {
    fn lock(&self) -> io::Result<Option<Box<dyn Send + Sync>>> {
        let path = self.directory.join(LOCK_NAME);
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(false).write(true).mode(0o600).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(file))),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(true).read(true).write(true).mode(0o600);
        Ok(Arc::new(options.open(self.directory.join(name))?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let path = self.directory.join(name);
        Ok(Arc::new(OpenOptions::new().read(true).write(true).open(path)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.directory.join(from), self.directory.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.directory.join(name))
    }

    fn sync_directory(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }

    fn path(&self) -> PathBuf {
        self.directory.clone()
    }
}

impl DiskFile for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
