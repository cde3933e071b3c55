//! Temporary directories that are removed when they are dropped, or else by the next run.
//!
//! The owner holds a lock on a file inside. The kernel drops the lock with the process, so a
//! directory whose lock can be taken is a leftover, whatever namespace its owner lived in.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::Error;
use crate::process;

const LOCK_FILE: &str = "owner.lock";

/// A name may be taken by a leftover of an earlier process with our id.
const ATTEMPTS_MAX: u32 = 1000;

/// A directory of our own under the system's temporary directory.
pub struct Directory {
    path: PathBuf,
    _lock: File,
}

impl Directory {
    pub fn create(purpose: &str) -> Result<Directory, Error> {
        static SWEPT: Once = Once::new();
        let parent = std::env::temp_dir();
        SWEPT.call_once(|| sweep(&parent, &prefix()));
        create_in(&parent, &prefix(), purpose)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What cannot be removed here is a leftover for the next run.
        fs::remove_dir_all(&self.path).ok();
    }
}

fn prefix() -> String {
    format!("setpoint-test-{}-", process::user_id())
}

fn create_in(parent: &Path, prefix: &str, purpose: &str) -> Result<Directory, Error> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..ATTEMPTS_MAX {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("{prefix}{purpose}-{}-{number}", std::process::id()));
        let doing = || format!("create the temporary directory {}", path.display());
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            result => result.map_err(Error::io(doing()))?,
        }
        let lock = match File::create(path.join(LOCK_FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            result => result.map_err(Error::io(doing()))?,
        };
        lock.lock().map_err(Error::io(doing()))?;
        // A sweeper may have taken the lock first, and the directory with it.
        if path.join(LOCK_FILE).exists() {
            return Ok(Directory { path, _lock: lock });
        }
    }
    let source = io::Error::from(io::ErrorKind::AlreadyExists);
    Err(Error::Io { doing: format!("find a free name in {}", parent.display()), source })
}

/// Removes the directories with our prefix whose owner is gone. Errors do not matter: another
/// process may be sweeping too, and what stays is found again.
fn sweep(parent: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(prefix) {
            continue;
        }
        let Ok(lock) = File::open(entry.path().join(LOCK_FILE)) else { continue };
        if lock.try_lock().is_ok() {
            fs::remove_dir_all(entry.path()).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeping_removes_what_a_dead_owner_left_and_nothing_else() {
        let outer = Directory::create("sweep").unwrap();
        let living = create_in(outer.path(), "ours-", "living").unwrap();
        let dead = outer.path().join("ours-dead");
        let foreign = outer.path().join("theirs");
        for path in [&dead, &foreign] {
            fs::create_dir(path).unwrap();
            File::create(path.join(LOCK_FILE)).unwrap();
        }

        sweep(outer.path(), "ours-");

        assert!(living.path().exists());
        assert!(foreign.exists());
        assert!(!dead.exists());
    }

    #[test]
    fn dropping_a_directory_removes_it() {
        let directory = Directory::create("drop").unwrap();
        let path = directory.path().to_owned();
        fs::write(path.join("file"), "x").unwrap();
        drop(directory);
        assert!(!path.exists());
    }
}
