//! The socket by which commands on this machine ask a running program.
//!
//! It is in the data directory. The name of a socket may have 107 bytes and that of a directory
//! more, so the socket is named by way of the opened directory, which is always short.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tokio::net::{UnixListener, UnixStream};

const FILE_NAME: &str = "setpoint.sock";
const MODE: u32 = 0o600;

/// A listener whose file is gone with it.
pub struct Socket {
    path: PathBuf,
}

impl Socket {
    /// Listens in a directory that is locked: what another program left there is replaced.
    pub fn listen(directory: &Path) -> Result<(Socket, UnixListener)> {
        let path = directory.join(FILE_NAME);
        let bind = || -> io::Result<UnixListener> {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let opened = File::open(directory)?;
            let listener = UnixListener::bind(short_name(&opened))?;
            fs::set_permissions(&path, Permissions::from_mode(MODE))?;
            Ok(listener)
        };
        let listener = bind().with_context(|| {
            format!(
                "could not listen on {}; choose a data directory that can hold sockets with \
                 --data-dir DIR",
                path.display()
            )
        })?;
        Ok((Socket { path }, listener))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Connects to the program that runs on a directory.
pub async fn connect(directory: &Path) -> io::Result<UnixStream> {
    let opened = File::open(directory)?;
    UnixStream::connect(short_name(&opened)).await
}

/// The socket's name by way of its directory's descriptor.
fn short_name(directory: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{FILE_NAME}", directory.as_raw_fd()))
}
