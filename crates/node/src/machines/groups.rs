//! The control groups of virtual machines: `NAME/machines/<id>`, with the memory that running a
//! machine takes as its limit, and a share of the processors as large as what its guest sees of
//! them.

use std::fs::File;
use std::io;
use std::path::Path;

use hypervisor::confinement::Limits;

use crate::confinement::Share;
use crate::runtimes::process::cgroups::Cgroups;

const PARENT: &str = "machines";
/// Threads of one machine.
const THREADS_MAX: u64 = 4_096;
const SHARES_PER_PROCESSOR: u64 = 1_024;

pub struct Groups(Cgroups);

impl Groups {
    /// Finds where groups can be made for the machines of a directory.
    pub fn open(directory: &Path) -> Groups {
        Groups(Cgroups::open(directory))
    }
}

impl hypervisor::confinement::Groups for Groups {
    fn make(&self, id: &str, limits: &Limits) -> io::Result<Vec<File>> {
        let group = self.0.named(&Path::new(PARENT).join(id));
        let share = Share {
            cpu_shares: Some(u64::from(limits.processors) * SHARES_PER_PROCESSOR),
            cpu_quota: None,
            memory_bytes: Some(limits.memory_bytes),
        };
        group.make_alone(&share, THREADS_MAX)?;
        group.doors()
    }

    fn remove(&self, id: &str) {
        self.0.named(&Path::new(PARENT).join(id)).remove();
    }
}
