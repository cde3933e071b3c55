//! What the process of a machine may do to this machine, should its guest come to command it: it
//! has a user of its own, that owns nothing, and a group that bounds what it uses. What it needs
//! besides its own directory it is given as open descriptors.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use crate::machine::Machine;
use crate::qemu::accelerator::Accelerator;
use crate::qemu::arguments::fingerprint;

/// Users of machines: where neither people, services nor containers have theirs.
pub const USERS_FROM: u32 = 0x7000_0000;
pub const USERS: u32 = 1 << 24;
const KVM: &str = "/dev/kvm";
/// Of the capabilities of Linux: to own files for others, to read theirs, and to become them.
const NEEDED: [u32; 4] = [0, 1, 6, 7];

const MIB: u64 = 1 << 20;
/// What QEMU needs beside the memory of its guest: for itself, its threads, and its screen.
const OVERHEAD_BYTES: u64 = (50 + 8 + 32) * MIB;
const OVERHEAD_PROCESSOR_BYTES: u64 = 8 * MIB;
/// Tables of pages: a part of the memory.
const PAGES_PART: u64 = 512;
/// Where processors are played by a program, what it keeps of instructions that it has read.
pub const TRANSLATED_MIB: u64 = 256;

/// Makes the groups that bound what machines use. A machine runs without where there is none.
pub trait Groups: Send + Sync {
    /// Makes the group of a machine. A process that writes into all of these joins it.
    fn make(&self, id: &str, limits: &Limits) -> io::Result<Vec<File>>;

    /// Takes the group of a machine away that does not run.
    fn remove(&self, id: &str);
}

/// What a machine may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub memory_bytes: u64,
    pub processors: u32,
}

impl Limits {
    /// The memory of the guest, and what running it takes.
    pub fn of(machine: &Machine, accelerator: Accelerator) -> Limits {
        let processors = u64::from(machine.processors) * OVERHEAD_PROCESSOR_BYTES;
        let pages = machine.memory_bytes / PAGES_PART;
        let translated = match accelerator {
            Accelerator::Software => TRANSLATED_MIB * MIB,
            Accelerator::Hardware | Accelerator::HardwareReduced => 0,
        };
        let memory_bytes = machine.memory_bytes + pages + processors + OVERHEAD_BYTES + translated;
        Limits { memory_bytes, processors: machine.processors }
    }
}

/// Who a process becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The number of its user and of its group.
    pub number: u32,
    /// The group that may use the processors of this machine for guests.
    pub groups: Vec<u32>,
}

/// The user of a machine, where processes can be given one. The same each time.
pub fn user(id: &str, accelerator: Accelerator) -> Option<User> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    if !may_become_others(&status) || !is_mapped(&map) {
        return None;
    }
    let groups = match accelerator {
        Accelerator::Software => Vec::new(),
        Accelerator::Hardware | Accelerator::HardwareReduced => reaches_hardware()?,
    };
    let number = u32::try_from(fingerprint(id) % u64::from(USERS)).unwrap_or(0);
    Some(User { number: USERS_FROM + number, groups })
}

fn may_become_others(status: &str) -> bool {
    let held = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = held.and_then(|held| u64::from_str_radix(held.trim(), 16).ok()).unwrap_or(0);
    NEEDED.iter().all(|one| held & (1 << one) != 0)
}

/// Whether the numbers of our users mean something here: in a namespace they may not.
fn is_mapped(map: &str) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map(|word| word.parse::<u64>().unwrap_or(0));
        let (from, _, count) = (numbers.next(), numbers.next(), numbers.next());
        let (from, count) = (from.unwrap_or(0), count.unwrap_or(0));
        from <= u64::from(USERS_FROM) && from + count >= u64::from(USERS_FROM + USERS)
    })
}

/// The groups that a user needs to be let in by the hardware; `None` if only its owner is.
fn reaches_hardware() -> Option<Vec<u32>> {
    let found = fs::metadata(KVM).ok()?;
    let mode = found.permissions().mode();
    match (mode & 0o006 == 0o006, mode & 0o060 == 0o060) {
        (true, _) => Some(Vec::new()),
        (false, true) if found.gid() != 0 => Some(vec![found.gid()]),
        _ => None,
    }
}

/// Gives a directory to a user, for nobody else.
pub fn give(directory: &Path, user: &User) -> io::Result<()> {
    chown(directory, Some(user.number), Some(user.number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_taken_where_it_can_be() {
        assert!(is_mapped("         0          0 4294967295\n"));
        assert!(!is_mapped("         0       1000          1\n"));
        assert!(!is_mapped(""));
        assert!(may_become_others("Name:\tx\nCapEff:\t000001ffffffffff\n"));
        assert!(!may_become_others("CapEff:\t0000000000000000\n"));
        assert!(!may_become_others(""));
    }

    #[test]
    fn users_of_machines_differ_and_stay() {
        let (Some(one), Some(two)) =
            (user("one", Accelerator::Software), user("two", Accelerator::Software))
        else {
            return;
        };
        assert_ne!(one, two);
        assert_eq!(user("one", Accelerator::Software), Some(one));
    }
}
