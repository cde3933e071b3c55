//! Opens a directory: the newest snapshot, then the log after it, to the last whole frame.
//!
//! Only the end of the log can be torn by a crash, and only that is repaired. Anything else that
//! does not fit is refused with its place, and nothing on disk is changed.

use std::collections::VecDeque;
use std::sync::Arc;

use super::disk::Disk;
use super::files::{Catalog, Covered};
use super::replay::expect_next;
use super::segment::{self, FrameReader, Item, Next, Segment};
use super::snapshot;
use crate::sequence::Sequence;
use crate::{Batch, Error, KeyRange, Revision};

/// What was found.
pub(super) struct Recovered {
    pub store: Option<u64>,
    pub sequence: Sequence,
    pub compacted: Revision,
    /// Every change after `base`.
    pub recent: Vec<Arc<Batch>>,
    pub base: Revision,
    pub catalog: Catalog,
    /// The segment to go on writing and where; `None` in an empty directory.
    pub tail: Option<(Segment, u64)>,
    /// Segments that were prepared but not used.
    pub spare: Vec<Segment>,
    /// How many bytes of log were replayed: when the next snapshot is due.
    pub replayed_bytes: u64,
}

pub(super) fn recover(disk: &dyn Disk, recent_bytes_max: u64) -> Result<Recovered, Error> {
    let failed =
        |source| Error::Disk { doing: "read", file: disk.path().display().to_string(), source };
    let names = disk.names().map_err(failed)?;
    let mut recovery = Recovery::start(disk, &names, recent_bytes_max)?;
    let segments = recovery.open_segments(disk, &names)?;
    for segment in &segments {
        recovery.replay(segment)?;
    }
    recovery.finish(disk, segments, &names)
}

/// Checks that every file with a name of ours is ours, without changing anything.
pub(super) fn inspect(disk: &dyn Disk) -> Result<(), Error> {
    let file = disk.path().display().to_string();
    let names = disk.names().map_err(|source| Error::Disk { doing: "read", file, source })?;
    for index in names.iter().filter_map(|name| segment::index_of(name)) {
        Segment::open(disk, index, None)?;
    }
    Ok(())
}

struct Recovery {
    store: Option<u64>,
    sequence: Sequence,
    compacted: Revision,
    recent: VecDeque<Arc<Batch>>,
    recent_bytes: u64,
    recent_bytes_max: u64,
    base: Revision,
    catalog: Catalog,
    /// The last segment that had frames, and where they end.
    end: Option<(usize, u64)>,
    /// Where a torn tail begins.
    torn: Option<(usize, u64)>,
    seen: usize,
    replayed_bytes: u64,
}

impl Recovery {
    fn start(disk: &dyn Disk, names: &[String], recent_bytes_max: u64) -> Result<Recovery, Error> {
        let mut snapshots: Vec<_> =
            names.iter().filter_map(|name| snapshot::revision_of(name)).collect();
        snapshots.sort();
        let mut recovery = Recovery {
            store: None,
            sequence: Sequence::default(),
            compacted: Revision::ZERO,
            recent: VecDeque::new(),
            recent_bytes: 0,
            recent_bytes_max,
            base: Revision::ZERO,
            catalog: Catalog { segments: Vec::new(), snapshots },
            end: None,
            torn: None,
            seen: 0,
            replayed_bytes: 0,
        };
        if let Some(newest) = recovery.catalog.snapshots.last() {
            let snapshot = snapshot::read(disk, *newest, &KeyRange::all())?;
            recovery.store = Some(snapshot.store);
            recovery.compacted = snapshot.compacted;
            recovery.base = snapshot.sequence.head;
            recovery.sequence = snapshot.sequence;
        }
        Ok(recovery)
    }

    /// Opens all segments, notes what each covers, and returns those to replay.
    fn open_segments(&mut self, disk: &dyn Disk, names: &[String]) -> Result<Vec<Segment>, Error> {
        let mut indexes: Vec<_> = names.iter().filter_map(|name| segment::index_of(name)).collect();
        indexes.sort_unstable();
        let mut segments = Vec::new();
        for (position, index) in indexes.iter().enumerate() {
            if position > 0 && indexes[position - 1] + 1 != *index {
                let file = segment::name(index - 1);
                let what = "it is missing, though later ones are there".to_owned();
                return Err(Error::Corrupt { file, offset: 0, what });
            }
            let (segment, store) = Segment::open(disk, *index, self.store)?;
            self.store = Some(store);
            let first = first_record(&segment)?;
            self.catalog.segments.push(Covered { index: *index, first, size: segment.size });
            segments.push(segment);
        }
        if self.sequence.head == Revision::ZERO && indexes.first().is_some_and(|first| *first != 1)
        {
            let file = segment::name(1);
            let what = "it is missing, and so is a snapshot that replaces it".to_owned();
            return Err(Error::Corrupt { file, offset: 0, what });
        }
        if indexes.is_empty() && self.sequence.head != Revision::ZERO {
            let file = "the log".to_owned();
            let what = "all of its segments are missing".to_owned();
            return Err(Error::Corrupt { file, offset: 0, what });
        }
        let needed = self.catalog.segments_after(self.sequence.head).len();
        Ok(segments.split_off(segments.len() - needed))
    }

    fn replay(&mut self, segment: &Segment) -> Result<(), Error> {
        let position = self.seen;
        self.seen += 1;
        let mut reader = FrameReader::new(segment);
        loop {
            let offset = reader.offset;
            match reader.next()? {
                Next::Frame(items) => {
                    if let Some((_, torn)) = self.torn {
                        let what = "the segment before this one is broken at its end";
                        return Err(segment.damaged(torn, what));
                    }
                    for item in items {
                        self.perform(segment, &reader, item)?;
                    }
                    self.replayed_bytes += reader.offset - offset;
                    self.end = Some((position, reader.offset));
                }
                Next::End => return Ok(()),
                Next::Torn => {
                    if let Some((_, torn)) = self.torn {
                        return Err(segment.damaged(torn, "two segments have broken ends"));
                    }
                    self.torn = Some((position, offset));
                    return Ok(());
                }
            }
        }
    }

    fn perform(
        &mut self,
        segment: &Segment,
        reader: &FrameReader<'_>,
        item: Item,
    ) -> Result<(), Error> {
        match item {
            Item::Compact(revision) => self.compacted = self.compacted.max(revision),
            Item::Commit(record) if record.revision <= self.sequence.head => {}
            Item::Commit(record) => {
                expect_next(segment, reader, self.sequence.head, record.revision)?;
                let batch = Arc::new(self.sequence.perform(record));
                self.recent_bytes += batch.cost();
                self.recent.push_back(batch);
                while self.recent_bytes > self.recent_bytes_max && self.recent.len() > 1 {
                    if let Some(oldest) = self.recent.pop_front() {
                        self.recent_bytes -= oldest.cost();
                        self.base = oldest.revision;
                    }
                }
            }
        }
        Ok(())
    }

    fn finish(
        mut self,
        disk: &dyn Disk,
        mut segments: Vec<Segment>,
        names: &[String],
    ) -> Result<Recovered, Error> {
        if let Some((position, offset)) = self.torn {
            let segment = &segments[position];
            tracing::warn!(file = segment.name, offset, "cut off a write that never completed");
            let mut reader = FrameReader::new(segment);
            reader.offset = offset;
            reader.cut_tail()?;
        }
        for name in names.iter().filter(|name| name.ends_with(".tmp")) {
            let file = name.clone();
            let failed = |source| Error::Disk { doing: "remove", file, source };
            disk.remove(name).map_err(failed)?;
        }
        while self.recent.front().is_some_and(|batch| batch.revision < self.compacted) {
            if let Some(oldest) = self.recent.pop_front() {
                self.base = oldest.revision;
            }
        }
        // Without any frame the first segment is the one to write.
        let (position, offset) = self.end.unwrap_or((0, segment::HEADER_BYTES));
        let spare = segments.split_off((position + 1).min(segments.len()));
        let tail = segments.pop().map(|segment| (segment, offset));
        Ok(Recovered {
            store: self.store,
            sequence: self.sequence,
            compacted: self.compacted,
            recent: self.recent.into(),
            base: self.base,
            catalog: self.catalog,
            tail,
            spare,
            replayed_bytes: self.replayed_bytes,
        })
    }
}

fn first_record(segment: &Segment) -> Result<Option<(Revision, crate::Timestamp)>, Error> {
    let mut reader = FrameReader::new(segment);
    while let Some(items) = reader.whole_frame()? {
        for item in items {
            if let Item::Commit(record) = item {
                return Ok(Some((record.revision, record.provenance.time)));
            }
        }
    }
    Ok(None)
}
