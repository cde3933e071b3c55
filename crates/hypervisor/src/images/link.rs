//! Disks that hold only what differs from another: qcow2 without anything in it. What it is the
//! difference to, the file does not say: whoever could write the file would choose what is read.
//!
//! Upstream: qemu, docs/interop/qcow2.txt

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::DISK_BYTES_MAX;
use super::copy::{beside, create, finish};
use super::fault::Fault;

const MAGIC: u32 = 0x5146_49fb;
const VERSION: u32 = 3;
const HEADER_BYTES: u32 = 104;
const CLUSTER_BITS: u32 = 16;
const CLUSTER: u64 = 1 << CLUSTER_BITS;
/// What one table of the second level tells of.
const TABLE: u64 = CLUSTER * (CLUSTER / 8);
/// Where the table of counts is, a block of them, and the table of the first level.
const COUNTS_AT: u64 = CLUSTER;
const BLOCK_AT: u64 = 2 * CLUSTER;
const FIRST_AT: u64 = 3 * CLUSTER;
/// Features that the file may have: that somebody has it open.
const HARMLESS: u64 = 1;

/// An empty difference to a disk, as long as is asked. What is there is replaced.
pub fn link(disk: &Path, bytes: u64) -> Result<(), Fault> {
    if bytes > DISK_BYTES_MAX {
        return Err(Fault::TooLarge { image: bytes, available: DISK_BYTES_MAX });
    }
    let doing = || Fault::io(format!("make {}", disk.display()));
    let part = beside(disk, "part");
    let file = create(&part)?;
    let entries = bytes.div_ceil(TABLE).max(1);
    let clusters = FIRST_AT / CLUSTER + (entries * 8).div_ceil(CLUSTER);
    file.write_all_at(&header(bytes, entries), 0).map_err(doing())?;
    file.write_all_at(&BLOCK_AT.to_be_bytes(), COUNTS_AT).map_err(doing())?;
    // Each cluster of the file is used once, and counted in two bytes.
    let counts: Vec<u8> = (0..clusters).flat_map(|_| 1_u16.to_be_bytes()).collect();
    file.write_all_at(&counts, BLOCK_AT).map_err(doing())?;
    finish(&file, &part, disk, clusters * CLUSTER)
}

fn header(bytes: u64, entries: u64) -> Vec<u8> {
    let entries = u32::try_from(entries).unwrap_or(u32::MAX);
    let mut header = Vec::new();
    let mut put = |bytes: &[u8]| header.extend_from_slice(bytes);
    put(&MAGIC.to_be_bytes());
    put(&VERSION.to_be_bytes());
    // Of what it is the difference to, nothing.
    put(&[0; 12]);
    put(&CLUSTER_BITS.to_be_bytes());
    put(&bytes.to_be_bytes());
    // Nothing is encrypted.
    put(&[0; 4]);
    put(&entries.to_be_bytes());
    put(&FIRST_AT.to_be_bytes());
    put(&COUNTS_AT.to_be_bytes());
    put(&1_u32.to_be_bytes());
    // No snapshots, and no features.
    put(&[0; 12]);
    put(&[0; 24]);
    // Counts have two bytes each.
    put(&4_u32.to_be_bytes());
    put(&HEADER_BYTES.to_be_bytes());
    header
}

/// Whether a file is a difference that reads nothing but itself and what it is told.
pub fn check_link(file: &File) -> io::Result<()> {
    let mut head = [0; HEADER_BYTES as usize];
    file.read_exact_at(&mut head, 0)?;
    let number = |at: usize, length: usize| {
        head[at..at + length].iter().fold(0_u64, |value, byte| value << 8 | u64::from(*byte))
    };
    let is_ours = number(0, 4) == u64::from(MAGIC) && number(4, 4) == u64::from(VERSION);
    // A base of its own, a key, or features such as data that is elsewhere.
    let is_plain = number(8, 8) == 0 && number(32, 4) == 0 && number(72, 8) & !HARMLESS == 0;
    match is_ours && is_plain {
        true => Ok(()),
        false => {
            let why = "it is not what a linked clone holds";
            Err(io::Error::new(io::ErrorKind::InvalidData, why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_says_nothing_of_its_base_and_another_is_refused() {
        let place = std::env::temp_dir().join(format!("hypervisor-link-{}", std::process::id()));
        std::fs::create_dir_all(&place).unwrap();
        let disk = place.join("disk.qcow2");
        link(&disk, 65 << 40).unwrap_err();
        link(&disk, 2 << 30).unwrap();
        assert_eq!(std::fs::metadata(&disk).unwrap().len(), 4 * CLUSTER);
        let file = File::options().read(true).write(true).open(&disk).unwrap();
        check_link(&file).unwrap();
        for (at, bytes) in [(8, [0, 0, 0, 0, 0, 0, 1, 0]), (72, [0, 0, 0, 0, 0, 0, 0, 4])] {
            let mut before = [0; 8];
            file.read_exact_at(&mut before, at).unwrap();
            file.write_all_at(&bytes, at).unwrap();
            let said = check_link(&file).unwrap_err().to_string();
            assert_eq!(said, "it is not what a linked clone holds");
            file.write_all_at(&before, at).unwrap();
        }
        check_link(&file).unwrap();
        std::fs::remove_dir_all(place).unwrap();
    }
}
