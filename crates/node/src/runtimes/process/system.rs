//! The few calls of the kernel that std does not have. All unsafe code of this crate is here.
#![expect(unsafe_code, reason = "std has neither pidfds nor namespaces")]

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use tokio::io::unix::AsyncFd;

/// A process, if it is still the one that began then.
pub fn open_process(pid: i32, ticks: u64) -> Option<OwnedFd> {
    // SAFETY: the call takes numbers and answers with a descriptor that is ours, or -1.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, libc::PIDFD_NONBLOCK) };
    let descriptor = i32::try_from(descriptor).ok().filter(|it| *it >= 0)?;
    // SAFETY: it was just opened and nobody else has it.
    let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
    // From here the number cannot come to mean another process.
    (began(pid)? == ticks).then_some(descriptor)
}

pub fn signal(process: &OwnedFd, signal: i32) -> io::Result<()> {
    let none = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: the descriptor is open, and no information is passed.
    let sent =
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process.as_raw_fd(), signal, none, 0) };
    if sent == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// When a process began, in ticks since boot.
pub fn began(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; the twentieth field after it is the time.
    text.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Whether this process is root.
pub fn is_root() -> bool {
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Orphans of our descendants become our children.
pub fn adopt_orphans() -> io::Result<()> {
    // SAFETY: the call takes numbers only.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) })
}

/// A new session: no terminal, a group of its own.
pub fn new_session() {
    // SAFETY: the call has no arguments. It fails where we lead a group already, which is fine.
    let _ = unsafe { libc::setsid() };
}

/// From here on mounts of this thread and its children are theirs alone. Who is not root gets a
/// user namespace around it in which he is himself.
pub fn own_mounts() -> io::Result<()> {
    if is_root() {
        // SAFETY: the call takes a flag.
        return check(unsafe { libc::unshare(libc::CLONE_NEWNS) });
    }
    // SAFETY: the calls have no arguments and cannot fail.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    // SAFETY: the call takes flags.
    check(unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) })?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// `mount(2)`.
pub fn mount(
    source: &std::ffi::CStr,
    target: &std::ffi::CStr,
    (kind, flags): (Option<&std::ffi::CStr>, u64),
) -> io::Result<()> {
    let kind = kind.map_or(std::ptr::null(), std::ffi::CStr::as_ptr);
    // SAFETY: the strings end with a zero and live through the call; no data is passed.
    check(unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind, flags, std::ptr::null()) })
}

/// The program dies with the thread that started it, and leads a group.
pub fn die_with_parent(command: &mut Command) {
    let parent = i32::try_from(std::process::id()).unwrap_or(0);
    let before = move || {
        // SAFETY: these calls are allowed between fork and exec and take numbers only.
        unsafe {
            // Who leads a session leads a group already.
            let _ = libc::setpgid(0, 0);
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
            if libc::getppid() != parent {
                libc::_exit(127);
            }
        }
        Ok(())
    };
    // SAFETY: the closure allocates nothing.
    unsafe { command.pre_exec(before) };
}

/// The program sees another root, in the mount namespace that is given or in ours.
pub fn change_root(command: &mut Command, root: &File, namespace: Option<File>) -> io::Result<()> {
    let root = root.try_clone()?;
    let before = move || {
        // SAFETY: these calls are allowed between fork and exec; the descriptors are open.
        unsafe {
            if let Some(namespace) = &namespace {
                check(libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNS))?;
            }
            check(libc::fchdir(root.as_raw_fd()))?;
            check(libc::chroot(c".".as_ptr()))
        }
    };
    // SAFETY: the closure allocates nothing.
    unsafe { command.pre_exec(before) };
    Ok(())
}

/// The program is in another network.
pub fn change_network(command: &mut Command, network: File) {
    // SAFETY: the call is allowed between fork and exec; the descriptor is open.
    let before = move || check(unsafe { libc::setns(network.as_raw_fd(), libc::CLONE_NEWNET) });
    // SAFETY: the closure allocates nothing.
    unsafe { command.pre_exec(before) };
}

/// Where the program begins; to be said after its root.
pub fn change_directory(command: &mut Command, directory: &str) -> io::Result<()> {
    let directory = CString::new(directory)?;
    // SAFETY: the call is allowed between fork and exec; the string ends with a zero.
    let before = move || check(unsafe { libc::chdir(directory.as_ptr()) });
    // SAFETY: the closure allocates nothing.
    unsafe { command.pre_exec(before) };
    Ok(())
}

/// Whom the program runs as; to be said after its root and its directory.
pub fn become_user(command: &mut Command, user: Option<u32>, group: Option<u32>) {
    let before = move || {
        // SAFETY: these calls are allowed between fork and exec and take numbers only.
        unsafe {
            if let Some(group) = group.or(user.map(|_| 0)) {
                check(libc::setgroups(0, std::ptr::null()))?;
                check(libc::setgid(group))?;
            }
            match user {
                Some(user) => check(libc::setuid(user)),
                None => Ok(()),
            }
        }
    };
    if user.is_some() || group.is_some() {
        // SAFETY: the closure allocates nothing.
        unsafe { command.pre_exec(before) };
    }
}

/// From here on this thread's sockets are in another network.
pub fn join_network(network: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    check(unsafe { libc::setns(network.as_raw_fd(), libc::CLONE_NEWNET) })
}

/// Tells whoever reads our output that there is no more.
pub fn close_output() -> io::Result<()> {
    let null = File::options().write(true).open("/dev/null")?;
    // SAFETY: both descriptors are open.
    check(unsafe { libc::dup2(null.as_raw_fd(), 1) })
}

/// Kills a process that must be a child of ours that we have not waited for, with its group.
pub fn kill_group(pid: i32) {
    // SAFETY: the calls take numbers only.
    unsafe {
        libc::kill(-pid, libc::SIGKILL);
        libc::kill(pid, libc::SIGKILL);
    }
}

/// Waits for any child; its number and how it ended. `None` when there is none.
pub fn wait_for_any() -> Option<(i32, i32)> {
    loop {
        let mut status = 0;
        // SAFETY: the pointer is to a local.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, 0) };
        if pid > 0 {
            return Some((pid, status));
        }
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return None;
        }
    }
}

/// The code and the signal of a process that ended.
pub fn how(status: i32) -> (i32, Option<i32>) {
    if libc::WIFSIGNALED(status) {
        let signal = libc::WTERMSIG(status);
        return (128 + signal, Some(signal));
    }
    (libc::WEXITSTATUS(status), None)
}

/// Everything a pipe has, up to a bound; the rest is read and dropped.
pub async fn read_all(pipe: File, bytes_max: u64) -> io::Result<Vec<u8>> {
    // SAFETY: the descriptor is open and the flags are valid for it.
    check(unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) })?;
    let pipe = wait_on(pipe)?;
    let mut all = Vec::new();
    let mut piece = vec![0; 4096];
    loop {
        let mut ready = pipe.readable().await?;
        let read = ready.try_io(|pipe| {
            use std::io::Read;
            pipe.get_ref().read(&mut piece)
        });
        match read {
            Ok(Ok(0)) => return Ok(all),
            Ok(Ok(count)) => {
                let room = usize::try_from(bytes_max).unwrap_or(usize::MAX) - all.len();
                all.extend_from_slice(&piece[..count.min(room)]);
            }
            Ok(Err(error)) => return Err(error),
            Err(_) => {}
        }
    }
}

/// A descriptor whose events can be waited for.
pub fn wait_on(descriptor: impl Into<OwnedFd>) -> io::Result<AsyncFd<File>> {
    // SAFETY: a file is its descriptor and keeps it open for as long as it lives.
    let registered = unsafe { AsyncFd::register(File::from(descriptor.into())) };
    registered.map_err(|error| error.into_parts().1)
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
