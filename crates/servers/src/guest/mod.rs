//! A disk that a virtual machine boots from, made of Debian's packages: a kernel for clouds,
//! busybox, the agent of QEMU and a small server of SSH. It is up within seconds, also where
//! processors are played by a program, and gives a shell on the serial console.
//!
//! The disk has no file system. A boot loader is told in blocks where the kernel is.

mod packages;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::libraries::{once, run};
use crate::program::find;

/// Whatever changes here makes another disk.
const VERSION: &str = "guest 5";
const BLOCK: usize = 512;
/// Where the kernel is, in blocks; before it is the boot loader.
const KERNEL_AT: usize = 2_048;
/// What the disk has in all; what is behind the kernel is for tests to write.
const DISK_BYTES: usize = 48 << 20;

/// About in the order in which they have to be loaded.
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

/// The first program of the guest.
const INIT: &str = include_str!("init.sh");
/// Programs of the guest that are not busybox: what tells of it, and what lets others in.
const PROGRAMS: [&str; 2] = ["qemu-ga", "dropbear"];
const FILES: [(&str, &str); 5] = [
    ("etc/passwd", "root:x:0:0::/root:/bin/sh\n"),
    ("etc/shadow", "root:*:1:0:99999:7:::\n"),
    ("etc/group", "root:x:0:\n"),
    ("etc/shells", "/bin/sh\n"),
    ("etc/os-release", "ID=tiny\nNAME=Tiny\nPRETTY_NAME=\"Tiny guest 1\"\nVERSION_ID=1\n"),
];

/// The disk, in `target/guest`.
pub fn guest_image(target: &Path) -> Result<PathBuf, Error> {
    let directory = target.join("guest");
    let image = directory.join("guest.img");
    once(&directory, &format!("{VERSION}\n{INIT}"), || make(&directory, &image))?;
    Ok(image)
}

fn make(directory: &Path, image: &Path) -> Result<(), Error> {
    let doing = || Error::io("make a disk for virtual machines");
    let root = packages::unpack(directory)?;
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
    let directories = ["bin", "dev", "proc", "sys", "modules", "seed", "mnt", "run", "etc", "home"];
    for directory in directories.into_iter().chain(["lib", "lib64", "sbin", "etc/dropbear"]) {
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
    let programs = PROGRAMS.map(|name| packages::program(root, name));
    for (name, file) in PROGRAMS.iter().zip(&programs) {
        archive.add(&format!("sbin/{name}"), 0o100_755, &fs::read(file).map_err(doing())?);
    }
    for (name, file) in packages::libraries(root, &programs)? {
        // What loads the others has its place in every program.
        let place = if name.starts_with("ld-") { "lib64" } else { "lib" };
        archive.add(&format!("{place}/{name}"), 0o100_755, &fs::read(file).map_err(doing())?);
    }
    for (name, text) in FILES {
        archive.add(name, 0o100_600 | 0o044, text.as_bytes());
    }
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
