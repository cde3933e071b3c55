//! Whether guests can be run by the processors of this machine, found out by running one.
//!
//! That `/dev/kvm` is there says little: inside another virtual machine it may refuse what QEMU
//! asks for, or play the first mode of a processor one instruction at a time, so slowly that no
//! guest ever boots. The guest that is tried is a few instructions that count and then say so.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::confinement::TRANSLATED_MIB;
use crate::system;

const KVM: &str = "/dev/kvm";
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

/// Tries out what there is. Takes a while; may be called on any thread.
pub fn find(program: &Path, directory: &Path) -> Accelerator {
    if std::fs::File::options().read(true).write(true).open(KVM).is_err() {
        return Accelerator::Software;
    }
    let rom = directory.join("probe.rom");
    if std::fs::write(&rom, counting_rom()).is_err() {
        return Accelerator::Software;
    }
    let tried = [Accelerator::Hardware, Accelerator::HardwareReduced];
    let mut found = Accelerator::Software;
    for one in tried {
        match counts(program, &rom, one) {
            Counted::Yes => {
                found = one;
                break;
            }
            // The other would be as slow.
            Counted::TooSlowly => break,
            Counted::Refused => {}
        }
    }
    let _ = std::fs::remove_file(&rom);
    tracing::info!(?found, "what runs virtual machines");
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
