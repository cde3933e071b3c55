//! What a process has used, as the kernel tells it.

use std::fs;
use std::time::Duration;

/// Time on a processor, of all threads that live.
pub fn processor_time(pid: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let nanos = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

/// Memory that is in use, in MiB.
pub fn resident(pid: u32) -> f64 {
    mebibytes(pid, "VmRSS:")
}

/// The part of it that is the process's own, and not its program as the disk has it.
pub fn own(pid: u32) -> f64 {
    mebibytes(pid, "RssAnon:")
}

fn mebibytes(pid: u32, name: &str) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kibibytes.unwrap_or_default() / 1024.0
}
