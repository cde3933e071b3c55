//! The process that all shims are copies of: this program again, which did nothing yet. A copy
//! shares its memory with it until it writes, so a container costs little; nothing has to be
//! loaded for it either.
//!
//! It is asked over a socket, with a run's directory, where the shim is to say what hinders it, and
//! a file in memory with the container's command and environment. It ends when nobody can ask it
//! any more. Shims live on then.
#![expect(unsafe_code, reason = "std has no sockets that hand on descriptors")]

use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::namespaces;
use super::system::check;

/// The longest path of a run's directory.
const PATH_BYTES_MAX: usize = 4 << 10;
/// Descriptors of a message.
const DESCRIPTORS: usize = 2;
/// Size of a control message with that many descriptors.
const CONTROL_BYTES: usize = 24;

/// Our end.
pub struct Nursery {
    socket: OwnedFd,
    child: Child,
}

impl Nursery {
    /// Starts it. `variable` tells the program what it is.
    pub fn start(program: &[OsString], variable: (&str, &Path)) -> io::Result<Nursery> {
        let (first, rest) = program.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let (ours, theirs) = pair()?;
        let mut command = Command::new(first);
        command.args(rest).env_clear().env(variable.0, variable.1);
        command.stdin(Stdio::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
        // Not in our group: what a terminal sends to us is not for containers.
        command.process_group(0).current_dir("/");
        Ok(Nursery { socket: ours, child: command.spawn()? })
    }

    /// Asks for a shim; it tells on a descriptor why it does not run, and closes it. The invocation
    /// is read from another.
    pub fn ask(&self, place: &Path, tells: &OwnedFd, invocation: &OwnedFd) -> io::Result<()> {
        send(&self.socket, place.as_os_str().as_bytes(), [tells, invocation])
    }
}

impl Drop for Nursery {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Run that a copy is the shim of.
pub struct Assignment {
    pub directory: PathBuf,
    /// File in memory with the [`Invocation`](super::record::Invocation).
    pub invocation: OwnedFd,
}

/// Makes a copy for everyone who asks on our input. Returns in the copy, and its output is where it
/// tells; `None` when nobody can ask any more.
pub fn run() -> io::Result<Option<Assignment>> {
    // Copies that end are of no interest here; they themselves wait for others.
    set_child_signal(libc::SIG_IGN);
    // SAFETY: our input is open, and this is its only user from here on.
    let socket = unsafe { OwnedFd::from_raw_fd(libc::STDIN_FILENO) };
    while let Some((place, [tells, invocation])) = receive(&socket)? {
        if namespaces::fork_into(0)?.is_some() {
            continue;
        }
        set_child_signal(libc::SIG_DFL);
        let null = std::fs::File::options().read(true).open("/dev/null")?;
        // SAFETY: all descriptors are open; the socket becomes our input, which is kept open.
        unsafe {
            check(libc::dup2(null.as_raw_fd(), libc::STDIN_FILENO))?;
            check(libc::dup2(tells.as_raw_fd(), libc::STDOUT_FILENO))?;
        }
        std::mem::forget(socket);
        let directory = PathBuf::from(OsString::from_vec(place));
        return Ok(Some(Assignment { directory, invocation }));
    }
    Ok(None)
}

fn set_child_signal(what: libc::sighandler_t) {
    // SAFETY: no handler is installed, only what the kernel does by itself is chosen.
    unsafe { libc::signal(libc::SIGCHLD, what) };
}

/// A pair of sockets that keep messages apart and tell when the other end is gone.
fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: the call fills both numbers when it answers 0, and they are ours then.
    unsafe {
        check(libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()))?;
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

/// Room for the descriptors, aligned as the kernel wants it.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

fn send(socket: &OwnedFd, bytes: &[u8], descriptors: [&OwnedFd; DESCRIPTORS]) -> io::Result<()> {
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = Control([0; CONTROL_BYTES]);
    // SAFETY: the header points to locals that live through the call; the control message has room
    // for the numbers, which are written where the kernel's own macros say.
    unsafe {
        let mut header = MaybeUninit::<libc::msghdr>::zeroed().assume_init();
        (header.msg_iov, header.msg_iovlen) = (&raw mut part, 1);
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = CONTROL_BYTES;
        let first = libc::CMSG_FIRSTHDR(&raw const header);
        (*first).cmsg_level = libc::SOL_SOCKET;
        (*first).cmsg_type = libc::SCM_RIGHTS;
        (*first).cmsg_len = usize::try_from(libc::CMSG_LEN(8)).unwrap_or(0);
        let numbers = descriptors.map(AsRawFd::as_raw_fd);
        libc::CMSG_DATA(first).cast::<[i32; DESCRIPTORS]>().write_unaligned(numbers);
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        let sent = libc::sendmsg(socket.as_raw_fd(), &raw const header, flags);
        check(i32::try_from(sent).unwrap_or(-1))
    }
}

/// The next message; `None` when the other end is gone.
fn receive(socket: &OwnedFd) -> io::Result<Option<(Vec<u8>, [OwnedFd; DESCRIPTORS])>> {
    let mut bytes = vec![0; PATH_BYTES_MAX];
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut control = Control([0; CONTROL_BYTES]);
    // SAFETY: the header points to locals that live through the call; descriptors that came are
    // ours alone.
    unsafe {
        let mut header = MaybeUninit::<libc::msghdr>::zeroed().assume_init();
        (header.msg_iov, header.msg_iovlen) = (&raw mut part, 1);
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = CONTROL_BYTES;
        let flags = libc::MSG_CMSG_CLOEXEC;
        let count = libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags);
        let Ok(count) = usize::try_from(count) else { return Err(io::Error::last_os_error()) };
        let first = libc::CMSG_FIRSTHDR(&raw const header);
        if count == 0 || first.is_null() || (*first).cmsg_type != libc::SCM_RIGHTS {
            return Ok(None);
        }
        let numbers = libc::CMSG_DATA(first).cast::<[i32; DESCRIPTORS]>().read_unaligned();
        bytes.truncate(count);
        Ok(Some((bytes, numbers.map(|number| OwnedFd::from_raw_fd(number)))))
    }
}
