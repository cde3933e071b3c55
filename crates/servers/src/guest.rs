//! A disk that a virtual machine boots from, made of Debian's packages: a kernel for clouds and
//! busybox. It is up within seconds, also where processors are played by a program, and gives a
//! shell on the serial console.
//!
//! The disk has no file system. A boot loader is told in blocks where the kernel is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::libraries::{once, run};
use crate::program::find;

/// Whatever changes here makes another disk.
const VERSION: &str = "guest 3";
const KERNEL_PACKAGE: &str = "linux-image-cloud-amd64";
const OTHER_PACKAGES: [&str; 2] = ["busybox-static", "grub-pc-bin"];
const BLOCK: usize = 512;
/// Where the kernel is, in blocks; before it is the boot loader.
const KERNEL_AT: usize = 2_048;
/// What the disk has in all; what is behind the kernel is for tests to write.
const DISK_BYTES: usize = 48 << 20;

/// In the order in which they have to be loaded.
const MODULES: [&str; 15] = [
    "drivers/virtio/virtio.ko",
    "drivers/virtio/virtio_ring.ko",
    "drivers/virtio/virtio_pci_modern_dev.ko",
    "drivers/virtio/virtio_pci_legacy_dev.ko",
    "drivers/virtio/virtio_pci.ko",
    "drivers/block/virtio_blk.ko",
    "net/core/failover.ko",
    "drivers/net/net_failover.ko",
    "drivers/net/virtio_net.ko",
    "drivers/cdrom/cdrom.ko",
    "fs/isofs/isofs.ko",
    "drivers/acpi/button.ko",
    "drivers/input/evdev.ko",
    "drivers/virtio/virtio_input.ko",
    "drivers/char/virtio_console.ko",
];

/// The first program of the guest. Its network is as the seed says it, in words that need no
/// parser: `address 10.1.2.3/24`. It ends when the power button is pressed.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
while read module; do insmod /modules/$module; done < /modules/order
for disk in /dev/vd?; do
    mount -t iso9660 -o ro $disk /seed 2>/dev/null && break
done
for card in /sys/class/net/eth*; do ip link set ${card##*/} up; done
ip link set lo up
ip address add 10.0.2.2/24 dev eth0 2>/dev/null
sed -n 's/^ *#\? *guest-run: //p' /seed/user-data 2>/dev/null > /run.sh
sh /run.sh
for input in /sys/class/input/event*; do
    grep -q "Power Button" $input/device/name || continue
    (head -c 24 /dev/input/${input##*/} > /dev/null; poweroff -f) &
done
for port in /sys/class/virtio-ports/*; do
    grep -q org.qemu.guest_agent.0 $port/name || continue
    # It can be opened once.
    sh /agent.sh <>/dev/${port##*/} >&0 2>/dev/null &
done
exec < /dev/console > /dev/console 2>&1
echo "guest is up"
while true; do setsid cttyhack sh; done
"#;

/// Answers on the channel of guest agents, as far as it is asked by us.
const AGENT: &str = r#"answer() { echo "{\"return\": $1}"; }
listen() {
    while read -r line; do
        case "$line" in
            *guest-sync*) id=${line##*\"id\":}; answer ${id%%[!0-9]*} ;;
            *guest-info*) answer '{"version": "busybox"}' ;;
            *guest-get-host-name*) answer '{"host-name": "guest"}' ;;
            *guest-get-osinfo*)
                answer "{\"id\": \"busybox\", \"kernel-release\": \"$(uname -r)\"}" ;;
            *guest-network-get-interfaces*)
                card=$(cat /sys/class/net/eth0/address)
                at=$(ip -4 -o address show dev eth0 | sed 's/.*inet \([0-9.]*\).*/\1/')
                answer "[{\"name\": \"eth0\", \"hardware-address\": \"$card\", \
                    \"ip-addresses\": [{\"ip-address\": \"$at\"}]}]" ;;
            *) echo '{"error": {"class": "CommandNotFound", "desc": "not known"}}' ;;
        esac
    done
}
# Nothing can be read while nobody is connected.
while true; do listen; sleep 1; done
"#;

/// The disk, in `target/guest`.
pub fn guest_image(target: &Path) -> Result<PathBuf, Error> {
    let directory = target.join("guest");
    let image = directory.join("guest.img");
    once(&directory, VERSION, || make(&directory, &image))?;
    Ok(image)
}

fn make(directory: &Path, image: &Path) -> Result<(), Error> {
    let doing = || Error::io("make a disk for virtual machines");
    let root = unpack(directory)?;
    let kernel = only(&root.join("boot"), "vmlinuz-")?;
    let kernel = fs::read(kernel).map_err(doing())?;
    let files = initial_files(&root)?;
    let kernel_blocks = kernel.len().div_ceil(BLOCK);
    let files_at = KERNEL_AT + kernel_blocks.next_multiple_of(2_048);
    let files_blocks = files.len().div_ceil(BLOCK);
    let loader = loader(
        directory,
        &root,
        &format!(
            "linux (hd0){KERNEL_AT}+{kernel_blocks} console=ttyS0 quiet panic=-1\n\
         initrd (hd0){files_at}+{files_blocks}\n\
         boot\n",
        ),
    )?;
    let mut disk = vec![0; DISK_BYTES];
    let mut put = |block: usize, bytes: &[u8]| {
        disk[block * BLOCK..block * BLOCK + bytes.len()].copy_from_slice(bytes);
    };
    put(0, &loader);
    put(KERNEL_AT, &kernel);
    put(files_at, &files);
    fs::write(image, disk).map_err(doing())?;
    fs::remove_dir_all(root).map_err(doing())
}

/// Fetches the packages and unpacks them, without installing anything.
fn unpack(directory: &Path) -> Result<PathBuf, Error> {
    let doing = || Error::io("make a directory for packages");
    let root = directory.join("root");
    let _ = fs::remove_dir_all(&root);
    fs::create_dir_all(&root).map_err(doing())?;
    let depends = Command::new("apt-cache").args(["depends", KERNEL_PACKAGE]).output();
    let depends = depends.map_err(Error::io("ask for the newest kernel"))?;
    let depends = String::from_utf8_lossy(&depends.stdout).into_owned();
    let kernel = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
    let mut download = Command::new(find("apt-get")?);
    download.args(["download", "--quiet", kernel.unwrap_or(KERNEL_PACKAGE)]);
    run(download.args(OTHER_PACKAGES).current_dir(&root))?;
    for entry in fs::read_dir(&root).map_err(doing())? {
        let package = entry.map_err(doing())?.path();
        if package.extension().is_some_and(|it| it == "deb") {
            run(Command::new(find("dpkg-deb")?).arg("-x").arg(&package).arg(&root))?;
        }
    }
    Ok(root)
}

/// The one file of a directory whose name begins so.
fn only(directory: &Path, prefix: &str) -> Result<PathBuf, Error> {
    let doing = || Error::io(format!("find {prefix} in {}", directory.display()));
    let found = fs::read_dir(directory).map_err(doing())?.flatten();
    let mut found = found.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    let none = || std::io::Error::from(std::io::ErrorKind::NotFound);
    Ok(found.next().ok_or_else(none).map_err(doing())?.path())
}

/// What the first block loads: a boot loader that does as it is told.
fn loader(directory: &Path, root: &Path, told: &str) -> Result<Vec<u8>, Error> {
    let doing = || Error::io("make a boot loader");
    let (config, core) = (directory.join("grub.cfg"), directory.join("core.img"));
    let parts = root.join("usr/lib/grub/i386-pc");
    fs::write(&config, told).map_err(doing())?;
    let mut command = Command::new(find("grub-mkimage")?);
    command.args(["-O", "i386-pc", "-p", "(hd0)", "-d"]).arg(&parts).arg("-c").arg(&config);
    run(command.arg("-o").arg(&core).args(["biosdisk", "linux", "boot"]))?;
    let mut loader = fs::read(parts.join("boot.img")).map_err(doing())?;
    loader.truncate(BLOCK);
    loader.extend(fs::read(&core).map_err(doing())?);
    Ok(loader)
}

/// The files that the kernel begins with, in the format of cpio.
fn initial_files(root: &Path) -> Result<Vec<u8>, Error> {
    let doing = || Error::io("read the files of a guest");
    let kernel = only(&root.join("lib/modules"), "")?.join("kernel");
    let mut archive = Archive::default();
    for directory in ["bin", "dev", "proc", "sys", "modules", "seed", "mnt"] {
        archive.add(directory, 0o040_755, &[]);
    }
    archive.add("bin/busybox", 0o100_755, &fs::read(root.join("bin/busybox")).map_err(doing())?);
    let mut order = String::new();
    for module in MODULES {
        let name = module.rsplit('/').next().unwrap_or_default();
        let bytes = fs::read(kernel.join(module)).map_err(doing())?;
        archive.add(&format!("modules/{name}"), 0o100_644, &bytes);
        order += &format!("{name}\n");
    }
    archive.add("modules/order", 0o100_644, order.as_bytes());
    archive.add("init", 0o100_755, INIT.as_bytes());
    archive.add("agent.sh", 0o100_644, AGENT.as_bytes());
    archive.add("TRAILER!!!", 0, &[]);
    Ok(archive.0)
}

#[derive(Default)]
struct Archive(Vec<u8>);

impl Archive {
    fn add(&mut self, name: &str, mode: u32, bytes: &[u8]) {
        let length = u32::try_from(bytes.len()).expect("files of a guest are small");
        let name_length = u32::try_from(name.len() + 1).expect("names are short");
        let fields = [0, mode, 0, 0, 1, 0, length, 0, 0, 0, 0, name_length, 0];
        let fields: String = fields.iter().map(|field| format!("{field:08x}")).collect();
        self.0.extend_from_slice(format!("070701{fields}{name}\0").as_bytes());
        self.pad();
        self.0.extend_from_slice(bytes);
        self.pad();
    }

    fn pad(&mut self) {
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }
}
