//! Which files there are and what they cover; which of them may go.

use std::sync::Arc;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use super::disk::Disk;
use super::{segment, snapshot};
use crate::{Error, Revision, Timestamp};

/// The files of one store. Readers of history hold a guard while they read.
pub(super) struct Files {
    pub disk: Arc<dyn Disk>,
    /// Random, the same in every file of the store.
    pub store: u64,
    catalog: RwLock<Catalog>,
}

#[derive(Clone, Default)]
pub(super) struct Catalog {
    /// In order, without gaps; the last one with records is being written.
    pub segments: Vec<Covered>,
    /// In order.
    pub snapshots: Vec<Revision>,
}

/// What a segment covers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Covered {
    pub index: u64,
    /// The revision and time of its first record; `None` while it has none.
    pub first: Option<(Revision, Timestamp)>,
    pub size: u64,
}

impl Files {
    pub fn new(disk: Arc<dyn Disk>, store: u64, catalog: Catalog) -> Files {
        Files { disk, store, catalog: RwLock::new(catalog) }
    }

    pub fn catalog(&self) -> RwLockReadGuard<'_, Catalog> {
        self.catalog.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn change<R>(&self, change: impl FnOnce(&mut Catalog) -> R) -> R {
        change(&mut self.catalog.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Removes what no read at or after `compacted` needs any more.
    pub fn clean_up(&self, compacted: Revision) -> Result<(), Error> {
        self.change(|catalog| {
            let removable = catalog.removable(compacted);
            for name in &removable {
                let failed = |source| Error::Disk { doing: "remove", file: name.clone(), source };
                self.disk.remove(name).map_err(failed)?;
            }
            if !removable.is_empty() {
                catalog.forget(&removable);
                let file = "the data directory".to_owned();
                let failed = |source| Error::Disk { doing: "sync", file, source };
                self.disk.sync_directory().map_err(failed)?;
            }
            Ok(())
        })
    }
}

impl Catalog {
    /// The snapshot from which the changes after a revision can be replayed; `None` means from
    /// nothing, if the first segment is still there.
    pub fn snapshot_for(&self, after: Revision) -> Option<Revision> {
        self.snapshots.iter().rev().find(|revision| **revision <= after).copied()
    }

    /// The segments that hold records after a revision.
    pub fn segments_after(&self, revision: Revision) -> &[Covered] {
        let later = |covered: &Covered| covered.first.is_none_or(|(first, _)| first > revision);
        // The segment before the first later one holds the revision itself.
        let first_later = self.segments.iter().position(later).unwrap_or(self.segments.len());
        &self.segments[first_later.saturating_sub(1)..]
    }

    fn removable(&self, compacted: Revision) -> Vec<String> {
        // The change at `compacted` still tells what was before it.
        let base = self.snapshot_for(compacted.before());
        // The state is opened from the newest, history is replayed from the base.
        let needed = [base, self.snapshots.last().copied()];
        let spare = self.snapshots.iter().filter(|revision| !needed.contains(&Some(**revision)));
        let mut names: Vec<_> = spare.map(|revision| snapshot::name(*revision)).collect();
        let Some(base) = base else { return names };
        for pair in self.segments.windows(2) {
            // All of a segment is covered when the next one begins at or before the next record.
            match pair[1].first {
                Some((first, _)) if first <= base.next() => {
                    names.push(segment::name(pair[0].index));
                }
                _ => break,
            }
        }
        names
    }

    fn forget(&mut self, names: &[String]) {
        self.snapshots.retain(|revision| !names.contains(&snapshot::name(*revision)));
        self.segments.retain(|covered| !names.contains(&segment::name(covered.index)));
    }

    /// Where the window of history begins: after what is too old and what is too much.
    pub fn window_start(&self, oldest: Timestamp, bytes_max: u64) -> Revision {
        let mut start = Revision::ZERO;
        let mut bytes = 0;
        for pair in self.segments.windows(2).rev() {
            let Some((next, time)) = pair[1].first else { continue };
            bytes += pair[1].size;
            if time < oldest || bytes > bytes_max {
                start = start.max(next);
                break;
            }
        }
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog(segments: &[(u64, Option<u64>)], snapshots: &[u64]) -> Catalog {
        let covered = |&(index, first): &(u64, Option<u64>)| Covered {
            index,
            first: first.map(|first| (Revision(first), Timestamp(first as i64))),
            size: 10,
        };
        Catalog {
            segments: segments.iter().map(covered).collect(),
            snapshots: snapshots.iter().copied().map(Revision).collect(),
        }
    }

    #[test]
    fn files_go_only_when_a_snapshot_before_the_window_replaces_them() {
        let files = catalog(&[(1, Some(1)), (2, Some(50)), (3, Some(90)), (4, None)], &[40, 80]);
        assert_eq!(files.removable(Revision(60)), Vec::<String>::new());
        // Snapshot 80 serves all from 81 on: snapshot 40 and segment 1 go, segment 2 has 81.
        let expected = [snapshot::name(Revision(40)), segment::name(1)];
        assert_eq!(files.removable(Revision(81)), expected);
    }

    #[test]
    fn of_the_snapshots_only_the_newest_and_the_base_stay() {
        let files = catalog(&[(1, Some(1)), (2, Some(50)), (3, None)], &[40, 60, 80]);
        // Nothing is compacted: history is replayed from the first segment.
        let expected = [snapshot::name(Revision(40)), snapshot::name(Revision(60))];
        assert_eq!(files.removable(Revision(0)), expected);
        assert_eq!(files.removable(Revision(45)), [snapshot::name(Revision(60))]);
    }

    #[test]
    fn replay_starts_at_the_newest_snapshot_that_is_old_enough() {
        let files = catalog(&[(1, Some(1)), (2, Some(50)), (3, Some(90)), (4, None)], &[40, 80]);
        assert_eq!(files.snapshot_for(Revision(39)), None);
        assert_eq!(files.snapshot_for(Revision(79)), Some(Revision(40)));
        let after = |revision| files.segments_after(Revision(revision)).first().unwrap().index;
        assert_eq!(
            [after(0), after(40), after(49), after(50), after(89), after(95)],
            [1, 1, 1, 2, 2, 3]
        );
    }

    #[test]
    fn the_window_is_bounded_by_age_and_by_bytes() {
        let files = catalog(&[(1, Some(1)), (2, Some(50)), (3, Some(90)), (4, None)], &[]);
        assert_eq!(files.window_start(Timestamp(0), u64::MAX), Revision(0));
        assert_eq!(files.window_start(Timestamp(60), u64::MAX), Revision(50));
        assert_eq!(files.window_start(Timestamp(0), 10), Revision(50));
        assert_eq!(files.window_start(Timestamp(0), 20), Revision(0));
        assert_eq!(files.window_start(Timestamp(100), u64::MAX), Revision(90));
    }
}
