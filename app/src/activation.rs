//! A listener that systemd made before it started this program (socket activation): clients connect
//! while the program starts or starts again, and are answered when it is there.
//!
//! Upstream: sd_listen_fds(3).

use std::env;
use std::net::TcpListener;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};

/// The first of what is passed on.
const FIRST: RawFd = 3;

static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The listener that was passed on, if one was. Only the first who asks gets it.
pub fn take() -> Result<Option<TcpListener>> {
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    // What was for a process that started us is none of ours.
    if number("LISTEN_PID") != Some(process::id()) {
        return Ok(None);
    }
    match number("LISTEN_FDS") {
        None | Some(0) => return Ok(None),
        Some(1) => {}
        Some(more) => bail!("systemd passed on {more} sockets; name one in setpoint.socket"),
    }
    if IS_TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(None);
    }
    let using = "could not use the socket that systemd passed on";
    // The copy is closed in programs that this one starts; what was passed on would not be.
    let listener = TcpListener::from(passed_on().try_clone().context(using)?);
    listener.local_addr().context("systemd passed on a socket that is none of TCP")?;
    listener.set_nonblocking(true).context(using)?;
    Ok(Some(listener))
}

#[expect(unsafe_code, reason = "descriptors are passed on by their numbers")]
fn passed_on() -> OwnedFd {
    // SAFETY: LISTEN_PID and LISTEN_FDS say that it is open and for this process, and `IS_TAKEN`
    // that nobody else has taken it.
    unsafe { OwnedFd::from_raw_fd(FIRST) }
}
