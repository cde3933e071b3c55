//! Free loopback ports that stay ours while a server is down.
//!
//! Ports come from below the range that the kernel uses for outgoing connections, so no client
//! takes one while its server restarts. A lock file per port keeps our other processes away.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::Error;
use crate::process;

const PORTS: Range<u32> = 20_000..32_000;

/// A port that no other process of ours is given while this value lives.
pub struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    pub fn reserve() -> Result<Port, Error> {
        static TAKEN: AtomicU32 = AtomicU32::new(0);
        let locks = std::env::temp_dir().join(format!("setpoint-ports-{}", process::user_id()));
        fs::create_dir_all(&locks)
            .map_err(Error::io(format!("create the directory {}", locks.display())))?;
        let tried = PORTS.end - PORTS.start;
        // Processes start far apart, so that they rarely try each other's ports.
        let first = std::process::id().wrapping_mul(97) % tried;
        for _ in 0..tried {
            let offset = TAKEN.fetch_add(1, Ordering::Relaxed);
            let number = PORTS.start + first.wrapping_add(offset) % tried;
            let number = u16::try_from(number).expect("PORTS must fit in 16 bits");
            if let Some(lock) = lock(&locks, number)?
                && TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok()
            {
                return Ok(Port { number, _lock: lock });
            }
        }
        Err(Error::NoFreePort { tried })
    }

    pub fn number(&self) -> u16 {
        self.number
    }
}

/// The lock of a port, unless another of us holds it.
fn lock(directory: &Path, number: u16) -> Result<Option<File>, Error> {
    let path = directory.join(number.to_string());
    let doing = || format!("lock the port file {}", path.display());
    let file = File::create(&path).map_err(Error::io(doing()))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(source)) => Err(Error::Io { doing: doing(), source }),
    }
}

/// The address of a loopback port.
pub fn loopback(port: u16) -> std::net::SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Whether an error of connecting or reading means only "not yet".
pub fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::ConnectionRefused
            | Kind::ConnectionReset
            | Kind::ConnectionAborted
            | Kind::BrokenPipe
            | Kind::UnexpectedEof
            | Kind::TimedOut
            | Kind::WouldBlock
            | Kind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_reservations_are_two_free_ports() {
        let one = Port::reserve().unwrap();
        let two = Port::reserve().unwrap();
        assert_ne!(one.number(), two.number());
        TcpListener::bind(loopback(one.number())).unwrap();
    }
}
