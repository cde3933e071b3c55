//! Runs virtual machines on this machine, and makes the disks that they boot from.
//!
//! A [`Hypervisor`] runs them: `qemu` really, `simulated` for trials. `images` brings disks in from
//! elsewhere, checked, and makes, copies and grows them. `seed` writes what a guest is told when it
//! first starts.
//!
//! This crate knows nothing of Kubernetes, and nothing of who may do what: whoever calls it does.

pub mod bridge;
pub mod confinement;
mod device;
pub mod error;
pub mod images;
pub mod machine;
pub mod qemu;
pub mod seed;
pub mod simulated;
mod system;

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};

pub use error::Error;
pub use machine::{
    Disk, End, Figures, Guest, GuestInterface, GuestSystem, Interface, Machine, Media, Network,
    Opened, Pause, Port, Protocol, State, is_name,
};

/// Both directions of a connection to a machine.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// Told of machines to which something happened, by their id.
pub type Listener = Arc<dyn Fn(&str) + Send + Sync>;

/// What runs virtual machines.
///
/// # Guarantees
/// - At most one guest of an id exists at any instant, whoever asks, also after a crash of this
///   process.
/// - Guests outlive this process; the next one finds them under the same ids.
/// - `launch` of a machine that runs is refused and changes nothing; the rest may be repeated.
///
/// # Assumptions
/// - Ids are names of files.
/// - Nobody else writes below the directory of the hypervisor.
#[async_trait]
pub trait Hypervisor: Send + Sync {
    /// The ids of all machines that it knows of, whether they run or have ended.
    fn ids(&self) -> Vec<String>;

    /// Starts a machine. Returns when its processors run, or when they would if it were not to
    /// start paused.
    async fn launch(&self, machine: &Machine) -> Result<(), Error>;

    async fn state(&self, id: &str) -> State;

    /// Presses the power button once. A guest that sleeps is woken first, and one that boots does
    /// not notice.
    async fn press(&self, id: &str) -> Result<(), Error>;

    /// Presses the power button until the guest is off or the grace is over, and then pulls the
    /// plug. Without grace the plug is pulled at once.
    async fn stop(&self, id: &str, grace: Duration) -> Result<End, Error>;

    /// Forgets a machine that does not run.
    async fn remove(&self, id: &str) -> Result<(), Error>;

    async fn reset(&self, id: &str) -> Result<(), Error>;

    async fn pause(&self, id: &str) -> Result<(), Error>;

    async fn resume(&self, id: &str) -> Result<(), Error>;

    /// Adds a disk to a machine that runs.
    async fn attach(&self, id: &str, disk: &Disk) -> Result<(), Error>;

    /// Takes a disk away from a machine that runs.
    async fn detach(&self, id: &str, disk: &str) -> Result<(), Error>;

    /// Adds an interface on a bridge to a machine that runs.
    async fn attach_interface(&self, id: &str, interface: &Interface) -> Result<(), Error>;

    /// Takes an interface away from a machine that runs.
    async fn detach_interface(&self, id: &str, interface: &str) -> Result<(), Error>;

    /// The names of the interfaces that a machine that runs has.
    async fn interfaces(&self, id: &str) -> Result<Vec<String>, Error>;

    /// Gives a machine that runs more processors, up to what it may have. It never gets fewer.
    async fn add_processors(&self, id: &str, count: u32) -> Result<(), Error>;

    /// Lets the guest see that the file of a disk has grown.
    async fn resize(&self, id: &str, disk: &str, bytes: u64) -> Result<(), Error>;

    /// How long the guest of a machine that runs sees a disk.
    async fn disk_bytes(&self, id: &str, disk: &str) -> Result<u64, Error>;

    /// Copies the disks of a machine that runs, all as they are at one instant, into files that do
    /// not exist yet; and its memory as it is then, if there is a file for it.
    async fn copy(&self, id: &str, disks: &[Copied], memory: Option<&Path>)
    -> Result<Quiet, Error>;

    /// The serial console. Who had it before loses it.
    async fn serial(&self, id: &str) -> Result<Box<dyn Connection>, Error>;

    /// The screen, keyboard and pointer, in the protocol of VNC.
    async fn screen(&self, id: &str, others: Others) -> Result<Box<dyn Connection>, Error>;

    /// A connection to a port of the guest.
    async fn dial(&self, id: &str, port: u16) -> Result<Box<dyn Connection>, Error>;

    /// Opens ports of the guest of a machine that runs at an address of this machine, for whoever
    /// reaches that. One that is open there already stays as it is.
    async fn open_ports(
        &self,
        id: &str,
        at: Ipv4Addr,
        ports: &BTreeSet<Port>,
    ) -> Result<Opened, Error>;

    /// Closes all ports of the guest that were opened, but for these at this address. Connections
    /// that are there go on.
    async fn close_other_ports(
        &self,
        id: &str,
        at: Ipv4Addr,
        ports: &BTreeSet<Port>,
    ) -> Result<(), Error>;

    async fn figures(&self, id: &str) -> Result<Figures, Error>;

    /// What the guest says of itself, if there is an agent in it. It may be some seconds old. Fails
    /// where the agent does not answer: it may later.
    async fn guest(&self, id: &str) -> Result<Option<Guest>, Error>;

    /// How machines are run: for people, and whether in software alone.
    async fn kind(&self) -> Kind;

    /// Says who is told that something happened to a machine; only the first counts.
    fn listen(&self, listener: Listener);
}

/// A copy of a disk that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    pub disk: String,
    pub to: std::path::PathBuf,
}

/// What becomes of those who look at a screen when another does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// They lose it.
    Leave,
    /// All see and do the same.
    Stay,
}

/// Whether a guest knew that its disks were being copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quiet {
    /// It held its file systems still.
    Frozen,
    /// There was nobody in it to be asked.
    Unasked,
    /// Its memory was copied as well: it need not know.
    Kept,
}

/// How machines are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By the processors of this machine.
    Hardware,
    /// By a program that plays the processors: slowly.
    Software,
    /// Not at all.
    Simulated,
}
