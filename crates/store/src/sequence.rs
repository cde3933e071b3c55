//! The rules of a commit: whether it may happen, and what it changes.
//!
//! Pure: the memory and embedded backends decide with it, and every backend performs what was
//! decided, here or in another process, with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::record::Record;
use crate::tree::Tree;
use crate::{Batch, Change, Commit, Entry, Epoch, Error, Revision};

/// The state after some number of commits.
#[derive(Clone, Default)]
pub(crate) struct Sequence {
    pub tree: Tree,
    pub epochs: Epochs,
    pub head: Revision,
}

impl Sequence {
    /// Whether the preconditions and the epoch of a commit hold.
    pub fn admit(&self, commit: &Commit) -> Result<(), Error> {
        if let Some(epoch) = &commit.epoch {
            self.epochs.admit(epoch)?;
        }
        for operation in &commit.operations {
            let current = self.tree.get(&operation.key).map(|entry| entry.modified);
            let expected = operation.when.expected();
            if current != expected {
                let key = operation.key.clone();
                return Err(Error::Conflict { key, expected, current });
            }
        }
        Ok(())
    }

    /// Performs a record and says what it changed.
    pub fn perform(&mut self, record: Record) -> Batch {
        debug_assert!(record.revision > self.head, "revisions must grow");
        self.head = record.revision;
        if let Some(epoch) = &record.epoch {
            self.epochs.raise(epoch);
        }
        let revision = record.revision;
        let mut changes = Vec::with_capacity(record.writes.len());
        for write in record.writes {
            let change = match write.value {
                Some(value) => {
                    // An update keeps the revision the key was made at.
                    let created = self.tree.get(&write.key).map_or(revision, |old| old.created);
                    let key = write.key.clone();
                    let entry = Arc::new(Entry::new(key, value, created, revision));
                    let previous = self.tree.insert(entry.clone());
                    Change { key: write.key, entry: Some(entry), previous }
                }
                None => {
                    let previous = self.tree.remove(&write.key);
                    Change { key: write.key, entry: None, previous }
                }
            };
            changes.push(change);
        }
        Batch { revision, provenance: record.provenance, changes }
    }
}

/// The newest term of each group of leaders.
#[derive(Clone, Default, Debug, PartialEq)]
pub(crate) struct Epochs(pub BTreeMap<Arc<str>, u64>);

impl Epochs {
    pub fn admit(&self, epoch: &Epoch) -> Result<(), Error> {
        match self.0.get(&epoch.group) {
            Some(&current) if epoch.number < current => Err(fenced(epoch, current)),
            _ => Ok(()),
        }
    }

    pub fn raise(&mut self, epoch: &Epoch) {
        let current = self.0.entry(epoch.group.clone()).or_default();
        *current = epoch.number.max(*current);
    }
}

pub(crate) fn fenced(epoch: &Epoch, current: u64) -> Error {
    Error::Fenced { group: epoch.group.to_string(), offered: epoch.number, current }
}
