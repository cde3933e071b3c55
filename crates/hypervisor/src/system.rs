//! The few calls of the kernel that std does not have: processes, locks, sessions, interfaces.
#![expect(unsafe_code, reason = "std has neither pidfds nor interfaces")]

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::confinement::User;

/// A process, if it is still the one that began then.
pub fn open_process(pid: u32, began_at: u64) -> Option<OwnedFd> {
    // SAFETY: the call takes numbers and answers with a descriptor that is ours, or -1.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, libc::PIDFD_NONBLOCK) };
    let descriptor = i32::try_from(descriptor).ok().filter(|it| *it >= 0)?;
    // SAFETY: it was just opened and nobody else has it.
    let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
    // From here the number cannot come to mean another process.
    (began(pid)? == began_at).then_some(descriptor)
}

/// A process that runs in a directory, if there is one.
pub fn process_in(directory: &Path) -> Option<u32> {
    let directory = fs::canonicalize(directory).ok()?;
    let all = fs::read_dir("/proc").ok()?.flatten();
    let mut all = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    all.find(|pid| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == directory))
}

/// When a process began, in ticks since boot.
pub fn began(pid: u32) -> Option<u64> {
    field_of_stat(pid, 19)
}

/// How long a process has computed, in milliseconds.
pub fn computed(pid: u32) -> Option<u64> {
    let ticks = field_of_stat(pid, 11)? + field_of_stat(pid, 12)?;
    // SAFETY: the call takes a number.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    Some(ticks * 1_000 / u64::try_from(per_second).ok().filter(|it| *it > 0)?)
}

/// The memory that a process occupies, in bytes.
pub fn resident(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? << 10)
}

/// The name in parentheses may hold anything; fields are counted after it.
fn field_of_stat(pid: u32, number: usize) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit_once(')')?.1.split_whitespace().nth(number)?.parse().ok()
}

pub fn kill(process: &OwnedFd) -> io::Result<()> {
    let none = std::ptr::null::<libc::siginfo_t>();
    let (descriptor, signal) = (process.as_raw_fd(), libc::SIGKILL);
    // SAFETY: the descriptor is open, and no information is passed.
    let sent = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, descriptor, signal, none, 0) };
    if sent == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns when a process has ended.
pub async fn ended(process: &OwnedFd) -> io::Result<()> {
    let process = process.try_clone()?;
    // SAFETY: the descriptor is owned and stays open as long as it is registered.
    let process = unsafe { AsyncFd::register_with_interest(process, Interest::READABLE) }?;
    process.readable().await.map(drop)
}

/// Whether nobody holds the lock; if so, it is ours while the file is open, and while it is open in
/// any process that inherits it.
pub fn try_lock(file: &File) -> io::Result<bool> {
    // SAFETY: the descriptor is open.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(true),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            error => Err(error),
        },
    }
}

/// Bytes of the file of a disk that QEMU locks: that somebody writes it, and that nobody else may.
///
/// Upstream: qemu, block/file-posix.c (RAW_LOCK_PERM_BASE, RAW_LOCK_SHARED_BASE)
const WRITES: i64 = 101;
const WRITES_ALONE: i64 = 201;

/// Has QEMU refuse to write a file while it is open here. Says whether it does: it is too late
/// where one writes it already.
pub fn refuse_writers(file: &File) -> io::Result<bool> {
    let range = |kind: i32, at: i64| libc::flock {
        l_type: i16::try_from(kind).unwrap_or_default(),
        l_whence: 0,
        l_start: at,
        l_len: 1,
        l_pid: 0,
    };
    let call = |command: i32, lock: &mut libc::flock| {
        // SAFETY: the descriptor is open, and the structure is what these commands expect.
        check(unsafe { libc::fcntl(file.as_raw_fd(), command, lock) })
    };
    // As QEMU does: said first, and looked second, so that of two one sees the other.
    call(libc::F_OFD_SETLK, &mut range(libc::F_RDLCK, WRITES_ALONE))?;
    let mut found = range(libc::F_WRLCK, WRITES);
    call(libc::F_OFD_GETLK, &mut found)?;
    Ok(i32::from(found.l_type) == libc::F_UNLCK)
}

/// Reads and writes of a file wait until they are done, however it was opened.
pub fn let_wait(file: &File) -> io::Result<()> {
    // SAFETY: the calls take numbers only, and the descriptor is open.
    unsafe {
        let flags = libc::fcntl(file.as_raw_fd(), libc::F_GETFL);
        check(flags)?;
        check(libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags & !libc::O_NONBLOCK))
    }
}

/// Returns an open file that is in memory only, to be read.
pub fn memory_file(name: &str, contents: &[u8]) -> io::Result<File> {
    let name = std::ffi::CString::new(name)?;
    // SAFETY: the name ends with a zero; the call answers with a descriptor that is ours, or -1.
    let made = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    check(made)?;
    // SAFETY: it was just opened and nobody else has it.
    let mut file = unsafe { File::from_raw_fd(made) };
    file.write_all(contents)?;
    // QEMU takes a descriptor only if it is open for exactly what a disk needs.
    File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Has what was written so far go to the disk while more is being written. Whether it does, nobody
/// waits for here: whoever must know syncs the file.
pub fn begin_to_write_back(file: &File) {
    // SAFETY: the call takes numbers only, and the descriptor is open.
    let _ = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
}

/// What becomes of a program that is to outlive us.
pub struct Detached {
    /// Descriptors that it gets under the same numbers.
    pub inherited: Vec<RawFd>,
    /// What it writes into to join its group.
    pub doors: Vec<File>,
    pub user: Option<User>,
}

/// The program has a session of its own: it does not end with us, nor with our terminal. It joins
/// its group, and becomes its user last.
pub fn detach(command: &mut Command, detached: Detached) {
    let before = move || {
        for descriptor in &detached.inherited {
            // SAFETY: the call takes numbers only.
            check(unsafe { libc::fcntl(*descriptor, libc::F_SETFD, 0) })?;
        }
        for mut door in &detached.doors {
            door.write_all(b"0")?;
        }
        // SAFETY: the call has no arguments. It fails where we lead a group already: fine.
        let _ = unsafe { libc::setsid() };
        detached.user.as_ref().map_or(Ok(()), become_user)
    };
    // SAFETY: the closure allocates nothing and calls what is allowed between fork and exec.
    unsafe { command.pre_exec(before) };
}

/// Gives up everything that root may, for good.
fn become_user(user: &User) -> io::Result<()> {
    let number = user.number;
    // SAFETY: the list is as long as is said; the others take numbers only.
    unsafe {
        check(libc::setgroups(user.groups.len(), user.groups.as_ptr()))?;
        check(libc::setresgid(number, number, number))?;
        check(libc::setresuid(number, number, number))?;
        check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    }
}

fn check(result: i32) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Writes bytes together with a descriptor, which the other side gets as its own. Says how many of
/// the bytes were written.
pub fn send_descriptor(socket: RawFd, bytes: &[u8], descriptor: RawFd) -> io::Result<usize> {
    const LENGTH: u32 = size_of::<RawFd>() as u32;
    // Room for one, aligned as the kernel wants it.
    let mut room = [0u64; 4];
    let mut piece = libc::iovec { iov_base: bytes.as_ptr() as *mut _, iov_len: bytes.len() };
    // SAFETY: all zeros is a message of nothing.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = room.as_mut_ptr().cast();
    // SAFETY: the calls compute sizes; the header is within the room, which is larger than both.
    unsafe {
        message.msg_controllen = libc::CMSG_SPACE(LENGTH) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(LENGTH) as _;
        libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(descriptor);
    }
    // SAFETY: what the message points to lives until the call returns.
    let sent = unsafe { libc::sendmsg(socket, &raw const message, libc::MSG_NOSIGNAL) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// The program gets descriptors under the same numbers.
pub fn inherit(command: &mut Command, descriptors: Vec<RawFd>) {
    let before = move || {
        descriptors.iter().try_for_each(|descriptor| {
            // SAFETY: the call takes numbers only.
            check(unsafe { libc::fcntl(*descriptor, libc::F_SETFD, 0) })
        })
    };
    // SAFETY: the closure allocates nothing.
    unsafe { command.pre_exec(before) };
}

/// Limits of a program that reads images of users.
pub struct ToolLimits {
    /// The user that it becomes, where processes can be given one.
    pub user: Option<User>,
    pub memory_bytes: u64,
    pub processor_seconds: u64,
}

/// Confines a program that reads images of users: it has no network, bounded memory and time, a
/// user that owns nothing where we may give it one, and gains no privileges.
pub fn confine_tool(command: &mut Command, limits: ToolLimits) {
    let before = move || {
        set_limit(libc::RLIMIT_AS, limits.memory_bytes)?;
        set_limit(libc::RLIMIT_CPU, limits.processor_seconds)?;
        set_limit(libc::RLIMIT_CORE, 0)?;
        // SAFETY: the calls take numbers only.
        unsafe {
            if libc::unshare(libc::CLONE_NEWNET) == -1 {
                // An ordinary user needs a user namespace for it. Where there are none, the other
                // limits hold.
                let _ = libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET);
            }
        }
        limits.user.as_ref().map_or(Ok(()), become_user)?;
        // SAFETY: the calls take numbers only. A change of users clears the signal of the parent's
        // death, so that it is set last.
        unsafe {
            check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))
        }
    };
    // SAFETY: the closure allocates nothing and calls what is allowed between fork and exec.
    unsafe { command.pre_exec(before) };
}

fn set_limit(resource: libc::__rlimit_resource_t, value: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
    // SAFETY: the structure lives until the call returns.
    check(unsafe { libc::setrlimit(resource, &raw const limit) })
}

/// Gives an open file to a user and its group.
pub fn give_file(file: &File, user: u32, group: u32) -> io::Result<()> {
    // SAFETY: the descriptor is open, and the others are numbers.
    check(unsafe { libc::fchown(file.as_raw_fd(), user, group) })
}

/// Returns the addresses of all interfaces of this machine.
pub fn own_addresses() -> io::Result<Vec<IpAddr>> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the call fills in the pointer, or fails.
    check(unsafe { libc::getifaddrs(&raw mut first) })?;
    let mut addresses = Vec::new();
    let mut next = first;
    // SAFETY: the list ends with null, and each address is as long as its family says.
    unsafe {
        while let Some(interface) = next.as_ref() {
            next = interface.ifa_next;
            let Some(address) = interface.ifa_addr.as_ref() else { continue };
            match i32::from(address.sa_family) {
                libc::AF_INET => {
                    let found = interface.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned();
                    let bits = u32::from_be(found.sin_addr.s_addr);
                    addresses.push(IpAddr::V4(Ipv4Addr::from_bits(bits)));
                }
                libc::AF_INET6 => {
                    let found = interface.ifa_addr.cast::<libc::sockaddr_in6>().read_unaligned();
                    addresses.push(IpAddr::V6(found.sin6_addr.s6_addr.into()));
                }
                _ => {}
            }
        }
        libc::freeifaddrs(first);
    }
    Ok(addresses)
}

/// The program dies with the thread that started it.
pub fn die_with_parent(command: &mut Command) {
    let before = || {
        // SAFETY: the call takes numbers only.
        match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: the closure allocates nothing.
    unsafe { command.pre_exec(before) };
}

const ADD_BRIDGE: u64 = 0x89a0;
const REMOVE_BRIDGE: u64 = 0x89a1;
const JOIN_BRIDGE: u64 = 0x89a2;

/// What the calls for interfaces take: a name and a value.
#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    value: [u8; 24],
}

impl Request {
    fn new(name: &str) -> io::Result<Request> {
        let bytes = name.as_bytes();
        if bytes.is_empty() || bytes.len() >= libc::IFNAMSIZ || bytes.contains(&0) {
            let why = format!("{name:?} is no name of an interface");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let mut request = Request { name: [0; libc::IFNAMSIZ], value: [0; 24] };
        request.name[..bytes.len()].copy_from_slice(bytes);
        Ok(request)
    }
}

fn control(descriptor: RawFd, call: u64, request: &mut Request) -> io::Result<()> {
    // SAFETY: the descriptor is open, and the structure is as long as any of these calls expects.
    match unsafe { libc::ioctl(descriptor, call, request) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// A way to ask for interfaces.
fn socket() -> io::Result<OwnedFd> {
    // SAFETY: the call takes numbers and answers with a descriptor that is ours, or -1.
    let made = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    match made {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: it was just opened and nobody else has it.
        made => Ok(unsafe { OwnedFd::from_raw_fd(made) }),
    }
}

/// An interface that is a file: what is written into it arrives, what is sent can be read. It goes
/// when the last who has the file closes it.
pub fn open_tap() -> io::Result<(File, String)> {
    const TUN_SET_INTERFACE: u64 = 0x4004_54ca;
    let file = File::options().read(true).write(true).open("/dev/net/tun")?;
    let mut request = Request::new("svm%d")?;
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    let flags = u16::try_from(flags).unwrap_or_default();
    request.value[..2].copy_from_slice(&flags.to_ne_bytes());
    control(file.as_raw_fd(), TUN_SET_INTERFACE, &mut request)?;
    let name = request.name.iter().take_while(|byte| **byte != 0).copied().collect();
    let name = String::from_utf8(name).map_err(|_| io::Error::other("not a name"))?;
    Ok((file, name))
}

pub fn set_up(name: &str) -> io::Result<()> {
    let socket = socket()?;
    let mut request = Request::new(name)?;
    control(socket.as_raw_fd(), libc::SIOCGIFFLAGS, &mut request)?;
    let flags = u16::from_ne_bytes([request.value[0], request.value[1]]);
    let up = flags | u16::try_from(libc::IFF_UP).unwrap_or_default();
    request.value[..2].copy_from_slice(&up.to_ne_bytes());
    control(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &mut request)
}

fn set_down(name: &str) -> io::Result<()> {
    let mut request = Request::new(name)?;
    control(socket()?.as_raw_fd(), libc::SIOCSIFFLAGS, &mut request)
}

/// Makes a bridge; one that is there is fine. Says whether it was made.
pub fn add_bridge(name: &str) -> io::Result<bool> {
    let mut request = Request::new(name)?;
    match control(socket()?.as_raw_fd(), ADD_BRIDGE, &mut request) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        made => made.map(|()| true),
    }
}

pub fn remove_bridge(name: &str) -> io::Result<()> {
    set_down(name)?;
    let mut request = Request::new(name)?;
    control(socket()?.as_raw_fd(), REMOVE_BRIDGE, &mut request)
}

pub fn join_bridge(bridge: &str, interface: &str) -> io::Result<()> {
    let socket = socket()?;
    let mut index = Request::new(interface)?;
    control(socket.as_raw_fd(), libc::SIOCGIFINDEX, &mut index)?;
    let mut request = Request::new(bridge)?;
    request.value[..4].copy_from_slice(&index.value[..4]);
    control(socket.as_raw_fd(), JOIN_BRIDGE, &mut request)
}

/// Makes an interface on a device that several share, which is a file besides.
pub fn add_shared(name: &str, device: &str, address: [u8; 6]) -> io::Result<()> {
    const BRIDGED: u32 = 4;
    let mode = attribute(1, &BRIDGED.to_ne_bytes());
    let info = [attribute(1, b"macvtap"), attribute(2, &mode)].concat();
    let attributes = [
        attribute(1, &address),
        attribute(3, &[name.as_bytes(), b"\0"].concat()),
        attribute(5, &index_of(device)?.to_ne_bytes()),
        attribute(18, &info),
    ];
    const CREATE_ALONE: u16 = 0x600;
    ask_for_link(16, CREATE_ALONE, 0, &attributes.concat())
}

pub fn remove_interface(name: &str) -> io::Result<()> {
    ask_for_link(17, 0, index_of(name)?, &[])
}

fn index_of(name: &str) -> io::Result<u32> {
    let mut request = Request::new(name)?;
    control(socket()?.as_raw_fd(), libc::SIOCGIFINDEX, &mut request)?;
    let [a, b, c, d, ..] = request.value;
    Ok(u32::from_ne_bytes([a, b, c, d]))
}

/// A part of a message to the kernel, whose length is a multiple of four.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
    let mut made = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
    made.resize(made.len().next_multiple_of(4), 0);
    made
}

/// Sends a message about an interface to the kernel, and waits for its answer.
fn ask_for_link(kind: u16, flags: u16, index: u32, attributes: &[u8]) -> io::Result<()> {
    const REQUEST_ANSWERED: u16 = 5;
    let family = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: the call takes numbers and answers with a descriptor that is ours, or -1.
    let made = unsafe { libc::socket(libc::AF_NETLINK, family, libc::NETLINK_ROUTE) };
    check(made)?;
    // SAFETY: it was just opened and nobody else has it.
    let mut kernel = unsafe { File::from_raw_fd(made) };
    let length = u32::try_from(32 + attributes.len()).unwrap_or(u32::MAX);
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend((flags | REQUEST_ANSWERED).to_ne_bytes());
    // The number of the message and of whom it is from, and no family or type.
    message.extend([0; 12]);
    message.extend(index.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(attributes);
    kernel.write_all(&message)?;
    let mut answer = [0; 4_096];
    let read = kernel.read(&mut answer)?;
    let said = answer.get(16..20).filter(|_| read >= 20).unwrap_or(&[0xff; 4]);
    match i32::from_ne_bytes([said[0], said[1], said[2], said[3]]) {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error.saturating_neg())),
    }
}

/// Makes a file that is the device of a number, as `12:3`.
pub fn make_node(path: &Path, number: &str) -> io::Result<()> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "not a number of a device");
    let (major, minor) = number.split_once(':').ok_or_else(wrong)?;
    let (Ok(major), Ok(minor)) = (major.parse(), minor.parse()) else { return Err(wrong()) };
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).map_err(|_| wrong())?;
    // SAFETY: the path ends with a zero, and lives until the call returns.
    check(unsafe { libc::mknod(path.as_ptr(), libc::S_IFCHR | 0o600, libc::makedev(major, minor)) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confinement;
    use crate::qemu::accelerator::Accelerator;

    #[test]
    fn a_tool_has_no_network_and_bounded_memory_and_time() {
        let mut command = Command::new("sh");
        let say = "ulimit -v; ulimit -t; wc -l < /proc/net/dev; id -u; \
            grep NoNewPrivs /proc/self/status";
        command.args(["-c", say]);
        let user = confinement::user("a tool", Accelerator::Software);
        let number = user.as_ref().map(|user| user.number.to_string());
        let limits = ToolLimits { user, memory_bytes: 1 << 30, processor_seconds: 7 };
        confine_tool(&mut command, limits);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines: Vec<&str> = said.lines().map(str::trim).collect();
        assert_eq!(lines[..2], ["1048576", "7"], "{said}");
        assert_eq!(lines[4], "NoNewPrivs:\t1", "{said}");
        if let Some(number) = number {
            // Two lines of a head, and the loopback of a namespace of its own.
            assert_eq!(lines[2..4], ["3", number.as_str()], "{said}");
        }
    }

    #[test]
    fn addresses_of_this_machine_are_known() {
        let all = own_addresses().unwrap();
        assert!(all.contains(&IpAddr::V4(Ipv4Addr::LOCALHOST)), "{all:?}");
    }
}
