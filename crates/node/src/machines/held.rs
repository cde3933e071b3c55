//! Which disks of this node are being read or replaced, or are being given to a machine. A machine
//! that starts opens its disks before it locks them; until then only this tells of it.
//!
//! It knows of this process alone: of machines that run, their locks tell (`images::Idle`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub struct Held(Mutex<BTreeMap<PathBuf, Use>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To read it; others may too.
    Copy,
    /// To replace it, or to give it to a machine.
    Own,
}

/// How a disk is used.
enum Use {
    Copied { times: usize },
    Owned,
}

/// Disks that are held until this is dropped.
pub struct Hold<'a> {
    held: &'a Held,
    disks: Vec<PathBuf>,
}

impl Held {
    /// Holds all of these disks, or none.
    ///
    /// # Errors
    /// Says which of them is held for something else.
    pub fn take<'a>(
        &self,
        disks: impl Iterator<Item = &'a Path>,
        purpose: Purpose,
    ) -> Result<Hold<'_>, String> {
        let mut hold = Hold { held: self, disks: Vec::new() };
        for disk in disks {
            let mut all = self.lock();
            let is_free = match (all.get(disk), purpose) {
                (None, _) | (Some(Use::Copied { .. }), Purpose::Copy) => true,
                (Some(_), _) => false,
            };
            if !is_free {
                // What was held so far is given back, and needs the lock for that.
                drop(all);
                return Err(format!("{} is being copied, restored or started", disk.display()));
            }
            let begun = match purpose {
                Purpose::Copy => Use::Copied { times: 0 },
                Purpose::Own => Use::Owned,
            };
            if let Use::Copied { times } = all.entry(disk.to_owned()).or_insert(begun) {
                *times += 1;
            }
            hold.disks.push(disk.to_owned());
        }
        Ok(hold)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Use>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        let mut all = self.held.lock();
        for disk in &self.disks {
            match all.get_mut(disk) {
                Some(Use::Copied { times }) if *times > 1 => *times -= 1,
                _ => drop(all.remove(disk)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_read_by_many_or_owned_by_one() {
        let held = Held::default();
        let (a, b) = (Path::new("a"), Path::new("b"));
        let take = |disks: &[&'static Path], purpose| held.take(disks.iter().copied(), purpose);
        let (one, two) = (take(&[a], Purpose::Copy).unwrap(), take(&[a], Purpose::Copy).unwrap());
        assert!(take(&[b, a], Purpose::Own).is_err());
        drop(one);
        assert!(take(&[a], Purpose::Own).is_err(), "it is read still");
        drop(two);
        let owned = take(&[b, a], Purpose::Own).unwrap();
        assert!(take(&[a], Purpose::Copy).is_err() && take(&[b], Purpose::Own).is_err());
        drop(owned);
        assert!(held.lock().is_empty());
    }
}
