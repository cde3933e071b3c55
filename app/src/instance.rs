//! The running program of a data directory: who has the directory, and where it can be reached.
//!
//! The directory itself is locked for as long as the program runs, so that a crash leaves no lock
//! behind. A small file beside the data tells other commands what runs.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use store::{Environment, System, Timestamp};

use crate::listener;
use crate::parts::Part;
use crate::process;
use crate::python::Python;

const FILE_NAME: &str = "setpoint.json";
/// How often the directory may vanish while it is taken.
const TAKE_TRIES_MAX: usize = 8;

/// What runs, as the file tells it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Instance {
    pub pid: u32,
    /// As [`process::began`] tells it: another process with the same id began at another time.
    pub process_began_ticks: u64,
    /// Where the API is served; nowhere by `setpoint controller`.
    pub listen: Option<SocketAddr>,
    pub version: String,
    pub store: String,
    pub node: String,
    pub config: String,
    pub started_micros: i64,
    pub ready_millis: u64,
    #[serde(default)]
    pub parts: Vec<Part>,
    /// Python of pods that run as processes.
    #[serde(default)]
    pub python: Option<Python>,
}

impl Instance {
    /// The instance that runs on a data directory, if one does.
    pub fn running(data: &Path) -> Result<Option<Instance>> {
        let path = data.join(FILE_NAME);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(None),
            Err(error) => {
                let what = format!("could not read {}; check who owns it", path.display());
                return Err(error).context(what);
            }
        };
        let instance: Instance = serde_json::from_slice(&text).with_context(|| {
            format!("{} is damaged; remove it when no setpoint runs", path.display())
        })?;
        Ok(instance.is_alive().then_some(instance))
    }

    /// Whether the process is still there, and still the same one.
    pub fn is_alive(&self) -> bool {
        process::began(self.pid) == Some(self.process_began_ticks)
    }

    pub fn started(&self) -> Timestamp {
        Timestamp(self.started_micros)
    }

    /// For how long it has been ready.
    pub fn up(&self) -> Duration {
        let micros = System.now().0.saturating_sub(self.started_micros);
        Duration::from_micros(u64::try_from(micros).unwrap_or_default())
    }

    /// Where clients on this machine reach it.
    pub fn url(&self) -> Option<String> {
        self.listen.map(listener::url)
    }
}

/// The right to use a data directory. Dropping it leaves the directory as if nothing ran.
pub struct Claim {
    directory: PathBuf,
    /// Directories that were made for it, the innermost last.
    made: Vec<PathBuf>,
    announced: bool,
    /// Locked until it is closed.
    _lock: File,
}

impl Claim {
    /// Takes the directory for this process; makes it when it is missing.
    pub fn take(directory: &Path) -> Result<Claim> {
        let taking = || format!("could not open the data directory {}", directory.display());
        for _ in 0..TAKE_TRIES_MAX {
            let made = make(directory)?;
            let lock = File::open(directory).with_context(taking)?;
            match lock.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(InUse::of(directory).into()),
                Err(TryLockError::Error(error)) => return Err(error).with_context(taking),
            }
            // Whoever had it before may have removed it after we opened it.
            if is_still(&lock, directory) {
                let directory = directory.to_owned();
                return Ok(Claim { directory, made, announced: false, _lock: lock });
            }
        }
        Err(InUse::of(directory).into())
    }

    /// Tells other commands what runs. The file is there whole, or not at all.
    pub fn announce(&mut self, instance: &Instance) -> Result<()> {
        let path = self.directory.join(FILE_NAME);
        let temporary = self.directory.join(format!("{FILE_NAME}.tmp"));
        let write = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            let mut file =
                options.create(true).truncate(true).write(true).mode(0o600).open(&temporary)?;
            file.write_all(&serde_json::to_vec(instance)?)?;
            fs::rename(&temporary, &path)
        };
        let writing = || format!("could not write {}; check the disk", path.display());
        write().with_context(writing)?;
        self.announced = true;
        Ok(())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.announced {
            let _ = fs::remove_file(self.directory.join(FILE_NAME));
        }
        for directory in self.made.iter().rev() {
            // Fails when something was put into it, and then it must stay.
            if fs::remove_dir(directory).is_err() {
                break;
            }
        }
    }
}

/// Makes a directory for its owner only, and those around it; returns what was made. One that
/// exists is restricted to its owner.
pub fn make(directory: &Path) -> Result<Vec<PathBuf>> {
    let missing = directory.ancestors().take_while(|path| !path.exists());
    let mut missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
    missing.reverse();
    DirBuilder::new().recursive(true).mode(0o700).create(directory).with_context(|| {
        format!(
            "could not make the data directory {}; choose another with --data-dir DIR",
            directory.display()
        )
    })?;
    make_private(directory)?;
    Ok(missing)
}

/// Removes the permissions of other users from a data directory, which holds private keys. A
/// directory of another user is refused: that user could read and replace them.
fn make_private(directory: &Path) -> Result<()> {
    let opening = || format!("could not open the data directory {}", directory.display());
    let open = File::open(directory).with_context(opening)?;
    let found = open.metadata().with_context(opening)?;
    let (name, owner, own) = (directory.display(), found.uid(), process::user());
    if owner != own {
        bail!(
            "the data directory {name} belongs to user {owner}, and this program runs as user \
             {own}; change its owner with `chown -R {own} {name}`, or choose another with \
             --data-dir DIR"
        );
    }
    if found.mode() & 0o077 == 0 {
        return Ok(());
    }
    open.set_permissions(Permissions::from_mode(0o700)).with_context(|| {
        format!(
            "other users may read the data directory {name}, and its mode could not be changed; \
             run `chmod 700 {name}`, or choose another with --data-dir DIR"
        )
    })?;
    tracing::info!(directory = %name, "restricted data directory to its owner");
    Ok(())
}

/// Whether an open directory is the one that a path names.
fn is_still(open: &File, path: &Path) -> bool {
    let same = |open: fs::Metadata, named: fs::Metadata| {
        (open.dev(), open.ino()) == (named.dev(), named.ino())
    };
    open.metadata().is_ok_and(|open| fs::metadata(path).is_ok_and(|named| same(open, named)))
}

/// Another program has the directory; says which, and what to do.
#[derive(Debug)]
pub struct InUse(String);

impl std::error::Error for InUse {}

impl fmt::Display for InUse {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl InUse {
    fn of(directory: &Path) -> InUse {
        let name = directory.display();
        let who = match Instance::running(directory) {
            Ok(Some(instance)) => format!("setpoint with process id {}", instance.pid),
            Ok(None) | Err(_) => "another setpoint".to_owned(),
        };
        InUse(format!(
            "the data directory {name} is in use by {who}; stop it with `setpoint down \
             --data-dir {name}`, or choose another with --data-dir DIR"
        ))
    }
}
