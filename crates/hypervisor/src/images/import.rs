//! Brings a disk in: reads it, checks it, unpacks and converts it, and gives it its size.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use super::DISK_BYTES_MAX;
use super::address::Reach;
use super::copy::{Sparse, beside, create, finish};
use super::fault::Fault;
use super::format::{Format, HEAD_BYTES, detect};
use super::open::{Access, open};
use super::receive::{Received, receive};
use super::{registry, tool};
use crate::confinement::User;
use crate::system;

/// What is read may be larger than the disk by what formats need for themselves.
pub const OVERHEAD_BYTES: u64 = 64 << 20;
pub const CHUNK_BYTES: usize = 256 << 10;
/// How often a packed image may hold another.
const WRAPPINGS_MAX: usize = 2;
/// Beside the disk, until it is whole: what was read, unpacked and converted.
pub const PART: &str = "part";
const UNPACKED: &str = "unpacked";
pub const CONVERTED: &str = "converted";

/// Where an image comes from and where it goes.
#[derive(Clone, Debug)]
pub struct Import {
    pub source: Source,
    /// `sha256:…` of what is read.
    pub checksum: Option<String>,
    pub disk: PathBuf,
    /// What the disk is to have.
    pub bytes: u64,
}

#[derive(Clone, Debug)]
pub enum Source {
    Http {
        url: String,
        reach: Reach,
    },
    /// A file of this machine.
    File(PathBuf),
    /// An image of a registry of containers, which has the disk in it: `docker://…`.
    Registry {
        url: String,
        reach: Reach,
    },
}

/// Told how far it is, from 0 to 1.
pub type Progress = Arc<dyn Fn(f64) + Send + Sync>;

/// Brings a disk in. Until all is well there is none under its name; one that is there stays.
pub async fn import(order: Import, progress: Progress) -> Result<(), Fault> {
    if order.disk.exists() {
        return Ok(());
    }
    if order.bytes > DISK_BYTES_MAX {
        return Err(Fault::TooLarge { image: order.bytes, available: DISK_BYTES_MAX });
    }
    let done = async {
        let received = match &order.source {
            Source::Registry { url, reach } => {
                let to = (order.disk.as_path(), order.bytes);
                registry::receive(url, *reach, to, &progress).await?;
                Received::Image
            }
            _ => receive(&order, progress).await?,
        };
        let (disk, bytes) = (order.disk.clone(), order.bytes);
        let finished = tokio::task::spawn_blocking(move || match received {
            Received::Image => unpack(&beside(&disk, PART), &disk, bytes),
            Received::Disk(file) => finish(&file, &beside(&disk, CONVERTED), &disk, bytes),
        });
        finished.await.map_err(|error| Fault::Broken(error.to_string()))?
    };
    let done = done.await;
    for suffix in [PART, UNPACKED, CONVERTED, registry::LAYER] {
        let _ = fs::remove_file(beside(&order.disk, suffix));
    }
    done
}

/// Makes the disk of what was read, however it is wrapped.
fn unpack(part: &Path, disk: &Path, bytes: u64) -> Result<(), Fault> {
    let mut from = part.to_owned();
    for _ in 0..=WRAPPINGS_MAX {
        let doing = || Fault::io(format!("read {}", from.display()));
        let file = open(&from, Access::Write).map_err(doing())?;
        let mut head = Vec::new();
        let mut beginning = Read::take(&file, HEAD_BYTES as u64);
        beginning.read_to_end(&mut head).map_err(doing())?;
        let next = beside(disk, if from == part { UNPACKED } else { PART });
        match detect(&head)? {
            Format::Raw => return finish(&file, &from, disk, bytes),
            Format::Qcow2 { size } if size > bytes => {
                return Err(Fault::TooLarge { image: size, available: bytes });
            }
            Format::Qcow2 { size } => {
                let converted = beside(disk, CONVERTED);
                let made = create(&converted)?;
                made.set_len(size).map_err(Fault::io("make room for an image"))?;
                convert(&Conversion { disk, from: &file, to: &made, bytes: size })?;
                return finish(&made, &converted, disk, bytes);
            }
            Format::Gzip => {
                let file = open(&from, Access::Read).map_err(doing())?;
                let packed = io::BufReader::with_capacity(CHUNK_BYTES, file);
                expand(flate2::bufread::MultiGzDecoder::new(packed), &next, bytes)?;
            }
            Format::Xz => expand_by_program(&from, &next, bytes)?,
        }
        from = next;
    }
    Err(Fault::Broken("it is packed too many times".to_owned()))
}

/// Writes what comes, up to what the disk and its format may have.
fn expand(mut packed: impl Read, to: &Path, bytes: u64) -> Result<(), Fault> {
    let broken = |error: io::Error| Fault::Broken(error.to_string());
    let doing = || Fault::io(format!("write {}", to.display()));
    let mut file = create(to)?;
    let mut sparse = Sparse::new(&mut file);
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = packed.read(&mut chunk).map_err(broken)?;
        if read == 0 {
            return sparse.end().map_err(doing());
        }
        sparse.write_all(&chunk[..read]).map_err(doing())?;
        if sparse.length > bytes + OVERHEAD_BYTES {
            return Err(Fault::TooLarge { image: sparse.length, available: bytes });
        }
    }
}

fn expand_by_program(from: &Path, to: &Path, bytes: u64) -> Result<(), Fault> {
    let mut command = Command::new("xz");
    command.args(["-dc", "-T1"]);
    command.stdin(open(from, Access::Read).map_err(Fault::io("read an image"))?);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    tool::confine(&mut command, tool::user(to), bytes);
    let missing = |_| Fault::NotInstalled { program: "xz", package: "xz-utils" };
    let mut child = command.spawn().map_err(missing)?;
    let output = child.stdout.take().expect("a piped output must be there");
    let deadline = tool::Deadline::start(&child, bytes);
    let expanded = expand(output, to, bytes);
    let is_late = deadline.stop();
    let _ = child.kill();
    let status = child.wait().map_err(Fault::io("wait for xz"))?;
    if is_late {
        return Err(tool::late("xz", bytes));
    }
    expanded?;
    // Killed after all was read is fine; anything else it would have said itself.
    let is_broken = status.code().is_some_and(|code| code != 0);
    let is_over = status.signal().is_some_and(|signal| signal == libc::SIGXCPU);
    match is_broken || is_over {
        true => Err(Fault::Broken("xz could not read it".to_owned())),
        false => Ok(()),
    }
}

/// An image that is converted.
struct Conversion<'a> {
    disk: &'a Path,
    from: &'a File,
    to: &'a File,
    bytes: u64,
}

/// Both files are given as they are open: what has their names meanwhile may be something else.
fn convert(order: &Conversion<'_>) -> Result<(), Fault> {
    let user = tool::user(order.disk);
    let doing = || Fault::io("give an image to qemu-img");
    let mut owners = Vec::new();
    for file in [order.from, order.to] {
        let found = file.metadata().map_err(doing())?;
        owners.push((file, found.uid(), found.gid()));
        if let Some(user) = &user {
            // The program opens them again, as its own user.
            system::give_file(file, user.number, user.number).map_err(doing())?;
        }
    }
    let converted = run_converter(order, user);
    for (file, user, group) in owners {
        system::give_file(file, user, group).map_err(doing())?;
    }
    converted
}

fn run_converter(order: &Conversion<'_>, user: Option<User>) -> Result<(), Fault> {
    let path = |file: &File| format!("/proc/self/fd/{}", file.as_raw_fd());
    let mut command = Command::new("qemu-img");
    command.args(["convert", "-f", "qcow2", "-O", "raw", "-n", "-W"]);
    // The target is there, as long as the image; holes stay holes.
    command.args(["--target-is-zero"]).args([path(order.from), path(order.to)]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    system::inherit(&mut command, vec![order.from.as_raw_fd(), order.to.as_raw_fd()]);
    tool::confine(&mut command, user, order.bytes);
    let missing = |_| Fault::NotInstalled { program: "qemu-img", package: "qemu-utils" };
    let child = command.spawn().map_err(missing)?;
    let deadline = tool::Deadline::start(&child, order.bytes);
    let output = child.wait_with_output().map_err(Fault::io("wait for qemu-img"))?;
    if deadline.stop() {
        return Err(tool::late("qemu-img", order.bytes));
    }
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
            let said = if said.is_empty() { output.status.to_string() } else { said };
            Err(Fault::Broken(said.chars().take(500).collect()))
        }
    }
}
