//! What a process knows of the log: which revisions have an entry, how old and how large.
//!
//! A few words for each commit, so that neither retention nor a read of the past has to scan the
//! log in etcd.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::{Retention, Revision, Timestamp};

use super::layout::Id;

/// A write of another program costs history about this much.
const FOREIGN_BYTES: u32 = 256;

/// All revisions of the log, those of other programs too.
#[derive(Default)]
pub struct Journal {
    revisions: BTreeMap<Revision, Source>,
    bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Source {
    /// A commit of a store, or one that was given up; the entry tells.
    Logged(Id),
    /// Another program wrote, and nobody knows what it replaced.
    Foreign { seen: Timestamp },
}

impl Journal {
    pub fn insert(&mut self, revision: Revision, source: Source) {
        let old = self.revisions.insert(revision, source);
        self.bytes += source.bytes();
        self.bytes -= old.map_or(0, Source::bytes);
    }

    /// Drops entries that are gone from etcd. They are among the oldest.
    pub fn remove(&mut self, mut deleted: Vec<Id>, before: Revision) {
        let mut gone = Vec::new();
        for (revision, source) in self.revisions.range(..before) {
            if deleted.is_empty() {
                break;
            }
            if let Source::Logged(id) = source
                && let Some(at) = deleted.iter().position(|deleted| deleted == id)
            {
                deleted.swap_remove(at);
                gone.push(*revision);
            }
        }
        gone.into_iter().for_each(|revision| self.drop_one(revision));
    }

    /// Drops what other programs wrote before a revision: there is no entry to delete.
    pub fn remove_foreign(&mut self, before: Revision) {
        let older = self.revisions.range(..before);
        let foreign = older.filter(|(_, source)| matches!(source, Source::Foreign { .. }));
        let gone: Vec<_> = foreign.map(|(revision, _)| *revision).collect();
        gone.into_iter().for_each(|revision| self.drop_one(revision));
    }

    /// The oldest entries before a revision, to be deleted.
    pub fn oldest(&self, before: Revision, limit: usize) -> Vec<Id> {
        let logged = self.revisions.range(..before).filter_map(|(_, source)| match source {
            Source::Logged(id) => Some(*id),
            Source::Foreign { .. } => None,
        });
        logged.take(limit).collect()
    }

    /// The entries of some revisions, the newest first.
    pub fn newest_first(&self, revisions: RangeInclusive<Revision>) -> Vec<(Revision, Source)> {
        let entries = self.revisions.range(revisions).rev();
        entries.map(|(revision, source)| (*revision, *source)).collect()
    }

    /// The entries after a revision that were made before a time, in order.
    pub fn older_than(&self, after: Revision, time: Timestamp) -> Vec<(Revision, Source)> {
        let later = self.revisions.range(after.next()..);
        let older = later.take_while(|(_, source)| source.time() < time);
        older.map(|(revision, source)| (*revision, *source)).collect()
    }

    pub fn contains(&self, id: Id) -> bool {
        self.revisions.values().any(|source| *source == Source::Logged(id))
    }

    /// Up to which revision history is older or larger than what is to be kept.
    pub fn excess(&self, retention: &Retention, now: Timestamp) -> Option<Revision> {
        let oldest = now.minus(retention.age_max);
        let mut bytes = self.bytes;
        let mut excess = None;
        for (revision, source) in &self.revisions {
            if bytes <= retention.bytes_max && source.time() >= oldest {
                break;
            }
            bytes -= source.bytes();
            excess = Some(*revision);
        }
        excess
    }

    fn drop_one(&mut self, revision: Revision) {
        if let Some(source) = self.revisions.remove(&revision) {
            self.bytes -= source.bytes();
        }
    }
}

impl Source {
    pub fn bytes(self) -> u64 {
        match self {
            Source::Logged(id) => id.bytes.into(),
            Source::Foreign { .. } => FOREIGN_BYTES.into(),
        }
    }

    pub fn time(self) -> Timestamp {
        match self {
            Source::Logged(id) => Timestamp(i64::try_from(id.time).unwrap_or(i64::MAX)),
            Source::Foreign { seen } => seen,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn logged(time: u64, bytes: u32) -> Source {
        Source::Logged(Id { time, bytes, random: time, of: None })
    }

    fn journal() -> Journal {
        let mut journal = Journal::default();
        for revision in 1..=10 {
            journal.insert(Revision(revision), logged(revision * 1_000_000, 100));
        }
        journal
    }

    fn keep(seconds: u64, bytes_max: u64) -> Retention {
        let age_max = Duration::from_secs(seconds);
        Retention { age_max, bytes_max, ..Retention::default() }
    }

    #[test]
    fn what_is_too_old_or_too_much_is_excess() {
        let now = Timestamp(10_000_000);
        assert_eq!(journal().excess(&keep(100, 10_000), now), None);
        assert_eq!(journal().excess(&keep(6, 10_000), now), Some(Revision(3)));
        assert_eq!(journal().excess(&keep(100, 250), now), Some(Revision(8)));
        assert_eq!(journal().excess(&keep(0, 0), now), Some(Revision(10)));
    }

    #[test]
    fn deleted_entries_are_dropped_and_counted() {
        let mut journal = journal();
        let ids = journal.oldest(Revision(4), 2);
        assert_eq!(ids.len(), 2);
        journal.remove(ids, Revision(4));
        assert_eq!(journal.oldest(Revision(4), 10).len(), 1);
        assert_eq!(journal.bytes, 800);
    }

    #[test]
    fn foreign_writes_are_dropped_without_a_deletion() {
        let mut journal = journal();
        journal.insert(Revision(11), Source::Foreign { seen: Timestamp(0) });
        journal.remove_foreign(Revision(11));
        assert_eq!(journal.newest_first(Revision(11)..=Revision(12)).len(), 1);
        journal.remove_foreign(Revision(12));
        assert_eq!(journal.newest_first(Revision(11)..=Revision(12)).len(), 0);
        assert_eq!(journal.bytes, 1000);
    }
}
