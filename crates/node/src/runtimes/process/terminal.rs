//! Terminals for programs: pairs of which the program has one end and we the other.
#![expect(unsafe_code, reason = "std has no terminals")]

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::task::{Context, Poll, ready};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::system;

/// Our end and the program's.
pub struct Pair {
    pub ours: File,
    theirs: OwnedFd,
}

impl Pair {
    /// Opens a terminal that belongs to who will use it.
    pub fn open(user: Option<u32>) -> io::Result<Pair> {
        let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
        // SAFETY: the call takes flags and answers with a descriptor that is ours, or -1.
        let ours = owned(unsafe { libc::posix_openpt(flags) })?;
        // SAFETY: the descriptor is open.
        check(unsafe { libc::unlockpt(ours.as_raw_fd()) })?;
        // SAFETY: the descriptor is a terminal's; the answer is a descriptor that is ours, or -1.
        let theirs = owned(unsafe { libc::ioctl(ours.as_raw_fd(), libc::TIOCGPTPEER, flags) })?;
        if let Some(user) = user {
            // SAFETY: the descriptor is open. Who may not give it away keeps it.
            let _ = unsafe { libc::fchown(theirs.as_raw_fd(), user, u32::MAX) };
        }
        Ok(Pair { ours: File::from(ours), theirs })
    }

    /// Gives the program its end, and keeps ours.
    pub fn give(self, command: &mut Command) -> io::Result<File> {
        command.stdin(Stdio::from(self.theirs.try_clone()?));
        command.stdout(Stdio::from(self.theirs.try_clone()?));
        command.stderr(Stdio::from(self.theirs));
        lead_session(command, true);
        Ok(self.ours)
    }
}

/// The program leads a session of its own, with its input as the terminal of it if it is one.
pub fn lead_session(command: &mut Command, has_terminal: bool) {
    let before = move || {
        // SAFETY: these calls are allowed between fork and exec and take numbers only.
        unsafe {
            check(libc::setsid())?;
            if has_terminal {
                check(libc::ioctl(0, libc::TIOCSCTTY, 0))?;
            }
        }
        Ok(())
    };
    // SAFETY: the closure allocates nothing.
    unsafe { command.pre_exec(before) };
}

/// Says how large a terminal is.
pub fn resize(terminal: &File, width: u16, height: u16) {
    let size = libc::winsize { ws_row: height, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the structure lives through the call. A terminal that is gone needs no size.
    let _ = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
}

fn owned(descriptor: i32) -> io::Result<OwnedFd> {
    check(descriptor)?;
    // SAFETY: it was just opened and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Our end of a terminal, to be read and written without blocking.
pub struct Terminal(AsyncFd<File>);

impl Terminal {
    pub fn new(ours: File) -> io::Result<Terminal> {
        // SAFETY: the descriptor is open and the flags are valid for it.
        check(unsafe { libc::fcntl(ours.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) })?;
        Ok(Terminal(system::wait_on(ours)?))
    }
}

impl AsyncRead for Terminal {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.0.poll_read_ready(context))?;
            let read = ready.try_io(|file| file.get_ref().read(buffer.initialize_unfilled()));
            match read {
                Ok(Ok(count)) => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                // Nobody has the other end any more.
                Ok(Err(error)) if error.raw_os_error() == Some(libc::EIO) => {
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_) => {}
            }
        }
    }
}

impl AsyncWrite for Terminal {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.0.poll_write_ready(context))?;
            if let Ok(written) = ready.try_io(|file| file.get_ref().write(bytes)) {
                return Poll::Ready(written);
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// A terminal has no end of input; what ends it is its user.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
