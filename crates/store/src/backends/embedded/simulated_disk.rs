//! A disk in memory that records what was done to it, can fail, and can lose power.
//!
//! The model: what was written since a file's last sync may be lost in part, sector by sector of
//! 512 bytes; creations, renames and removals since the last sync of the directory survive up to
//! some point in their order, as with a journaled file system.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::disk::{Disk, DiskFile};

const SECTOR_BYTES: usize = 512;

/// One thing that was done to the disk.
#[derive(Clone, Debug)]
pub enum Action {
    Create { name: String, file: usize },
    Write { file: usize, offset: u64, bytes: Vec<u8> },
    Sync { file: usize },
    Rename { from: String, to: String },
    Remove { name: String },
    SyncDirectory,
}

/// Which failures to play.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Syncs fail and leave what they covered unsynced.
    pub sync_fails: bool,
    /// Files cannot grow.
    pub full: bool,
}

/// The disk.
#[derive(Clone, Default)]
pub struct SimulatedDisk {
    inner: Arc<Mutex<Inner>>,
    locked: Arc<AtomicBool>,
}

#[derive(Default)]
struct Inner {
    image: Image,
    trace: Vec<Action>,
    faults: Faults,
}

/// What is on a disk: files by number, and their names.
#[derive(Clone, Default)]
pub struct Image {
    files: Vec<Vec<u8>>,
    names: BTreeMap<String, usize>,
}

impl SimulatedDisk {
    pub fn with(image: Image) -> SimulatedDisk {
        let disk = SimulatedDisk::default();
        disk.inner().image = image;
        disk
    }

    pub fn set_faults(&self, faults: Faults) {
        self.inner().faults = faults;
    }

    /// Everything done so far.
    pub fn trace(&self) -> Vec<Action> {
        self.inner().trace.clone()
    }

    pub fn trace_length(&self) -> usize {
        self.inner().trace.len()
    }

    pub fn image(&self) -> Image {
        self.inner().image.clone()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Image {
    /// The bytes of a file, for tests that damage them.
    pub fn file_mut(&mut self, name: &str) -> Option<&mut Vec<u8>> {
        let file = *self.names.get(name)?;
        self.files.get_mut(file)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    fn apply(&mut self, action: &Action) {
        match action {
            Action::Create { name, file } => {
                self.reserve(*file);
                self.names.insert(name.clone(), *file);
            }
            Action::Write { file, offset, bytes } => self.write(*file, *offset, bytes),
            Action::Rename { from, to } => {
                if let Some(file) = self.names.remove(from) {
                    self.names.insert(to.clone(), file);
                }
            }
            Action::Remove { name } => {
                self.names.remove(name);
            }
            Action::Sync { .. } | Action::SyncDirectory => {}
        }
    }

    fn reserve(&mut self, file: usize) {
        if self.files.len() <= file {
            self.files.resize(file + 1, Vec::new());
        }
    }

    fn write(&mut self, file: usize, offset: u64, bytes: &[u8]) {
        self.reserve(file);
        let content = &mut self.files[file];
        let end = offset as usize + bytes.len();
        if content.len() < end {
            content.resize(end, 0);
        }
        content[offset as usize..end].copy_from_slice(bytes);
    }
}

/// Follows a trace and makes images of what a power loss could leave.
#[derive(Default)]
pub struct Blackout {
    /// What is certainly on the disk.
    durable: Image,
    /// Writes to files since their last sync.
    writes: Vec<Action>,
    /// Changes of the directory since its last sync.
    names: Vec<Action>,
}

impl Blackout {
    /// Begins with what is on a disk.
    pub fn after(durable: Image) -> Blackout {
        Blackout { durable, ..Default::default() }
    }

    pub fn perform(&mut self, action: &Action) {
        match action {
            Action::Write { .. } => self.writes.push(action.clone()),
            Action::Sync { file: synced } => {
                for action in std::mem::take(&mut self.writes) {
                    match &action {
                        Action::Write { file, .. } if file == synced => self.durable.apply(&action),
                        _ => self.writes.push(action),
                    }
                }
            }
            Action::SyncDirectory => {
                for action in std::mem::take(&mut self.names) {
                    self.durable.apply(&action);
                }
            }
            Action::Create { .. } | Action::Rename { .. } | Action::Remove { .. } => {
                self.names.push(action.clone());
            }
        }
    }

    /// What is left when the power goes now; `random` decides the fate of what was not synced.
    pub fn image(&self, random: &mut dyn FnMut() -> u64) -> Image {
        let mut image = self.durable.clone();
        let surviving_names = random() as usize % (self.names.len() + 1);
        self.names[..surviving_names].iter().for_each(|action| image.apply(action));
        // Of eight, how many sectors survive: all, none, and everything between.
        let survival = random() % 9;
        for action in &self.writes {
            let Action::Write { file, offset, bytes } = action else { continue };
            let mut start = 0;
            while start < bytes.len() {
                let into_sector = (*offset as usize + start) % SECTOR_BYTES;
                let length = (SECTOR_BYTES - into_sector).min(bytes.len() - start);
                if random() % 8 < survival {
                    image.write(*file, offset + start as u64, &bytes[start..start + length]);
                }
                start += length;
            }
        }
        image
    }
}

struct SimulatedFile {
    disk: SimulatedDisk,
    number: usize,
}

impl Disk for SimulatedDisk {
    fn lock(&self) -> io::Result<Option<Box<dyn Send + Sync>>> {
        if self.locked.swap(true, Ordering::SeqCst) {
            return Ok(None);
        }
        Ok(Some(Box::new(Unlock(self.locked.clone()))))
    }

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.inner().image.names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut inner = self.inner();
        let number = inner.image.files.len();
        inner.perform(Action::Create { name: name.to_owned(), file: number });
        Ok(Arc::new(SimulatedFile { disk: self.clone(), number }))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let number = self.inner().image.names.get(name).copied();
        let number = number.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Ok(Arc::new(SimulatedFile { disk: self.clone(), number }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner().perform(Action::Rename { from: from.to_owned(), to: to.to_owned() });
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner().perform(Action::Remove { name: name.to_owned() });
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.inner().sync(Action::SyncDirectory)
    }

    fn path(&self) -> PathBuf {
        "simulated".into()
    }
}

impl Inner {
    fn perform(&mut self, action: Action) {
        self.image.apply(&action);
        self.trace.push(action);
    }

    fn sync(&mut self, action: Action) -> io::Result<()> {
        if self.faults.sync_fails {
            return Err(io::Error::other("simulated: the device reports a failed write"));
        }
        self.perform(action);
        Ok(())
    }
}

impl DiskFile for SimulatedFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.disk.inner().image.files[self.number].len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let inner = self.disk.inner();
        let content = &inner.image.files[self.number];
        let range = offset as usize..offset as usize + buffer.len();
        let bytes = content.get(range).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut inner = self.disk.inner();
        let grows = offset as usize + bytes.len() > inner.image.files[self.number].len();
        if grows && inner.faults.full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        inner.perform(Action::Write { file: self.number, offset, bytes: bytes.to_vec() });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.inner().sync(Action::Sync { file: self.number })
    }
}

struct Unlock(Arc<AtomicBool>);

impl Drop for Unlock {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}
