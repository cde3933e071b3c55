//! Walks a snapshot and the segments after it: the one way to rebuild a state, used to open the
//! store and to read history that is no longer in memory.

use super::files::{Catalog, Files};
use super::segment::{FrameReader, Item, Next, Segment};
use super::snapshot;
use crate::sequence::Sequence;
use crate::state::within;
use crate::{Changes, Error, KeyRange, Revision};
use std::sync::Arc;

/// A page of old changes ends at this many.
const OLDER_BATCHES_MAX: usize = 4_096;
/// Or at this size.
const OLDER_BYTES_MAX: u64 = 16 << 20;

/// Reads changes of the past from the files, with what was there before each.
pub(super) fn older(
    files: &Files,
    range: &KeyRange,
    after: Revision,
    to: Revision,
) -> Result<Changes, Error> {
    // Held while reading, so that nothing is removed meanwhile.
    let catalog = files.catalog();
    let mut sequence = base(files, &catalog, range, after)?;
    let mut changes = Changes { batches: Vec::new(), through: after };
    let mut bytes = 0;
    for covered in catalog.segments_after(sequence.head) {
        let (segment, _) = Segment::open(&*files.disk, covered.index, Some(files.store))?;
        let mut reader = FrameReader::new(&segment);
        while let Next::Frame(items) = reader.next()? {
            for item in items {
                let Item::Commit(mut record) = item else { continue };
                if record.revision <= sequence.head {
                    continue;
                }
                // Written after the window asked for, perhaps not even durable yet.
                if record.revision > to {
                    changes.through = to;
                    return Ok(changes);
                }
                expect_next(&segment, &reader, sequence.head, record.revision)?;
                record.writes.retain(|write| range.contains(&write.key));
                let revision = record.revision;
                let batch = Arc::new(sequence.perform(record));
                if revision <= after {
                    continue;
                }
                changes.through = revision;
                if let Some(batch) = within(&batch, range).filter(|batch| !batch.changes.is_empty())
                {
                    bytes += batch.cost();
                    changes.batches.push(batch);
                }
                if changes.batches.len() >= OLDER_BATCHES_MAX || bytes >= OLDER_BYTES_MAX {
                    return Ok(changes);
                }
            }
        }
    }
    if changes.through < to {
        let what = "the log ends before what was acknowledged".to_owned();
        return Err(Error::Corrupt { file: "the log".to_owned(), offset: 0, what });
    }
    Ok(changes)
}

fn base(
    files: &Files,
    catalog: &Catalog,
    range: &KeyRange,
    after: Revision,
) -> Result<Sequence, Error> {
    match catalog.snapshot_for(after) {
        Some(revision) => Ok(snapshot::read(&*files.disk, revision, range)?.sequence),
        None => Ok(Sequence::default()),
    }
}

/// Revisions in the log have no gaps; one means that a part is missing.
pub(super) fn expect_next(
    segment: &Segment,
    reader: &FrameReader<'_>,
    head: Revision,
    found: Revision,
) -> Result<(), Error> {
    if found == head.next() {
        return Ok(());
    }
    let what = format!("revision {found} follows {head}");
    Err(segment.damaged(reader.offset, &what))
}
