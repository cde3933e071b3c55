//! Namespaces: made with a process that lives in them, and joined by others.
#![expect(unsafe_code, reason = "std has no namespaces")]

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::ids::{self, IdRange};
use super::system::check;

/// Kinds of namespaces, as `/proc/PID/ns` and as the kernel's flags call them, in the order in
/// which they are to be joined.
pub const KINDS: [(&str, i32); 6] = [
    ("user", libc::CLONE_NEWUSER),
    ("net", libc::CLONE_NEWNET),
    ("ipc", libc::CLONE_NEWIPC),
    ("uts", libc::CLONE_NEWUTS),
    ("pid", libc::CLONE_NEWPID),
    ("mnt", libc::CLONE_NEWNS),
];

/// A namespace of another process.
#[derive(Debug)]
pub struct Space {
    pub file: File,
    pub kind: i32,
}

/// Opens the namespaces of a process that differ from our own, in the order in which they can be
/// joined. A network that belongs to another user namespace than the process is in, as that of a
/// rootless node does, can only be joined from there, so both come first.
pub fn of(pid: i32) -> io::Result<Vec<Space>> {
    let mut found = differing(pid)?;
    let position = |kind| found.iter().position(|space: &Space| space.kind == kind);
    if let (Some(user), Some(mounts)) = (position(libc::CLONE_NEWUSER), position(libc::CLONE_NEWNS))
        && let Ok(owner) = owner(&found[mounts].file)
        && !same(&owner, &found[user].file)?
        && same(&owner, &File::open("/proc/self/ns/user")?)?
    {
        // The others belong to our user namespace: who has joined that one may not join them.
        let user = found.remove(user);
        found.push(user);
        return Ok(found);
    }
    let (Some(user), Some(network)) = (position(libc::CLONE_NEWUSER), position(libc::CLONE_NEWNET))
    else {
        return Ok(found);
    };
    let owner = owner(&found[network].file)?;
    if same(&owner, &found[user].file)? {
        return Ok(found);
    }
    let network = found.remove(network);
    found.insert(0, network);
    if !same(&owner, &File::open("/proc/self/ns/user")?)? {
        found.insert(0, Space { file: owner, kind: libc::CLONE_NEWUSER });
    }
    Ok(found)
}

/// Joins the network of a namespace file, through the user namespace that it belongs to if that is
/// not ours. This process must have one thread then.
pub fn join_network(network: File) -> io::Result<()> {
    let owner = owner(&network)?;
    if !same(&owner, &File::open("/proc/self/ns/user")?)? {
        join(&Space { file: owner, kind: libc::CLONE_NEWUSER })?;
    }
    join(&Space { file: network, kind: libc::CLONE_NEWNET })
}

/// Returns the user namespace that a namespace belongs to.
fn owner(namespace: &File) -> io::Result<File> {
    const NS_GET_USERNS: libc::Ioctl = 0xb701;
    // SAFETY: the descriptor is open; the call answers with a descriptor that is ours, or -1.
    let descriptor = unsafe { libc::ioctl(namespace.as_raw_fd(), NS_GET_USERNS) };
    check(descriptor)?;
    // SAFETY: it was just opened and has no other owner.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(descriptor) }))
}

fn same(one: &File, other: &File) -> io::Result<bool> {
    let (one, other) = (one.metadata()?, other.metadata()?);
    Ok((one.dev(), one.ino()) == (other.dev(), other.ino()))
}

fn differing(pid: i32) -> io::Result<Vec<Space>> {
    let mut found = Vec::new();
    for (name, kind) in KINDS {
        let path = format!("/proc/{pid}/ns/{name}");
        let (Ok(theirs), Ok(ours)) =
            (fs::read_link(&path), fs::read_link(format!("/proc/self/ns/{name}")))
        else {
            continue;
        };
        if theirs != ours {
            found.push(Space { file: File::open(&path)?, kind });
        }
    }
    Ok(found)
}

/// Whether this process has another network than the one that started it.
pub fn has_own_network() -> bool {
    let parent = format!("/proc/{}/ns/net", std::os::unix::process::parent_id());
    let (theirs, ours) = (fs::read_link(parent), fs::read_link("/proc/self/ns/net"));
    matches!((theirs, ours), (Ok(theirs), Ok(ours)) if theirs != ours)
}

/// The namespace of processes that this process is in.
pub fn own_processes() -> io::Result<Space> {
    Ok(Space { file: File::open("/proc/self/ns/pid")?, kind: libc::CLONE_NEWPID })
}

/// A copy of this process in new namespaces; its number, or `None` in the copy. This process must
/// have one thread.
pub fn fork_into(flags: i32) -> io::Result<Option<i32>> {
    let flags = libc::c_long::from(flags | libc::SIGCHLD);
    // SAFETY: without a stack of its own the copy goes on as after fork; we have one thread.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    match i32::try_from(pid) {
        Ok(0) => Ok(None),
        Ok(pid) if pid > 0 => Ok(Some(pid)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Creates a user namespace for this process, in which it keeps its ids. It must have one thread.
pub fn own_user() -> io::Result<()> {
    own_user_and(0)
}

/// Creates a user namespace as [`own_user`] does, and other namespaces that belong to it.
pub fn own_user_and(flags: i32) -> io::Result<()> {
    // SAFETY: the calls have no arguments and cannot fail.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    // SAFETY: the call takes flags.
    check(unsafe { libc::unshare(libc::CLONE_NEWUSER | flags) })?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// A user namespace in which the ids from 0 on are a range of ids of the host.
#[derive(Debug)]
pub struct Mapping {
    pub range: IdRange,
    namespace: File,
}

impl Mapping {
    /// Creates the namespace. This process must be privileged and have one thread.
    pub fn new(range: IdRange) -> io::Result<Mapping> {
        let (mut waits, ends) = io::pipe()?;
        let Some(child) = fork_into(libc::CLONE_NEWUSER)? else {
            // It holds the namespace until the other end of the pipe is closed.
            drop(ends);
            let _ = waits.read(&mut [0]);
            leave(0)
        };
        let map = format!("0 {} {}", range.first, ids::COUNT);
        let made = fs::write(format!("/proc/{child}/uid_map"), &map)
            .and_then(|()| fs::write(format!("/proc/{child}/gid_map"), &map))
            .and_then(|()| File::open(format!("/proc/{child}/ns/user")));
        drop(ends);
        wait_for(child);
        Ok(Mapping { range, namespace: made? })
    }

    /// Maps the owners of files in a mount that is not attached yet.
    pub fn apply(&self, tree: &OwnedFd) -> io::Result<()> {
        let attributes = Attributes {
            set: IDMAP,
            user_namespace: u64::try_from(self.namespace.as_raw_fd()).unwrap_or(0),
            ..Attributes::default()
        };
        let flags = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
        set_attributes_at(tree.as_raw_fd(), c"", (flags, &attributes))
    }

    /// This process joins the namespace as its root, and dies with its parent.
    pub fn become_root(&self) -> io::Result<()> {
        let file = self.namespace.try_clone()?;
        join(&Space { file, kind: libc::CLONE_NEWUSER })?;
        // SAFETY: the calls take numbers only.
        unsafe {
            check(libc::setgroups(0, std::ptr::null()))?;
            check(libc::setresgid(0, 0, 0))?;
            check(libc::setresuid(0, 0, 0))?;
        }
        // A change of the user takes the signal away.
        die_with_parent()
    }
}

fn wait_for(child: i32) {
    // SAFETY: the call takes numbers and no pointer to memory.
    while unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) } < 0 {
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return;
        }
    }
}

/// This thread joins a namespace; of processes, its children do.
pub fn join(space: &Space) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    check(unsafe { libc::setns(space.file.as_raw_fd(), space.kind) })
}

pub fn set_hostname(name: &str) -> io::Result<()> {
    // SAFETY: the pointer and the length are those of one string.
    check(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) })
}

/// Makes a directory the root of this mount namespace; what was there before is no more. It must
/// not be shared with others, or they would lose it too.
pub fn change_root(root: &Path) -> io::Result<()> {
    let path = CString::new(root.as_os_str().as_bytes())?;
    // SAFETY: the strings end with a zero and live through the calls.
    unsafe {
        check(libc::chdir(path.as_ptr()))?;
        // The old root comes to lie over the new one, from where it is taken away.
        let here = c".".as_ptr();
        check(i32::try_from(libc::syscall(libc::SYS_pivot_root, here, here)).unwrap_or(-1))?;
        check(libc::umount2(here, libc::MNT_DETACH))?;
        check(libc::chdir(c"/".as_ptr()))
    }
}

/// Makes what is mounted at a place read-only, with all below it if that is asked.
pub fn read_only(place: &Path, recursive: bool) -> io::Result<()> {
    let flags = if recursive { libc::AT_RECURSIVE } else { 0 };
    set_attributes(place, flags, Attributes { set: READ_ONLY, ..Attributes::default() })
}

/// What is mounted at a place can be written again.
pub fn writable(place: &Path) -> io::Result<()> {
    set_attributes(place, 0, Attributes { clear: READ_ONLY, ..Attributes::default() })
}

const READ_ONLY: u64 = 1;
const IDMAP: u64 = 0x0010_0000;

#[repr(C)]
#[derive(Default)]
struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

fn set_attributes(place: &Path, flags: i32, attributes: Attributes) -> io::Result<()> {
    let path = CString::new(place.as_os_str().as_bytes())?;
    set_attributes_at(libc::AT_FDCWD, &path, (flags, &attributes))
}

fn set_attributes_at(
    directory: i32,
    path: &CStr,
    (flags, attributes): (i32, &Attributes),
) -> io::Result<()> {
    // SAFETY: the string ends with a zero; the structure has the size that is told.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            directory,
            path.as_ptr(),
            flags,
            std::ptr::from_ref(attributes),
            size_of::<Attributes>(),
        )
    };
    check(i32::try_from(result).unwrap_or(-1))
}

/// What a program goes through before it is a container's.
#[derive(Debug, Default)]
pub struct Entrance {
    /// Groups to be in.
    pub doors: Vec<File>,
    /// How willingly it is killed when memory is short, if we may say so.
    pub oom_score: i32,
    /// Owner of the pipes of its streams, so that it can open them by their names.
    pub streams_owner: Option<u32>,
    pub spaces: Vec<Space>,
    /// The program is not a child of who is in the namespace of processes: one stays outside and
    /// ends as the program does.
    pub forks: bool,
}

/// The program enters; to be said before its directory and who it is.
pub fn enter(command: &mut Command, entrance: Entrance) {
    let score = CString::new(entrance.oom_score.to_string()).unwrap_or_default();
    let before = move || {
        for door in &entrance.doors {
            write(door.as_raw_fd(), b"0")?;
        }
        set_oom_score(score.as_bytes());
        entrance.streams_owner.into_iter().for_each(give_streams);
        entrance.spaces.iter().try_for_each(join)?;
        let has_processes = entrance.spaces.iter().any(|it| it.kind == libc::CLONE_NEWPID);
        if entrance.forks && has_processes { go_on_in_child() } else { Ok(()) }
    };
    // SAFETY: the closure allocates nothing.
    unsafe { command.pre_exec(before) };
}

fn write(descriptor: i32, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: the pointer and the length are those of one slice.
    let written = unsafe { libc::write(descriptor, bytes.as_ptr().cast(), bytes.len()) };
    check(i32::try_from(written).unwrap_or(-1))
}

/// Gives the pipes of this process to a user. Nothing else: `/dev/null` is the host's.
fn give_streams(user: u32) {
    for stream in 0..3 {
        // SAFETY: the structure is filled before it is read; the calls take a descriptor.
        unsafe {
            let mut found = std::mem::zeroed::<libc::stat>();
            if libc::fstat(stream, &raw mut found) == 0
                && found.st_mode & libc::S_IFMT == libc::S_IFIFO
            {
                libc::fchown(stream, user, u32::MAX);
            }
        }
    }
}

/// Who lacks the right to lower the score keeps what it has.
fn set_oom_score(score: &[u8]) {
    let path = c"/proc/self/oom_score_adj".as_ptr();
    // SAFETY: the string ends with a zero, and the descriptor is closed once.
    unsafe {
        let file = libc::open(path, libc::O_WRONLY | libc::O_CLOEXEC);
        if file >= 0 {
            let _ = write(file, score);
            libc::close(file);
        }
    }
}

/// Returns in a child, which the namespace counts among its own. The parent waits for it and ends
/// as it does.
fn go_on_in_child() -> io::Result<()> {
    let Some(child) = fork_into(0)? else {
        // SAFETY: the call takes numbers only.
        return check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) });
    };
    // SAFETY: these calls are allowed between fork and exec; the pointer is to a local.
    unsafe {
        // Whoever started us waits until nobody holds what he passed on.
        libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0);
        let mut status = 0;
        while libc::waitpid(child, &raw mut status, 0) < 0 {
            if *libc::__errno_location() != libc::EINTR {
                break;
            }
        }
        if libc::WIFSIGNALED(status) {
            libc::_exit(128 + libc::WTERMSIG(status));
        }
        libc::_exit(libc::WEXITSTATUS(status))
    }
}

/// The life of the first process of a namespace: it waits for whatever is left to it, and for
/// nothing else.
pub fn reap_forever() -> ! {
    // SAFETY: the set is filled before it is read; the calls take it and numbers.
    unsafe {
        libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0);
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        loop {
            while libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) > 0 {}
            let mut signal = 0;
            libc::sigwait(&raw const set, &raw mut signal);
        }
    }
}

/// This process dies with the thread that started it.
pub fn die_with_parent() -> io::Result<()> {
    // SAFETY: the call takes numbers only.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })
}

/// Ends this process without anything that its parent would do at its end.
pub fn leave(code: i32) -> ! {
    // SAFETY: the call does not return.
    unsafe { libc::_exit(code) }
}
