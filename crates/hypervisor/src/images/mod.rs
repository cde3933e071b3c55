//! Disks of machines: brought in from elsewhere, made, copied and grown.
//!
//! A disk is a file without a format; one that is linked to another holds what differs. What is
//! brought in is never trusted: its size and checksum are checked, what would read other files is
//! refused, and until all is well the disk does not exist under its name.

mod address;
mod copy;
mod fault;
mod fetch;
mod format;
mod import;
mod link;
mod open;
mod qcow2;
mod receive;
mod registry;
mod tool;

pub use address::Reach;
pub use copy::{blank, copy, grow};
pub use fault::Fault;
pub use import::{Import, Progress, Source, import};
pub use link::{check_link, link};
pub use open::{Access, Idle, open};

/// What a disk may be at the most: 64 TiB.
pub const DISK_BYTES_MAX: u64 = 64 << 40;
