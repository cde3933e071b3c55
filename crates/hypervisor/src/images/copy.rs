//! Disks that are made here: empty ones, copies, and ones that grow.

use std::borrow::BorrowMut;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::DISK_BYTES_MAX;
use super::fault::Fault;
use super::open::{Access, open};

/// Of a disk: its owner and its group.
const MODE: u32 = 0o660;
const CHUNK_BYTES: usize = 256 << 10;

/// Takes a file's place in its directory until it is whole.
pub fn beside(disk: &Path, suffix: &str) -> PathBuf {
    let name = disk.file_name().unwrap_or_default().to_string_lossy();
    disk.with_file_name(format!("{name}.{suffix}"))
}

/// A new file; what an attempt before left is gone.
pub fn create(path: &Path) -> Result<File, Fault> {
    let doing = || Fault::io(format!("make {}", path.display()));
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(doing())?;
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(doing()(error)),
        _ => {}
    }
    let mut options = File::options();
    options.read(true).write(true).create_new(true).mode(MODE);
    options.open(path).map_err(doing())
}

/// Gives a file that is whole its size and its name.
pub fn finish(file: &File, from: &Path, disk: &Path, bytes: u64) -> Result<(), Fault> {
    let doing = || Fault::io(format!("make {}", disk.display()));
    let length = file.metadata().map_err(doing())?.len();
    if length > bytes {
        return Err(Fault::TooLarge { image: length, available: bytes });
    }
    file.set_len(bytes).map_err(doing())?;
    file.sync_all().map_err(doing())?;
    fs::rename(from, disk).map_err(doing())?;
    if let Some(directory) = disk.parent() {
        let synced = File::open(directory).and_then(|directory| directory.sync_all());
        synced.map_err(doing())?;
    }
    Ok(())
}

fn check(bytes: u64) -> Result<(), Fault> {
    match bytes <= DISK_BYTES_MAX {
        true => Ok(()),
        false => Err(Fault::TooLarge { image: bytes, available: DISK_BYTES_MAX }),
    }
}

/// An empty disk. One that is there stays as it is.
pub fn blank(disk: &Path, bytes: u64) -> Result<(), Fault> {
    check(bytes)?;
    if disk.exists() {
        return Ok(());
    }
    let part = beside(disk, "part");
    let file = create(&part)?;
    finish(&file, &part, disk, bytes)
}

/// A disk with what another holds, which nobody may write meanwhile. What is there is replaced.
pub fn copy(source: &Path, disk: &Path, bytes: u64) -> Result<(), Fault> {
    check(bytes)?;
    let doing = || Fault::io(format!("copy {}", source.display()));
    let mut from = open(source, Access::Read).map_err(doing())?;
    let part = beside(disk, "part");
    let mut file = create(&part)?;
    copy_sparse(&mut from, &mut file).map_err(doing())?;
    finish(&file, &part, disk, bytes)
}

/// Makes a disk longer; one that is long enough stays as it is. Says how long it is.
pub fn grow(disk: &Path, bytes: u64) -> Result<u64, Fault> {
    check(bytes)?;
    let doing = || Fault::io(format!("grow {}", disk.display()));
    let file = open(disk, Access::Write).map_err(doing())?;
    let length = file.metadata().map_err(doing())?.len();
    if length < bytes {
        file.set_len(bytes).map_err(doing())?;
        file.sync_all().map_err(doing())?;
    }
    Ok(length.max(bytes))
}

/// Copies what is not zero, and leaves holes for what is.
fn copy_sparse(from: &mut File, to: &mut File) -> io::Result<()> {
    let mut sparse = Sparse::new(to);
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match from.read(&mut chunk)? {
            0 => return sparse.end(),
            read => sparse.write_all(&chunk[..read])?,
        }
    }
}

/// Whether there are zeros only: the first is, and each is as the one before it. Comparing pieces
/// of memory is what processors do fastest.
pub fn is_zero(bytes: &[u8]) -> bool {
    match bytes {
        [] => true,
        [first, rest @ ..] => *first == 0 && *rest == bytes[..rest.len()],
    }
}

/// Writes a file with holes where zeros are.
pub struct Sparse<F> {
    file: F,
    pub length: u64,
}

impl<F: BorrowMut<File>> Sparse<F> {
    pub fn new(file: F) -> Sparse<F> {
        Sparse { file, length: 0 }
    }

    pub fn file(&self) -> &File {
        self.file.borrow()
    }

    /// The file is as long as what was written, also if that ends with zeros.
    pub fn end(self) -> io::Result<()> {
        self.file.borrow().set_len(self.length)
    }
}

impl<F: BorrowMut<File>> Write for Sparse<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
        match is_zero(bytes) {
            true => drop(self.file.borrow_mut().seek(SeekFrom::Current(length))?),
            false => self.file.borrow_mut().write_all(bytes)?,
        }
        self.length += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.borrow_mut().flush()
    }
}
