//! The few calls of the kernel that std does not have: processes, descriptors, mounts.
#![expect(unsafe_code, reason = "std has neither pidfds nor mounts")]

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

/// Which boot of the machine this is.
pub fn boot() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
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

/// Creates a file in memory that programs do not inherit.
pub fn memory_file(name: &std::ffi::CStr) -> io::Result<File> {
    // SAFETY: the string ends with a zero; the call answers with a descriptor that is ours, or -1.
    let descriptor = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    check(descriptor)?;
    // SAFETY: it was just opened and has no other owner.
    Ok(unsafe { File::from_raw_fd(descriptor) })
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

/// Mounts terminals of its own, without those of the host.
pub fn mount_terminals(place: &std::ffi::CStr) -> io::Result<()> {
    let (kind, flags) = (c"devpts", libc::MS_NOSUID | libc::MS_NOEXEC);
    let options = c"newinstance,ptmxmode=0666,mode=0620";
    // SAFETY: the strings end with a zero and live through the call.
    check(unsafe {
        libc::mount(kind.as_ptr(), place.as_ptr(), kind.as_ptr(), flags, options.as_ptr().cast())
    })
}

/// A copy of what is mounted at a place and below, mounted nowhere.
pub fn open_tree(source: &std::ffi::CStr) -> io::Result<OwnedFd> {
    let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | AT_RECURSIVE;
    // SAFETY: the string ends with a zero, and the answer is a descriptor that is ours, or -1.
    let tree =
        unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, source.as_ptr(), flags) };
    let tree = i32::try_from(tree).ok().filter(|it| *it >= 0);
    // SAFETY: it was just opened and nobody else has it.
    tree.map(|it| unsafe { OwnedFd::from_raw_fd(it) }).ok_or_else(io::Error::last_os_error)
}

/// Mounts such a copy.
pub fn move_mount(tree: &OwnedFd, target: &std::ffi::CStr) -> io::Result<()> {
    let (from, empty, to) = (tree.as_raw_fd(), c"".as_ptr(), target.as_ptr());
    let flags = libc::MOVE_MOUNT_F_EMPTY_PATH | libc::MOVE_MOUNT_T_SYMLINKS;
    // SAFETY: the descriptor is open, and the strings end with a zero.
    let moved =
        unsafe { libc::syscall(libc::SYS_move_mount, from, empty, libc::AT_FDCWD, to, flags) };
    check(i32::try_from(moved).unwrap_or(-1))
}

const AT_RECURSIVE: libc::c_uint = 0x8000;

/// Waits until streams can be read, or have ended; which of them, in their order.
pub fn readable(streams: &[i32]) -> io::Result<Vec<bool>> {
    let entry = |fd: &i32| libc::pollfd { fd: *fd, events: libc::POLLIN, revents: 0 };
    let mut entries: Vec<libc::pollfd> = streams.iter().map(entry).collect();
    let count = libc::nfds_t::try_from(entries.len()).unwrap_or(0);
    loop {
        // SAFETY: the pointer and the count are those of one list.
        match check(unsafe { libc::poll(entries.as_mut_ptr(), count, -1) }) {
            Ok(()) => return Ok(entries.iter().map(|entry| entry.revents != 0).collect()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
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
            // In a namespace of processes of its own nobody is seen there.
            if ![0, parent].contains(&libc::getppid()) {
                libc::_exit(127);
            }
        }
        Ok(())
    };
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

/// Kills processes by their numbers, which must have just been read from a place that is ours.
pub fn kill_all(processes: &[i32]) {
    for pid in processes {
        // SAFETY: the call takes numbers only.
        unsafe { libc::kill(*pid, libc::SIGKILL) };
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

/// What a call of the kernel answered.
pub fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
