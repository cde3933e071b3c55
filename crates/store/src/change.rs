//! Commits as they are asked for, and changes as they happened.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use crate::{Derived, Error, KEY_BYTES_MAX, Key, Provenance, Revision};

/// The largest value. etcd refuses requests over 1.5 MiB by default; the rest is for keys and
/// framing.
pub const VALUE_BYTES_MAX: usize = 1_536 * 1_024 - 16 * 1_024;
/// The largest sum of all values of one commit, with twice their keys: etcd's transaction names
/// each key in the comparison and in the write.
pub const COMMIT_BYTES_MAX: usize = VALUE_BYTES_MAX + 2 * KEY_BYTES_MAX;
/// The most operations in one commit. etcd allows 128 in a transaction, our bookkeeping included.
pub const COMMIT_OPERATIONS_MAX: usize = 60;
/// The longest name of a group of leaders.
const EPOCH_GROUP_BYTES_MAX: usize = 255;

/// What is stored under a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    pub key: Key,
    pub value: Bytes,
    /// The revision that made the key; an update keeps it.
    pub created: Revision,
    /// The revision that wrote this value.
    pub modified: Revision,
    /// What readers have computed from it.
    pub derived: Derived,
}

impl Entry {
    pub fn new(key: Key, value: Bytes, created: Revision, modified: Revision) -> Entry {
        Entry { key, value, created, modified, derived: Derived::default() }
    }
}

/// Operations that happen together in one revision, or not at all.
#[derive(Clone, Debug)]
pub struct Commit {
    pub operations: Vec<Operation>,
    pub epoch: Option<Epoch>,
    pub provenance: Provenance,
}

/// One key of a commit.
#[derive(Clone, Debug)]
pub struct Operation {
    pub key: Key,
    pub mutation: Mutation,
    pub when: Precondition,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mutation {
    Put(Bytes),
    Delete,
    /// Writes nothing: only the precondition must hold.
    Keep,
}

/// What must be true of the key. There are no blind writes: every writer has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    Absent,
    At(Revision),
}

/// A leader's term. A commit of an older term than the group's newest is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epoch {
    pub group: Arc<str>,
    pub number: u64,
}

/// The answer to a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    pub revision: Revision,
}

/// One key's part in a commit that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub key: Key,
    /// The entry from this revision on; `None` means deleted.
    pub entry: Option<Arc<Entry>>,
    /// The entry before. A watch with a selector needs it to tell "no longer matches".
    pub previous: Option<Arc<Entry>>,
}

/// All changes of one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    pub revision: Revision,
    pub provenance: Arc<Provenance>,
    pub changes: Vec<Change>,
}

/// A stretch of history.
#[derive(Clone, Debug)]
pub struct Changes {
    pub batches: Vec<Arc<Batch>>,
    /// Nothing is missing up to here. Ask again after it while it is less than what was asked for.
    pub through: Revision,
}

impl Precondition {
    /// The revision the key must be at; `None` when it must be absent.
    pub fn expected(self) -> Option<Revision> {
        match self {
            Precondition::Absent => None,
            Precondition::At(revision) => Some(revision),
        }
    }
}

impl Commit {
    /// Checks the limits that are the same on every backend.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        let operations = &self.operations;
        if operations.iter().all(|operation| operation.mutation == Mutation::Keep) {
            return Err(Error::Invalid { what: "a commit writes nothing".into() });
        }
        if operations.len() > COMMIT_OPERATIONS_MAX {
            let what = "number of operations in a commit";
            return Err(Error::TooLarge {
                what,
                bytes: operations.len(),
                max: COMMIT_OPERATIONS_MAX,
            });
        }
        let mut keys = BTreeSet::new();
        let mut bytes = 0;
        for operation in operations {
            if !keys.insert(&operation.key) {
                let what = format!("a commit names {} twice", operation.key);
                return Err(Error::Invalid { what });
            }
            if operation.when == Precondition::Absent && operation.mutation == Mutation::Delete {
                let what = format!("a commit deletes {} and expects it absent", operation.key);
                return Err(Error::Invalid { what });
            }
            let value_bytes = operation.mutation.bytes();
            if value_bytes > VALUE_BYTES_MAX {
                let max = VALUE_BYTES_MAX;
                return Err(Error::TooLarge { what: "value", bytes: value_bytes, max });
            }
            bytes += value_bytes + 2 * operation.key.as_bytes().len();
        }
        if bytes > COMMIT_BYTES_MAX {
            return Err(Error::TooLarge { what: "commit", bytes, max: COMMIT_BYTES_MAX });
        }
        if let Some(epoch) = &self.epoch
            && !(1..=EPOCH_GROUP_BYTES_MAX).contains(&epoch.group.len())
        {
            let what = format!("an epoch's group has {} bytes, not 1 to 255", epoch.group.len());
            return Err(Error::Invalid { what });
        }
        self.provenance.validate()
    }
}

impl Mutation {
    fn bytes(&self) -> usize {
        match self {
            Mutation::Put(value) => value.len(),
            Mutation::Delete | Mutation::Keep => 0,
        }
    }
}

impl Batch {
    /// What the batch costs in memory beyond the live state, roughly.
    pub(crate) fn cost(&self) -> u64 {
        const CHANGE_OVERHEAD: usize = 256;
        let change = |change: &Change| {
            let value = change.entry.as_ref().map_or(0, |entry| entry.value.len());
            CHANGE_OVERHEAD + change.key.as_bytes().len() + value
        };
        self.changes.iter().map(change).sum::<usize>() as u64
    }
}
