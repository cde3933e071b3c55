//! The calls of the kernel that networks need and std does not have.
#![expect(unsafe_code, reason = "std has neither netlink nor network namespaces")]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

/// How much may be on its way to the kernel: a set of rules is one message.
const SEND_BYTES: i32 = 32 << 20;

/// A socket to a part of the kernel. What is written to it is one message, and so is what is read.
pub fn netlink(protocol: i32) -> io::Result<File> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the call takes numbers only.
    let descriptor = unsafe { libc::socket(libc::AF_NETLINK, kind, protocol) };
    check(descriptor)?;
    // SAFETY: it was just opened and nobody else has it.
    let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
    let size = libc::socklen_t::try_from(size_of::<i32>()).unwrap_or(4);
    for option in [libc::SO_SNDBUFFORCE, libc::SO_RCVBUFFORCE] {
        // SAFETY: the pointer is to a local of the size that is given. Who may not, goes without.
        let _ = unsafe {
            let value: *const i32 = &SEND_BYTES;
            libc::setsockopt(descriptor, libc::SOL_SOCKET, option, value.cast(), size)
        };
    }
    Ok(File::from(socket))
}

/// From here on this thread is in a network of its own.
pub fn own_network() -> io::Result<()> {
    // SAFETY: the call takes a flag.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) })
}

/// From here on this thread is in that network.
pub fn enter_network(namespace: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) })
}

/// The number of an interface in the network of this thread.
pub fn interface(name: &str) -> io::Result<u32> {
    let name = CString::new(name)?;
    // SAFETY: the string ends with a zero.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// Takes a mount away, even while it is used.
pub fn unmount(path: &Path) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the string ends with a zero.
    check(unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) })
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
