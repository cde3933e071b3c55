//! Probes whether this host can run guests with KVM, by running one.
//!
//! The existence of `/dev/kvm` says little: inside another virtual machine it may refuse what QEMU
//! requests, or emulate real mode one instruction at a time, so slowly that no guest ever boots.
//! The test guest is a few instructions that count and then exit. The result is kept until the next
//! boot of the host, so that the probe runs once.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::confinement::TRANSLATED_MIB;
use crate::system;

const KVM: &str = "/dev/kvm";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// File of the result.
const RECORD: &str = "accelerator.json";
/// How long the guest may count. Hardware takes hundredths of a second.
const COUNT_MAX: Duration = Duration::from_secs(2);
/// QEMU's exit code for what the guest writes to the port.
const COUNTED: i32 = 33;
const ROM_BYTES: usize = 65_536;
/// Where a processor begins.
const RESET: usize = 0xfff0;
const COUNTING: usize = 0xff00;

/// Who runs the instructions of guests, and as which processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Accelerator {
    /// The hardware, as it is.
    Hardware,
    /// The hardware, without a register that some refuse.
    HardwareReduced,
    Software,
}

impl Accelerator {
    pub fn machine(self) -> &'static str {
        match self {
            Accelerator::Hardware | Accelerator::HardwareReduced => "kvm",
            Accelerator::Software => "tcg",
        }
    }

    /// As QEMU is told.
    pub fn options(self) -> String {
        match self {
            Accelerator::Hardware | Accelerator::HardwareReduced => "kvm".to_owned(),
            Accelerator::Software => format!("tcg,tb-size={TRANSLATED_MIB}"),
        }
    }

    pub fn processor(self) -> &'static str {
        match self {
            Accelerator::Hardware => "host",
            Accelerator::HardwareReduced => "host,arch-capabilities=off",
            Accelerator::Software => "max",
        }
    }
}

/// Result of the probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Probe {
    /// A test guest ran with KVM.
    Works(Accelerator),
    /// `/dev/kvm` does not exist.
    NoDevice,
    /// This user may not open `/dev/kvm`.
    Denied,
    /// QEMU could not run a test guest with KVM.
    Refused,
    /// A test guest was too slow to be of use.
    TooSlow,
}

impl Probe {
    /// The accelerator that guests get.
    pub fn accelerator(self) -> Accelerator {
        match self {
            Probe::Works(accelerator) => accelerator,
            Probe::NoDevice | Probe::Denied | Probe::Refused | Probe::TooSlow => {
                Accelerator::Software
            }
        }
    }
}

/// Result of an earlier probe, as it is stored.
#[derive(Serialize, Deserialize)]
struct Record {
    boot: String,
    program: PathBuf,
    probe: Probe,
}

/// Probes the host, unless it was probed since it booted. Takes up to a few seconds; may be called
/// on any thread.
pub fn find(program: &Path, directory: &Path) -> Accelerator {
    let found = known(program, directory).unwrap_or_else(|| {
        let probe = probe(program, directory);
        let record = Record { boot: boot(), program: program.to_owned(), probe };
        // Without the file the probe runs again after the next start.
        if let Ok(text) = serde_json::to_vec(&record) {
            let _ = std::fs::write(directory.join(RECORD), text);
        }
        probe
    });
    tracing::info!(probe = ?found, "probed KVM");
    found.accelerator()
}

/// Returns the result that is known without running a guest: the device cannot be opened, or the
/// host was probed since it booted.
pub fn known(program: &Path, directory: &Path) -> Option<Probe> {
    if let Some(probe) = unusable() {
        return Some(probe);
    }
    let text = std::fs::read(directory.join(RECORD)).ok()?;
    let record: Record = serde_json::from_slice(&text).ok()?;
    let is_current = record.boot == boot() && record.program == program;
    // The device can be opened, so these are no longer true.
    let is_stale = matches!(record.probe, Probe::NoDevice | Probe::Denied);
    (is_current && !is_stale).then_some(record.probe)
}

fn boot() -> String {
    std::fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned()
}

/// Reason why the device cannot be opened, if it cannot.
fn unusable() -> Option<Probe> {
    match std::fs::File::options().read(true).write(true).open(KVM) {
        Ok(_) => None,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Some(Probe::Denied),
        Err(_) => Some(Probe::NoDevice),
    }
}

/// Runs a test guest, with a file in a directory.
pub fn probe(program: &Path, directory: &Path) -> Probe {
    if let Some(probe) = unusable() {
        return probe;
    }
    let rom = directory.join("probe.rom");
    if std::fs::write(&rom, counting_rom()).is_err() {
        return Probe::Refused;
    }
    let mut found = Probe::Refused;
    for one in [Accelerator::Hardware, Accelerator::HardwareReduced] {
        match counts(program, &rom, one) {
            Counted::Yes => {
                found = Probe::Works(one);
                break;
            }
            // The other would be as slow.
            Counted::TooSlowly => {
                found = Probe::TooSlow;
                break;
            }
            Counted::Refused => {}
        }
    }
    let _ = std::fs::remove_file(&rom);
    found
}

enum Counted {
    Yes,
    TooSlowly,
    Refused,
}

fn counts(program: &Path, rom: &Path, accelerator: Accelerator) -> Counted {
    let mut command = Command::new(program);
    command.args(["-nodefaults", "-no-user-config", "-display", "none", "-m", "64"]);
    command.args(["-machine", &format!("q35,accel={}", accelerator.machine())]);
    command.args(["-cpu", accelerator.processor()]);
    command.args(["-device", "isa-debug-exit,iobase=0xf4,iosize=1"]);
    command.arg("-bios").arg(rom);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    system::die_with_parent(&mut command);
    let Ok(mut child) = command.spawn() else { return Counted::Refused };
    let step = Duration::from_millis(10);
    let mut waited = Duration::ZERO;
    while waited < COUNT_MAX {
        match child.try_wait() {
            Ok(Some(status)) if status.code() == Some(COUNTED) => return Counted::Yes,
            Ok(Some(_)) | Err(_) => return Counted::Refused,
            Ok(None) => std::thread::sleep(step),
        }
        waited += step;
    }
    let _ = child.kill();
    let _ = child.wait();
    Counted::TooSlowly
}

/// Counts down from twenty million, and writes 16 to port 0xf4.
fn counting_rom() -> Vec<u8> {
    let counting = [
        0x66, 0xb9, 0x00, 0x2d, 0x31, 0x01, // mov ecx, 20000000
        0x66, 0x49, // dec ecx
        0x75, 0xfc, // jnz to the line above
        0xba, 0xf4, 0x00, // mov dx, 0xf4
        0xb0, 0x10, // mov al, 16
        0xee, // out dx, al
        0xf4, // hlt
        0xeb, 0xfd, // jmp to the line above
    ];
    let jump = [0xe9, 0x0d, 0xff];
    let mut rom = vec![0; ROM_BYTES];
    rom[COUNTING..COUNTING + counting.len()].copy_from_slice(&counting);
    rom[RESET..RESET + jump.len()].copy_from_slice(&jump);
    rom
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_holds_until_the_next_boot_and_for_its_program_alone() {
        let directory = std::env::temp_dir().join(format!("accelerator-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let program = Path::new("/usr/bin/qemu");
        let write = |boot: &str, probe: Probe| {
            let record = Record { boot: boot.to_owned(), program: program.to_owned(), probe };
            let text = serde_json::to_vec(&record).expect("JSON");
            std::fs::write(directory.join(RECORD), text).expect("written");
        };
        write(&boot(), Probe::TooSlow);
        // A device that cannot be opened is known without a record.
        let expected = unusable().unwrap_or(Probe::TooSlow);
        assert_eq!(known(program, &directory), Some(expected));
        assert_eq!(expected.accelerator(), Accelerator::Software);
        assert_eq!(known(Path::new("/other/qemu"), &directory), unusable());
        write("another boot", Probe::TooSlow);
        assert_eq!(known(program, &directory), unusable());
        write(&boot(), Probe::Denied);
        assert_eq!(known(program, &directory), unusable(), "the user has joined the group");
        std::fs::remove_dir_all(directory).expect("it is ours");
    }
}
