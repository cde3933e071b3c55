//! Decides a batch of commits over what their transaction has read, and says which rows follow.
//!
//! Pure. A later commit of the batch sees the effects of the earlier ones; one that may not happen
//! does not stop the others.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::record::Record;
use crate::sequence::Epochs;
use crate::{Commit, Error, Key, Revision};

/// What a change costs besides its key and value, roughly. For the window by size.
pub const CHANGE_OVERHEAD: u64 = 256;

/// Where the live value of a key is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub created: Revision,
    pub modified: Revision,
    pub position: u32,
}

/// What the transaction read under its lock.
#[derive(Default)]
pub struct Ground {
    pub head: Revision,
    /// The bytes of all commits so far.
    pub total: u64,
    pub compacted: Revision,
    pub places: BTreeMap<Key, Place>,
    pub epochs: Epochs,
}

/// A row of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogRow {
    pub revision: Revision,
    pub position: u32,
    pub key: Key,
    pub created: Revision,
    pub superseded: Option<Revision>,
    pub value: Option<Bytes>,
}

/// What a batch does.
pub struct Plan {
    /// The revision before the first of the batch.
    pub base: Revision,
    pub head: Revision,
    pub total: u64,
    pub compacted: Revision,
    /// One for each commit, in order.
    pub verdicts: Vec<Result<Revision, Error>>,
    pub records: Vec<Record>,
    /// The bytes of each record, and the total with it.
    pub sizes: Vec<(u64, u64)>,
    pub rows: Vec<LogRow>,
    /// Rows of earlier transactions, and the revision that replaces each.
    pub superseded: Vec<(Place, Revision)>,
    /// Where the touched keys are in the end; `None` when they are deleted.
    pub places: BTreeMap<Key, Option<Place>>,
    pub epochs: Epochs,
    /// The row that holds a key, when it is one of this batch.
    fresh: BTreeMap<Key, usize>,
}

/// Decides commits in their order.
pub fn plan<'a>(commits: impl IntoIterator<Item = &'a Commit>, ground: &Ground) -> Plan {
    let mut plan = Plan {
        base: ground.head,
        head: ground.head,
        total: ground.total,
        compacted: ground.compacted,
        verdicts: Vec::new(),
        records: Vec::new(),
        sizes: Vec::new(),
        rows: Vec::new(),
        superseded: Vec::new(),
        places: BTreeMap::new(),
        epochs: Epochs::default(),
        fresh: BTreeMap::new(),
    };
    for commit in commits {
        let verdict = plan.admit(commit, ground).map(|()| plan.perform(commit, ground));
        plan.verdicts.push(verdict);
    }
    plan
}

impl Plan {
    fn place(&self, key: &Key, ground: &Ground) -> Option<Place> {
        match self.places.get(key) {
            Some(place) => *place,
            None => ground.places.get(key).copied(),
        }
    }

    fn admit(&self, commit: &Commit, ground: &Ground) -> Result<(), Error> {
        if let Some(epoch) = &commit.epoch {
            ground.epochs.admit(epoch)?;
            self.epochs.admit(epoch)?;
        }
        for operation in &commit.operations {
            let current = self.place(&operation.key, ground).map(|place| place.modified);
            let expected = operation.when.expected();
            if current != expected {
                let key = operation.key.clone();
                return Err(Error::Conflict { key, expected, current });
            }
        }
        Ok(())
    }

    fn perform(&mut self, commit: &Commit, ground: &Ground) -> Revision {
        let revision = self.head.next();
        self.head = revision;
        if let Some(epoch) = &commit.epoch {
            self.epochs.raise(epoch);
        }
        let record = Record::of(commit.clone(), revision);
        let mut bytes = 0;
        for (position, write) in (0..).zip(&record.writes) {
            let before = self.place(&write.key, ground);
            let created = before.map_or(revision, |place| place.created);
            if let Some(place) = before {
                match self.fresh.get(&write.key) {
                    Some(&row) => self.rows[row].superseded = Some(revision),
                    None => self.superseded.push((place, revision)),
                }
            }
            bytes += CHANGE_OVERHEAD + write.key.as_bytes().len() as u64;
            bytes += write.value.as_ref().map_or(0, |value| value.len() as u64);
            let live =
                write.value.as_ref().map(|_| Place { created, modified: revision, position });
            self.places.insert(write.key.clone(), live);
            match live {
                Some(_) => self.fresh.insert(write.key.clone(), self.rows.len()),
                None => self.fresh.remove(&write.key),
            };
            self.rows.push(LogRow {
                revision,
                position,
                key: write.key.clone(),
                created,
                // Nothing replaces a tombstone; it is forgotten with what follows it.
                superseded: write.value.is_none().then(|| revision.next()),
                value: write.value.clone(),
            });
        }
        self.total += bytes;
        self.sizes.push((bytes, self.total));
        self.records.push(record);
        revision
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Epoch, Mutation, Operation, Precondition, Provenance, Timestamp};

    fn key(text: &str) -> Key {
        Key::new(text).unwrap()
    }

    fn commit(text: &str, mutation: Mutation, when: Precondition) -> Commit {
        let operations = vec![Operation { key: key(text), mutation, when }];
        let provenance = Provenance::of(Timestamp(1), "test");
        Commit { operations, epoch: None, provenance }
    }

    fn put(text: &str, value: &'static str, when: Precondition) -> Commit {
        commit(text, Mutation::Put(value.into()), when)
    }

    fn ground() -> Ground {
        let place = Place { created: Revision(3), modified: Revision(5), position: 2 };
        Ground { head: Revision(9), places: [(key("a"), place)].into(), ..Ground::default() }
    }

    #[test]
    fn a_later_commit_sees_an_earlier_one_and_a_conflict_stops_nobody() {
        let commits = [
            put("a", "1", Precondition::At(Revision(5))),
            put("a", "2", Precondition::At(Revision(5))),
            put("b", "3", Precondition::Absent),
            commit("a", Mutation::Delete, Precondition::At(Revision(10))),
            put("a", "4", Precondition::Absent),
        ];
        let plan = plan(&commits, &ground());
        let revisions: Vec<_> = plan.verdicts.iter().map(|verdict| verdict.as_ref().ok()).collect();
        let [first, second, third, fourth] = [10, 11, 12, 13].map(Revision);
        assert_eq!(revisions, [Some(&first), None, Some(&second), Some(&third), Some(&fourth)]);
        let current = match plan.verdicts[1].as_ref().unwrap_err() {
            Error::Conflict { current, .. } => *current,
            other => panic!("{other}"),
        };
        assert_eq!(current, Some(first));
        // The row of an earlier transaction is replaced once, the rest are new rows.
        let old = Place { created: Revision(3), modified: Revision(5), position: 2 };
        assert_eq!(plan.superseded, [(old, first)]);
        let superseded: Vec<_> = plan.rows.iter().map(|row| row.superseded).collect();
        assert_eq!(superseded, [Some(third), None, Some(fourth), None]);
        let created: Vec<_> = plan.rows.iter().map(|row| row.created.0).collect();
        assert_eq!(created, [3, 11, 3, 13]);
        let place = Place { created: fourth, modified: fourth, position: 0 };
        assert_eq!(plan.places[&key("a")], Some(place));
        assert_eq!((plan.base, plan.head), (Revision(9), fourth));
    }

    #[test]
    fn a_deleted_key_leaves_no_place() {
        let commits = [commit("a", Mutation::Delete, Precondition::At(Revision(5)))];
        let plan = plan(&commits, &ground());
        assert_eq!(plan.places[&key("a")], None);
        assert_eq!(plan.rows[0].superseded, Some(Revision(11)));
    }

    #[test]
    fn a_kept_key_is_checked_and_not_written() {
        let mut both = put("b", "1", Precondition::Absent);
        let when = Precondition::At(Revision(5));
        both.operations.push(Operation { key: key("a"), mutation: Mutation::Keep, when });
        let plan = plan([&both], &ground());
        assert!(plan.verdicts[0].is_ok());
        assert_eq!(plan.rows.len(), 1);
        assert!(!plan.places.contains_key(&key("a")));
    }

    #[test]
    fn an_epoch_counts_from_the_commit_that_raised_it() {
        let with = |number, text| {
            let mut commit = put(text, "1", Precondition::Absent);
            commit.epoch = Some(Epoch { group: "leaders".into(), number });
            commit
        };
        let mut ground = ground();
        ground.epochs.raise(&Epoch { group: "leaders".into(), number: 4 });
        // The third fails on its key and must not raise the epoch.
        let commits = [with(3, "x"), with(5, "y"), with(9, "a"), with(4, "z"), with(5, "w")];
        let plan = plan(&commits, &ground);
        let happened: Vec<_> = plan.verdicts.iter().map(Result::is_ok).collect();
        assert_eq!(happened, [false, true, false, false, true]);
        assert!(matches!(plan.verdicts[3], Err(Error::Fenced { current: 5, .. })));
        assert_eq!(plan.epochs.0.get("leaders"), Some(&5));
    }

    #[test]
    fn totals_grow_with_each_commit() {
        let commits = [put("x", "1", Precondition::Absent), put("y", "22", Precondition::Absent)];
        let plan = plan(&commits, &ground());
        let one = CHANGE_OVERHEAD + 2;
        assert_eq!(plan.sizes, [(one, one), (one + 1, 2 * one + 1)]);
        assert_eq!(plan.total, 2 * one + 1);
    }
}
