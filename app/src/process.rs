//! What std cannot ask of the operating system: sessions, signals, when a process began.

use std::fs;
use std::io;

/// Leaves the terminal's session, so that its end is not ours.
#[expect(unsafe_code, reason = "std does not start sessions")]
pub fn begin_session() -> io::Result<()> {
    // SAFETY: takes nothing and changes only this process' session.
    match unsafe { libc::setsid() } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Returns the effective user of this process.
#[expect(unsafe_code, reason = "std does not tell the user of a process")]
pub fn user() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Asks a process to stop.
#[expect(unsafe_code, reason = "std signals only its own children, and only to kill")]
pub fn ask_to_stop(pid: u32) -> io::Result<()> {
    let pid = i32::try_from(pid).map_err(io::Error::other)?;
    // SAFETY: takes two numbers and touches no memory of ours.
    match unsafe { libc::kill(pid, libc::SIGTERM) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Ends a process, whatever it does.
#[expect(unsafe_code, reason = "std kills only its own children")]
pub fn kill(pid: u32) -> io::Result<()> {
    let pid = i32::try_from(pid).map_err(io::Error::other)?;
    // SAFETY: takes two numbers and touches no memory of ours.
    match unsafe { libc::kill(pid, libc::SIGKILL) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// When a process began, in clock ticks since the machine did; `None` when there is none or it has
/// ended. With the process' id it names one process for as long as the machine runs.
pub fn began(pid: u32) -> Option<u64> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_stat(stat: &str) -> Option<u64> {
    // The name is in parentheses and may hold spaces and parentheses of its own.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    // A zombie has ended; it only waits for its parent to notice.
    if matches!(state, "Z" | "X" | "x") {
        return None;
    }
    // The 22nd field of the line, counted as proc(5) does.
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_a_process_began_is_read_whatever_its_name() {
        let rest = "0 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4242 0 0";
        assert_eq!(parse_stat(&format!("7 (a) S) S {rest}")), Some(4242));
        assert_eq!(parse_stat(&format!("7 (a) Z {rest}")), None);
        assert_eq!(parse_stat("7 (a"), None);
    }

    #[test]
    fn this_process_began_and_an_impossible_one_did_not() {
        assert!(began(std::process::id()).is_some());
        assert_eq!(began(u32::MAX), None);
    }
}
