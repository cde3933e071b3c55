//! Log file of a server in the background, replaced while the server runs when it is large.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of the file in the data directory.
pub const NAME: &str = "setpoint.log";
/// Size above which the file is set aside under the same name with `.1`.
pub const BYTES_MAX: u64 = 16 << 20;
const INTERVAL: Duration = Duration::from_secs(60);

/// Replaces the file whenever it is large, until dropped. Does nothing in a process whose output
/// goes elsewhere.
pub async fn rotate(data: PathBuf) {
    let path = data.join(NAME);
    loop {
        tokio::time::sleep(INTERVAL).await;
        let (output, errors) = (io::stdout(), io::stderr());
        let replaced = replace_if_large(&path, BYTES_MAX, &[output.as_fd(), errors.as_fd()]);
        if let Err(error) = replaced {
            tracing::warn!(%error, file = %path.display(), "log rotation failed");
        }
    }
}

/// Opens the log file to write at its end.
pub fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).read(true).mode(0o600).open(path)
}

/// Sets a large file aside.
pub fn set_aside(path: &Path) -> io::Result<()> {
    fs::rename(path, path.with_extension("log.1"))
}

/// Replaces a large file and redirects the streams that write to it. Returns whether it did.
fn replace_if_large(path: &Path, bytes_max: u64, streams: &[BorrowedFd<'_>]) -> io::Result<bool> {
    let named = match fs::metadata(path) {
        Ok(named) => named,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    if named.len() <= bytes_max {
        return Ok(false);
    }
    let mut writing = Vec::new();
    for stream in streams {
        let open = File::from(stream.try_clone_to_owned()?).metadata()?;
        if (open.dev(), open.ino()) == (named.dev(), named.ino()) {
            writing.push(stream);
        }
    }
    if writing.is_empty() {
        return Ok(false);
    }
    set_aside(path)?;
    let next = open(path)?;
    // `setpoint up` waits for the lock before it starts another server; the claim on the data
    // directory is what keeps two servers apart.
    let _ = next.try_lock();
    for stream in writing {
        redirect(*stream, &next)?;
    }
    Ok(true)
}

#[expect(unsafe_code, reason = "std does not redirect open streams")]
fn redirect(stream: BorrowedFd<'_>, to: &File) -> io::Result<()> {
    // SAFETY: both descriptors are open; the number of the stream stays valid.
    match unsafe { libc::dup2(to.as_raw_fd(), stream.as_raw_fd()) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_large_log_is_replaced_under_the_streams_that_write_to_it() {
        let directory = std::env::temp_dir().join(format!("setpoint-log-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join(NAME);
        let mut stream = open(&path).unwrap();
        let elsewhere = open(&directory.join("other")).unwrap();
        stream.write_all(b"old\n").unwrap();
        let streams = |stream: &File, bytes_max| {
            replace_if_large(&path, bytes_max, &[stream.as_fd(), elsewhere.as_fd()]).unwrap()
        };
        assert!(!streams(&stream, 4));
        assert!(streams(&stream, 3));
        stream.write_all(b"new\n").unwrap();
        assert_eq!(fs::read_to_string(path.with_extension("log.1")).unwrap(), "old\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "new\n");
        // A file that this process does not write to is left alone.
        assert!(!replace_if_large(&path, 3, &[elsewhere.as_fd()]).unwrap());
        fs::remove_dir_all(&directory).unwrap();
    }
}
