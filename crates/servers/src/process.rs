//! Every call of this crate that Rust cannot check, each in a function as small as it can be.
//!
//! Nothing else belongs here: no policy, no waiting.

use std::ffi::CString;
use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc;
use std::thread;

use libc::{c_int, pollfd};

/// A command to start, and where to send what came of it.
type Order = (Command, mpsc::Sender<io::Result<Child>>);

/// Starts a command that is killed when this process ends, however it ends.
///
/// The kernel binds that rule to the *thread* that started the child, and a test's thread ends
/// long before its process. So one thread, which never ends, starts them all.
pub fn spawn(mut command: Command) -> io::Result<Child> {
    static KEEPER: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    die_with_parent(&mut command);
    let keeper = KEEPER.get_or_init(|| {
        let (orders, inbox) = mpsc::channel::<Order>();
        thread::spawn(move || {
            for (mut command, answer) in inbox {
                // The asker waits for the answer, so it is there to take it.
                answer.send(command.spawn()).ok();
            }
        });
        orders
    });
    let (answer, result) = mpsc::channel();
    keeper.send((command, answer)).expect("the keeper must outlive every asker");
    result.recv().expect("the keeper must answer every order")
}

#[expect(unsafe_code, reason = "pre_exec is the only way to set the child's death signal")]
fn die_with_parent(command: &mut Command) {
    let parent = std::process::id();
    let before_exec = move || {
        // SAFETY: prctl and getppid are async-signal-safe and touch no memory of ours.
        let (result, current) =
            unsafe { (libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL), libc::getppid()) };
        check(result)?;
        // The parent may have died before the rule was set; then nobody would end this child.
        match u32::try_from(current) == Ok(parent) {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(libc::ESRCH)),
        }
    };
    // SAFETY: the closure makes only the calls above and allocates nothing.
    unsafe { command.pre_exec(before_exec) };
}

/// Asks a child to stop. The child must not have been waited for: its id may be another's then.
#[expect(unsafe_code, reason = "std can only kill, not ask")]
pub fn terminate(child: &Child) -> io::Result<()> {
    let id = c_int::try_from(child.id()).map_err(io::Error::other)?;
    // SAFETY: plain system call without memory arguments.
    check(unsafe { libc::kill(id, libc::SIGTERM) })
}

/// Kills a process of a server of ours.
#[expect(unsafe_code, reason = "std kills only its own children")]
pub fn kill(id: u32) {
    if let Ok(id) = c_int::try_from(id) {
        // SAFETY: plain system call without memory arguments.
        unsafe { libc::kill(id, libc::SIGKILL) };
    }
}

/// Takes a mount away, even if something still has it open.
#[expect(unsafe_code, reason = "std does not know mounts")]
pub fn unmount(place: &Path) {
    if let Ok(place) = CString::new(place.as_os_str().as_bytes()) {
        // SAFETY: the text ends with a zero and lives through the call.
        unsafe { libc::umount2(place.as_ptr(), libc::MNT_DETACH) };
    }
}

/// The user that this process acts as; 0 is root.
#[expect(unsafe_code, reason = "std does not tell the user id")]
pub fn user_id() -> u32 {
    // SAFETY: geteuid cannot fail and has no arguments.
    unsafe { libc::geteuid() }
}

/// Makes closing the stream reset the connection instead of ending it politely.
#[expect(unsafe_code, reason = "std's own call for it is not stable")]
pub fn reset_on_close(stream: &TcpStream) -> io::Result<()> {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let size = size_of::<libc::linger>() as libc::socklen_t;
    // SAFETY: the pointer and the size describe `linger`, which lives through the call.
    check(unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size,
        )
    })
}

/// Waits until one of the descriptors is ready for what it asks.
#[expect(unsafe_code, reason = "std has no way to wait for several descriptors")]
pub fn poll(descriptors: &mut [pollfd]) -> io::Result<()> {
    let count = descriptors.len() as libc::nfds_t;
    // SAFETY: the pointer and the count describe the slice, which lives through the call.
    match check(unsafe { libc::poll(descriptors.as_mut_ptr(), count, -1) }) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        result => result,
    }
}

fn check(result: c_int) -> io::Result<()> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
