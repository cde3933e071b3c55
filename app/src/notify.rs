//! Tells systemd how this program is, where systemd has asked to be told (`Type=notify`).
//!
//! Upstream: sd_notify(3). One datagram to the socket that NOTIFY_SOCKET names.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

const VARIABLE: &str = "NOTIFY_SOCKET";

pub const READY: &str = "READY=1";
pub const RELOADING: &str = "RELOADING=1";
pub const STOPPING: &str = "STOPPING=1";
/// What a watchdog wants to hear.
pub const ALIVE: &str = "WATCHDOG=1";

/// Says something, if somebody listens. Nothing depends on whether it is heard.
pub fn tell(what: &str) {
    let Some(name) = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()) else { return };
    if let Err(error) = send(&name, what) {
        tracing::warn!(%error, "systemd was not told");
    }
}

fn send(name: &OsStr, what: &str) -> io::Result<()> {
    // A name that begins with @ is one of the kernel's and not of a file.
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(what.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_heard_under_both_kinds_of_names() {
        let name = format!("setpoint-notify-{}", std::process::id());
        let path = std::env::temp_dir().join(&name);
        let hear = |socket: &UnixDatagram| {
            let mut bytes = [0; 64];
            let count = socket.recv(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes[..count]).into_owned()
        };
        let file = UnixDatagram::bind(&path).unwrap();
        send(path.as_os_str(), READY).unwrap();
        assert_eq!(hear(&file), READY);
        std::fs::remove_file(&path).unwrap();
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let hidden = UnixDatagram::bind_addr(&address).unwrap();
        send(OsStr::new(&format!("@{name}")), STOPPING).unwrap();
        assert_eq!(hear(&hidden), STOPPING);
    }
}
