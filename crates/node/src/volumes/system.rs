//! The few calls of the kernel that volumes need and std does not have.
#![expect(unsafe_code, reason = "std has neither mounts nor opening below a directory")]

use std::ffi::{CStr, CString};
use std::fs::{File, Permissions};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Opens a place below a directory to name it, not to read it. No link leads out of the directory,
/// also while others change what is there.
pub fn open_below(directory: &File, part: &Path) -> io::Result<OwnedFd> {
    // SAFETY: all zeros is a valid value of this structure of numbers.
    let mut how: libc::open_how = unsafe { zeroed() };
    how.flags = flags(libc::O_PATH | libc::O_CLOEXEC);
    how.resolve = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_MAGICLINKS;
    let is_all = part.as_os_str().is_empty();
    let part = text(if is_all { Path::new(".") } else { part })?;
    let (of, size) = (directory.as_raw_fd(), size_of::<libc::open_how>());
    // SAFETY: the string ends with a zero, and both live through the call.
    let opened =
        unsafe { libc::syscall(libc::SYS_openat2, of, part.as_ptr(), &raw const how, size) };
    let opened = i32::try_from(opened).ok().filter(|it| *it >= 0);
    // SAFETY: it was just opened and nobody else has it.
    let ours = |opened| unsafe { OwnedFd::from_raw_fd(opened) };
    opened.map(ours).ok_or_else(|| match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::EXDEV) => {
            io::Error::other("it leads out of the volume")
        }
        error => error,
    })
}

/// Makes one directory in an opened one; that it is there already is fine. It has this mode
/// whatever the mask of this process is.
pub fn make_in(directory: &OwnedFd, name: &Path, mode: u32) -> io::Result<()> {
    let name_text = text(name)?;
    // SAFETY: the descriptor is open and the string ends with a zero.
    match check(unsafe { libc::mkdirat(directory.as_raw_fd(), name_text.as_ptr(), mode) }) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
        Ok(()) => {
            let flags = libc::O_DIRECTORY | libc::O_RDONLY;
            let made = File::from(open_in(directory, name, flags)?);
            made.set_permissions(Permissions::from_mode(mode))
        }
    }
}

/// Makes an empty file in an opened directory; that it is there already is fine.
pub fn make_file_in(directory: &OwnedFd, name: &Path) -> io::Result<()> {
    match open_in(directory, name, libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map(drop),
    }
}

/// Opens what is in an opened directory; a link is not followed.
pub fn open_in(directory: &OwnedFd, name: &Path, flags: i32) -> io::Result<OwnedFd> {
    let name = text(name)?;
    let flags = flags | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: the descriptor is open and the string ends with a zero.
    let opened = unsafe { libc::openat(directory.as_raw_fd(), name.as_ptr(), flags, 0o644) };
    check(opened)?;
    // SAFETY: it was just opened and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(opened) })
}

/// Gives what is opened, if only to name it, to a group.
pub fn give_to(opened: &OwnedFd, group: u32) -> io::Result<()> {
    give_all_to(opened, (libc::uid_t::MAX, group))
}

/// Gives what is opened, if only to name it, to a user and a group.
pub fn give_all_to(opened: &OwnedFd, (user, group): (u32, u32)) -> io::Result<()> {
    let flags = libc::AT_EMPTY_PATH;
    // SAFETY: the descriptor is open and the string ends with a zero.
    check(unsafe { libc::fchownat(opened.as_raw_fd(), c"".as_ptr(), user, group, flags) })
}

/// The name by which this process can use what it has opened.
pub fn opened(descriptor: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_raw_fd()))
}

/// Mounts a file system in memory.
pub fn mount_memory(place: &Path, options: &str) -> io::Result<()> {
    let (place, options) = (text(place)?, CString::new(options)?);
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    let kind: &CStr = c"tmpfs";
    // SAFETY: the strings end with a zero and live through the call.
    check(unsafe {
        libc::mount(kind.as_ptr(), place.as_ptr(), kind.as_ptr(), flags, options.as_ptr().cast())
    })
}

/// Takes away what is mounted at a place, also while it is used.
pub fn unmount(place: &Path) -> io::Result<()> {
    let place = text(place)?;
    // SAFETY: the string ends with a zero.
    check(unsafe { libc::umount2(place.as_ptr(), libc::MNT_DETACH | libc::UMOUNT_NOFOLLOW) })
}

/// Makes all that is mounted at and below a place read-only.
pub fn make_read_only_below(place: &Path) -> io::Result<()> {
    // SAFETY: all zeros is a valid value of this structure of numbers.
    let mut attributes: libc::mount_attr = unsafe { zeroed() };
    attributes.attr_set = libc::MOUNT_ATTR_RDONLY;
    let (place, size) = (text(place)?, size_of::<libc::mount_attr>());
    let (at, flags) = (libc::AT_FDCWD, libc::AT_RECURSIVE);
    // SAFETY: the string ends with a zero, and both live through the call.
    let done = unsafe {
        let attributes = &raw const attributes;
        libc::syscall(libc::SYS_mount_setattr, at, place.as_ptr(), flags, attributes, size)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn flags(flags: i32) -> u64 {
    u64::try_from(flags).unwrap_or(0)
}

fn text(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
