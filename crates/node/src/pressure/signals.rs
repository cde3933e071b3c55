//! Signals of node pressure, as the kernel reports them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::machine;

/// Amount of a resource that is left, and its total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    pub available: u64,
    pub capacity: u64,
}

/// One reading. A signal that cannot be read is absent and never short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals {
    /// Bytes.
    pub memory: Option<Amount>,
    /// Bytes of the file system of the data directory.
    pub disk: Option<Amount>,
    pub inodes: Option<Amount>,
    pub pids: Option<Amount>,
}

/// Reads the signals of a node.
pub trait SignalSource: Send + Sync {
    fn read(&self) -> Signals;
}

/// Signals of the machine that this process runs on.
pub struct HostSignals {
    directory: PathBuf,
}

impl HostSignals {
    pub fn new(directory: &Path) -> HostSignals {
        HostSignals { directory: directory.to_owned() }
    }
}

impl SignalSource for HostSignals {
    fn read(&self) -> Signals {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Signals {
            memory: parse_memory(&text("/proc/meminfo")),
            disk: machine::disk_space(&self.directory),
            inodes: machine::inodes(&self.directory),
            pids: parse_pids(&text("/proc/loadavg"), &text("/proc/sys/kernel/pid_max")),
        }
    }
}

fn parse_memory(meminfo: &str) -> Option<Amount> {
    let bytes = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
        kibibytes.checked_mul(1024)
    };
    Some(Amount { available: bytes("MemAvailable:")?, capacity: bytes("MemTotal:")? })
}

/// The fourth field of `/proc/loadavg` is the number of running and of existing threads.
fn parse_pids(loadavg: &str, pid_max: &str) -> Option<Amount> {
    let (_, threads) = loadavg.split_whitespace().nth(3)?.split_once('/')?;
    let (threads, capacity): (u64, u64) = (threads.parse().ok()?, pid_max.trim().parse().ok()?);
    Some(Amount { available: capacity.saturating_sub(threads), capacity })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_kernel_are_read() {
        let text = "MemTotal:       2048 kB\nMemFree: 1 kB\nMemAvailable:   1024 kB\n";
        assert_eq!(parse_memory(text), Some(Amount { available: 1 << 20, capacity: 2 << 20 }));
        assert_eq!(parse_memory("MemTotal: 5 kB"), None);
        let pids = parse_pids("0.1 0.2 0.3 1/200 4711\n", "32768\n");
        assert_eq!(pids, Some(Amount { available: 32_568, capacity: 32_768 }));
        assert_eq!(parse_pids("", "32768"), None);
    }

    #[test]
    fn this_machine_has_all_signals() {
        let Signals { memory, disk, inodes: _, pids } = HostSignals::new(Path::new("/")).read();
        assert!(memory.is_some() && disk.is_some() && pids.is_some());
    }
}
