//! Acceleration of virtual machines on this host, as the hypervisor's own probe finds it.

use std::path::Path;

use hypervisor::qemu::accelerator::{self, Probe};
use hypervisor::qemu::{PACKAGE, Qemu};

/// Directory of the hypervisor in the data directory.
const MACHINES: &str = "machines";
const ENABLE: &str =
    "enable virtualization in the firmware, or nested virtualization on the host of this machine";

/// Support for virtual machines and KVM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Works,
    NoQemu,
    NoDevice,
    Denied,
    /// `/dev/kvm` exists, but a test guest did not run.
    Refused,
    TooSlow,
    /// No test guest was run since the host booted.
    Untested,
}

impl State {
    fn new(probe: Probe) -> State {
        match probe {
            Probe::Works(_) => State::Works,
            Probe::NoDevice => State::NoDevice,
            Probe::Denied => State::Denied,
            Probe::Refused => State::Refused,
            Probe::TooSlow => State::TooSlow,
        }
    }

    /// Text for `doctor`.
    pub fn explanation(self) -> &'static str {
        match self {
            State::Works => "virtual machines run with KVM",
            State::NoQemu => "QEMU is not installed: virtual machines cannot run",
            State::NoDevice => "no /dev/kvm: virtual machines run under software emulation (slow)",
            State::Denied => {
                "/dev/kvm: permission denied: virtual machines run under software emulation (slow)"
            }
            State::Refused => {
                "/dev/kvm exists, but a test guest does not run: virtual machines run under \
                 software emulation (slow)"
            }
            State::TooSlow => {
                "/dev/kvm exists, but a test guest is too slow: virtual machines run under \
                 software emulation (slow)"
            }
            State::Untested => "KVM was not tested yet",
        }
    }

    pub fn remedy(self) -> String {
        match self {
            State::NoQemu => format!("apt install {PACKAGE}"),
            State::Denied => {
                "join the group kvm: `sudo usermod -aG kvm $USER`, then sign in again".to_owned()
            }
            _ => ENABLE.to_owned(),
        }
    }
}

/// Runs a test guest in a temporary directory.
pub fn probe() -> State {
    let Some(program) = Qemu::find_program() else { return State::NoQemu };
    let directory = std::env::temp_dir().join(format!("setpoint-kvm-{}", std::process::id()));
    if std::fs::create_dir_all(&directory).is_err() {
        return State::Untested;
    }
    let found = accelerator::probe(&program, &directory);
    let _ = std::fs::remove_dir_all(&directory);
    State::new(found)
}

/// Facts that are known without running a guest.
fn known(data: &Path) -> State {
    let Some(program) = Qemu::find_program() else { return State::NoQemu };
    let known = accelerator::known(&program, &data.join(MACHINES));
    known.map_or(State::Untested, State::new)
}

/// A few words for the line of the node: `yes` only if a guest ran with KVM.
pub fn summary(data: &Path) -> &'static str {
    match known(data) {
        State::Works => "yes",
        State::NoQemu => "no (QEMU is not installed)",
        State::NoDevice => "no (no /dev/kvm)",
        State::Denied => "no (permission denied: join group kvm)",
        State::Refused | State::TooSlow => "no (software emulation)",
        State::Untested => "untested (see `setpoint doctor`)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doctor_and_up_agree_with_the_probe_of_the_hypervisor() {
        let data = std::env::temp_dir().join(format!("setpoint-kvm-test-{}", std::process::id()));
        std::fs::create_dir_all(data.join(MACHINES)).expect("a directory");
        let probed = probe();
        let Some(program) = Qemu::find_program() else {
            assert_eq!((probed, known(&data)), (State::NoQemu, State::NoQemu));
            return;
        };
        let used = accelerator::find(&program, &data.join(MACHINES));
        assert_eq!(probed == State::Works, used.machine() == "kvm", "{probed:?} {used:?}");
        assert_eq!(known(&data), probed);
        assert_eq!(summary(&data) == "yes", used.machine() == "kvm");
        std::fs::remove_dir_all(data).expect("it is ours");
    }

    #[test]
    fn every_limitation_has_a_remedy() {
        assert!(State::Denied.remedy().contains("group kvm"));
        assert!(State::Denied.explanation().contains("permission denied"));
        assert!(State::NoQemu.remedy().starts_with("apt install qemu"));
        assert!(State::NoQemu.explanation().contains("QEMU is not installed"));
    }
}
