//! Programs that read images of users (`qemu-img`, `xz`): how they are confined, and how long they
//! may run.

use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::fault::Fault;
use crate::confinement::{self, User};
use crate::qemu::accelerator::Accelerator;
use crate::system::{self, ToolLimits};

/// Address space of a program. Its threads reserve much of it and use little.
const MEMORY_BYTES_MAX: u64 = 2 << 30;
/// Time of a program for an image of no size, and bytes that it must convert in a second.
const SECONDS: u64 = 600;
const BYTES_PER_SECOND: u64 = 8 << 20;

/// Returns the user of programs that make a disk, where processes can be given one.
pub fn user(disk: &Path) -> Option<User> {
    confinement::user(&format!("image of {}", disk.display()), Accelerator::Software)
}

/// Confines a program that makes a disk of this length.
pub fn confine(command: &mut Command, user: Option<User>, bytes: u64) {
    // Arenas of the allocator would use up the address space.
    command.env("MALLOC_ARENA_MAX", "1");
    let limits =
        ToolLimits { user, memory_bytes: MEMORY_BYTES_MAX, processor_seconds: seconds_max(bytes) };
    system::confine_tool(command, limits);
}

fn seconds_max(bytes: u64) -> u64 {
    SECONDS + bytes / BYTES_PER_SECOND
}

/// The failure of a program that took too long.
pub fn late(program: &str, bytes: u64) -> Fault {
    Fault::Broken(format!("{program} took longer than {} seconds", seconds_max(bytes)))
}

/// Kills a program that runs for too long.
pub struct Deadline {
    done: Sender<()>,
    watch: Option<JoinHandle<bool>>,
}

impl Deadline {
    pub fn start(child: &Child, bytes: u64) -> Deadline {
        Deadline::after(child, Duration::from_secs(seconds_max(bytes)))
    }

    fn after(child: &Child, limit: Duration) -> Deadline {
        let pid = child.id();
        let process = system::began(pid).and_then(|began| system::open_process(pid, began));
        let (done, ended) = channel::<()>();
        let watch = std::thread::spawn(move || {
            let is_late = ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
            if let Some(process) = process.filter(|_| is_late) {
                let _ = system::kill(&process);
            }
            is_late
        });
        Deadline { done, watch: Some(watch) }
    }

    /// Ends the watch, and returns whether the program was killed.
    pub fn stop(mut self) -> bool {
        let _ = self.done.send(());
        self.watch.take().is_some_and(|watch| watch.join().unwrap_or(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_takes_too_long_is_killed() {
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let deadline = Deadline::after(&child, Duration::from_millis(10));
        assert!(!child.wait().unwrap().success());
        assert!(deadline.stop());
        let mut child = Command::new("true").spawn().unwrap();
        let deadline = Deadline::start(&child, 0);
        assert!(child.wait().unwrap().success());
        assert!(!deadline.stop());
    }
}
