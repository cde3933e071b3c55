//! What this machine is and has, as its Node object tells.

use std::ffi::CString;
use std::fs;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::image::Usage;
use crate::pressure::Amount;

/// Pods at once.
pub const PODS_MAX: u32 = 110;
/// The version of Kubernetes that this node speaks.
const KUBELET_VERSION: &str = "v1.36.4+setpoint";
/// An address outside, to see which of ours would reach it; nothing is sent.
const OUTSIDE: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);

/// The capability without which nobody lowers a score.
const SYS_RESOURCE: u32 = 24;
/// The lowest that the kernel knows.
pub const OOM_SCORE_MIN: i32 = -1000;

/// How low a score a container can be given here: who may not lower its own may not give a lower
/// one either.
pub fn oom_score_min() -> i32 {
    match may_lower_scores(&read("/proc/self/status")) {
        true => OOM_SCORE_MIN,
        false => read("/proc/self/oom_score_adj").parse().unwrap_or(0),
    }
}

fn may_lower_scores(status: &str) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = line.and_then(|held| u64::from_str_radix(held.trim(), 16).ok());
    held.is_some_and(|held| held & (1 << SYS_RESOURCE) != 0)
}

/// How much there is of each resource.
pub fn capacity(directory: &Path) -> Value {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut capacity = json!({
        "cpu": processors.to_string(),
        "memory": format!("{}Ki", memory_kibibytes()),
        "pods": PODS_MAX.to_string(),
    });
    for (name, pages) in huge_pages() {
        capacity[name] = json!(pages);
    }
    if let Some(bytes) = disk_bytes(directory) {
        capacity["ephemeral-storage"] = json!(format!("{}Ki", bytes / 1024));
    }
    capacity
}

/// How many processes and threads one pod may have, that others still find room.
pub fn processes_max() -> u64 {
    let all = read("/proc/sys/kernel/pid_max").parse().unwrap_or(u64::MAX);
    (all / 4).max(1)
}

pub fn labels(node: &str) -> Value {
    json!({
        "kubernetes.io/hostname": node,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": architecture(),
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": architecture(),
    })
}

/// `runtime` is the name and version, as `process://0.1.0`.
pub fn info(runtime: &str) -> Value {
    let machine = read("/etc/machine-id");
    let system = Some(read("/sys/class/dmi/id/product_uuid")).filter(|text| !text.is_empty());
    json!({
        "architecture": architecture(),
        "bootID": read("/proc/sys/kernel/random/boot_id"),
        "containerRuntimeVersion": runtime,
        "kernelVersion": read("/proc/sys/kernel/osrelease"),
        "kubeProxyVersion": "",
        "kubeletVersion": KUBELET_VERSION,
        "machineID": machine,
        "operatingSystem": "linux",
        "osImage": os_image(),
        "systemUUID": system.unwrap_or(machine),
    })
}

/// The address by which others reach this machine; loopback if none do.
pub fn address() -> IpAddr {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0));
    let local = socket.and_then(|socket| {
        socket.connect(OUTSIDE)?;
        socket.local_addr()
    });
    local.map_or(Ipv4Addr::LOCALHOST.into(), |local| local.ip())
}

/// As Kubernetes calls it.
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Memory in large pages, by the size of a page.
fn huge_pages() -> Vec<(String, String)> {
    let sizes = [("hugepages-2Mi", 2_048_u64), ("hugepages-1Gi", 1_048_576)];
    let of_size = |(name, kibibytes): (&str, u64)| {
        let file = format!("/sys/kernel/mm/hugepages/hugepages-{kibibytes}kB/nr_hugepages");
        let count: u64 = fs::read_to_string(file).ok()?.trim().parse().ok()?;
        // As the server writes it: nothing has no unit.
        let amount = match count * kibibytes {
            0 => "0".to_owned(),
            kibibytes => format!("{}Mi", kibibytes >> 10),
        };
        Some((name.to_owned(), amount))
    };
    sizes.into_iter().filter_map(of_size).collect()
}

/// How much memory there is.
pub fn memory_kibibytes() -> u64 {
    let text = read("/proc/meminfo");
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.unwrap_or(0)
}

fn os_image() -> String {
    let text = read("/etc/os-release");
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.unwrap_or("Linux").trim_matches('"').to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// How large the file system of a directory is.
fn disk_bytes(directory: &Path) -> Option<u64> {
    let told = file_system(directory)?;
    told.f_blocks.checked_mul(told.f_frsize)
}

/// How much of the file system of a directory is used.
pub fn usage(directory: &Path) -> Option<Usage> {
    let (capacity, free) = (disk_bytes(directory)?, free_bytes(directory)?);
    Some(Usage { used: capacity.saturating_sub(free), capacity })
}

/// How much of the file system of a directory can still be used.
pub fn free_bytes(directory: &Path) -> Option<u64> {
    let told = file_system(directory)?;
    told.f_bavail.checked_mul(told.f_frsize)
}

/// Returns the bytes of the file system of a directory.
pub fn disk_space(directory: &Path) -> Option<Amount> {
    Some(Amount { available: free_bytes(directory)?, capacity: disk_bytes(directory)? })
}

/// Returns the inodes of the file system of a directory, if it has a fixed number.
pub fn inodes(directory: &Path) -> Option<Amount> {
    let found = file_system(directory).filter(|found| found.f_files > 0)?;
    Some(Amount { available: found.f_favail, capacity: found.f_files })
}

#[expect(unsafe_code, reason = "std does not tell how large a file system is")]
fn file_system(directory: &Path) -> Option<libc::statvfs> {
    let path = CString::new(directory.as_os_str().as_bytes()).ok()?;
    let mut told = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends with a zero, and the call fills the structure when it answers 0.
    unsafe {
        if libc::statvfs(path.as_ptr(), told.as_mut_ptr()) != 0 {
            return None;
        }
        Some(told.assume_init())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_lower_scores_has_the_capability() {
        assert!(may_lower_scores("CapEff:\t0000000001000000\n"));
        assert!(!may_lower_scores("CapEff:\t0000000000ffffff\n"));
    }
}
