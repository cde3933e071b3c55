//! QEMU without anybody: the same devices, and nobody who asked for it.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hypervisor::qemu::Qemu;
use store::{Environment, System};

use crate::statistics::now;

const START_MAX: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(1);
/// Ports of the bus that a machine of ours has for what comes later.
const PORTS: usize = 9;

/// How long it takes until its monitor greets.
pub fn start(directory: &Path) -> Result<Duration> {
    let program = Qemu::find_program().context("qemu-system-x86_64 is not installed")?;
    let monitor = directory.canonicalize()?.join(format!(".q{:08x}", System.random() as u32));
    let mut command = Command::new(program);
    command.args(["-machine", "q35,accel=tcg,usb=off", "-cpu", "max", "-m", "64M", "-S"]);
    command.args(["-nodefaults", "-no-user-config", "-no-shutdown", "-display", "none"]);
    command.args(["-device", "VGA,vgamem_mb=16", "-device", "virtio-serial-pci"]);
    for device in ["virtio-tablet-pci", "virtio-keyboard-pci", "virtio-rng-pci", "pvpanic"] {
        command.args(["-device", device]);
    }
    command.args(["-device", "virtio-balloon-pci", "-netdev", "user,id=n"]);
    for port in 0..PORTS {
        let port = format!("pcie-root-port,id=rp{port},chassis={}", port + 1);
        command.args(["-device", &port]);
    }
    command.args(["-device", "virtio-net-pci,netdev=n,bus=rp0,romfile="]);
    command.arg("-qmp").arg(format!("unix:{},server=on,wait=off", monitor.display()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let begin = now();
    let mut child = command.spawn().context("could not start QEMU")?;
    let greeted = loop {
        if let Ok(mut stream) = UnixStream::connect(&monitor) {
            stream.set_read_timeout(Some(START_MAX))?;
            let mut byte = [0];
            break stream.read_exact(&mut byte).map(|()| begin.elapsed());
        }
        if begin.elapsed() > START_MAX {
            break Err(std::io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(LOOK);
    };
    let _ = child.kill();
    let _ = child.wait();
    let _ = std::fs::remove_file(&monitor);
    ensure!(greeted.is_ok(), "QEMU alone does not start");
    Ok(greeted?)
}
