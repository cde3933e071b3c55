//! Waits until a file of a directory changes, without looking at it again and again.
#![expect(unsafe_code, reason = "std has no inotify")]

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use tokio::io::unix::AsyncFd;

use crate::runtimes::process::system;

/// A directory that is watched.
pub struct Watched(AsyncFd<File>);

impl Watched {
    pub fn new(path: &Path) -> io::Result<Watched> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: the call takes flags and answers with a descriptor that is ours, or -1.
        let descriptor = unsafe { libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was just opened and nobody else has it.
        let file = unsafe { File::from_raw_fd(descriptor) };
        let events = libc::IN_MODIFY | libc::IN_MOVE | libc::IN_CREATE | libc::IN_CLOSE_WRITE;
        // SAFETY: the path ends with a zero and lives through the call.
        if unsafe { libc::inotify_add_watch(descriptor, path.as_ptr(), events) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Watched(system::wait_on(file)?))
    }

    /// Returns when something happened since the last time.
    pub async fn changed(&self) -> io::Result<()> {
        let mut events = [0_u8; 4096];
        loop {
            let mut ready = self.0.readable().await?;
            let read = ready.try_io(|file| file.get_ref().read(&mut events));
            let Ok(read) = read else { continue };
            return read.map(drop);
        }
    }
}
