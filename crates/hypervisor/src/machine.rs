//! What a machine is made of, and what becomes of it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::seed::Seed;

/// Disks and interfaces that one machine may have.
pub const DISKS_MAX: usize = 16;
pub const INTERFACES_MAX: usize = 8;
/// Of a disk or an interface.
const NAME_LENGTH_MAX: usize = 63;

/// Whether a text can name a disk or an interface. Names become parts of paths, and of what QEMU is
/// told: what ends a value there, or leads elsewhere, is not in them.
pub fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    !text.is_empty() && text.len() <= NAME_LENGTH_MAX && text.bytes().all(is_plain)
}

/// A machine, as it is started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// A name of a file that no other machine has.
    pub id: String,
    /// For people, and for lists of processes.
    pub name: String,
    /// As the guest sees it; the same each time it starts.
    pub uuid: String,
    pub processors: u32,
    /// What it may get while it runs; not fewer than it starts with.
    #[serde(default)]
    pub processors_max: u32,
    pub memory_bytes: u64,
    pub disks: Vec<Disk>,
    /// Cloud-init data of the guest. Only its presence is written to disk.
    pub seed: Option<Seed>,
    pub interfaces: Vec<Interface>,
    pub has_screen: bool,
    pub has_serial: bool,
    /// Nothing is executed before it is resumed.
    pub starts_paused: bool,
    /// A file of memory that was kept, as which it goes on where it was instead of booting. It is
    /// gone before the guest runs: with what the guest writes then, it would fit no more.
    #[serde(default)]
    pub goes_on_from: Option<PathBuf>,
}

/// A disk: a file without a format, or one that holds what differs from another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    pub name: String,
    pub file: PathBuf,
    /// What the file holds the differences to (`images::link`), which nobody may write.
    #[serde(default)]
    pub base: Option<PathBuf>,
    /// The lowest is booted from first.
    pub boot_order: Option<u32>,
    pub is_read_only: bool,
    pub media: Media,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Media {
    Disk,
    Cdrom,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    pub name: String,
    /// `02:…`, in hexadecimal.
    pub hardware_address: String,
    pub network: Network,
}

/// What an interface is connected to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Network {
    /// A network of the guest's own, from which it reaches what this machine reaches.
    Own,
    /// A bridge of this machine, made if there is none.
    Bridge(String),
    /// A device of this machine, which it shares with others: each has an address of its own there.
    Device(String),
}

/// What a machine does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It never ran, or is forgotten.
    Absent,
    Running,
    Paused(Pause),
    /// It does not run any more, or will not.
    Ended(End),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    Asked,
    /// A disk could not be read or written.
    Failing,
}

/// How a machine ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// The guest switched itself off.
    Shutdown,
    /// It was killed at once, as asked.
    Killed,
    /// It did not end within its grace, and was killed.
    GraceExceeded,
    /// The guest gave up.
    Panicked,
    /// What ran it ended by itself.
    Crashed(String),
}

impl End {
    /// Whether that is as it should be.
    pub fn is_success(&self) -> bool {
        matches!(self, End::Shutdown | End::Killed)
    }
}

/// What a guest says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guest {
    /// Of what says it.
    pub agent_version: String,
    pub host_name: String,
    pub system: GuestSystem,
    pub interfaces: Vec<GuestInterface>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuestSystem {
    pub id: String,
    pub name: String,
    pub pretty_name: String,
    pub version: String,
    pub version_id: String,
    pub kernel_release: String,
    pub kernel_version: String,
    pub machine: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuestInterface {
    pub name: String,
    pub hardware_address: String,
    pub addresses: Vec<IpAddr>,
    /// Since it was set up.
    pub received_bytes: u64,
    pub sent_bytes: u64,
}

/// A port of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port {
    pub protocol: Protocol,
    pub number: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    Tcp,
    Udp,
}

/// Ports of a guest that were to be open on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Which port of this machine each is.
    pub at: BTreeMap<Port, u16>,
    /// Why others are not.
    pub refused: BTreeMap<Port, String>,
}

/// What a machine uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub processor_milliseconds: u64,
    pub memory_bytes: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Received and sent over all interfaces, as the guest last said; one without an agent does
    /// not say.
    pub network_bytes: Option<(u64, u64)>,
    pub pid: u32,
}
