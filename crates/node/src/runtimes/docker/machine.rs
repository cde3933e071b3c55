//! What this machine allows, as far as engines do not find it out by themselves.

use std::fs;
use std::path::Path;

use super::create::Engine;

/// Limits that are larger than anybody needs.
const FILES_MAX: u64 = 1 << 20;
const PROCESSES_MAX: u64 = 1 << 22;

pub fn engine(directory: &Path, is_podman: bool) -> Engine {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let limits = read("/proc/self/limits");
    let place = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let machine = read("/etc/machine-id");
    // Podman lowers its own limit to that, and may then give no more.
    let pids = read("/proc/sys/kernel/pid_max").trim().parse().unwrap_or(PROCESSES_MAX);
    Engine {
        cluster: reconcile::names::digest(&[machine.trim(), &place.to_string_lossy()]),
        is_podman,
        oom_score_min: crate::machine::oom_score_min(),
        files_max: hard(&limits, "Max open files").min(FILES_MAX),
        processes_max: hard(&limits, "Max processes").min(pids),
    }
}

/// The hard limit of a line of `/proc/self/limits`.
fn hard(limits: &str, name: &str) -> u64 {
    let line = limits.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.and_then(|number| number.parse().ok()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        let text = "Limit       Soft Limit  Hard Limit  Units\n\
                    Max processes             100  unlimited  processes\n\
                    Max open files            1024 20000      files\n";
        assert_eq!(hard(text, "Max open files"), 20_000);
        assert_eq!(hard(text, "Max processes"), u64::MAX);
    }
}
