//! Thins out churn in old segments: each is written again without it, and takes its place whole.
//!
//! Revisions stay without gaps: a record whose writes are gone is kept with who made it and when.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::files::{Covered, Files};
use super::segment::{FrameBuilder, FrameReader, Item, Next, Segment};
use crate::state::State;
use crate::thinning::{Seen, Thinning, superfluous};
use crate::{Error, Revision, Timestamp};

/// A segment is written again only if this part of it goes.
const GAIN_PARTS: u64 = 8;
/// A frame takes no further record when it has grown past this.
const FRAME_BYTES: usize = 1 << 20;

/// Segments that were looked at; the next process looks again.
#[derive(Default)]
pub(super) struct Thinned(HashSet<u64>);

/// What is to go, and while it may.
pub(super) struct Rule<'a> {
    pub thinning: Thinning,
    /// Only what was written before.
    pub before: Timestamp,
    pub gate: &'a Gate,
}

/// Held while a segment is written; nobody passes when it is closed.
#[derive(Clone, Default)]
pub(super) struct Gate(Arc<Mutex<Closed>>);

#[derive(Default)]
struct Closed(bool);

impl Gate {
    fn enter(&self) -> Option<MutexGuard<'_, Closed>> {
        let closed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (!closed.0).then_some(closed)
    }

    /// Waits for whoever is inside.
    pub fn close(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0 = true;
    }
}

/// Thins the segments that are all older than a time. Answers how many bytes that freed.
pub(super) fn thin(
    files: &Files,
    state: &State,
    rule: &Rule<'_>,
    thinned: &mut Thinned,
) -> Result<u64, Error> {
    let old = old_segments(files, rule.before, thinned);
    let mut freed = 0;
    for covered in old {
        let Some(_inside) = rule.gate.enter() else { break };
        freed += thin_segment(files, state, &rule.thinning, covered)?;
        thinned.0.insert(covered.index);
    }
    Ok(freed)
}

/// Those whose successor begins before the time too: all of their records are older.
fn old_segments(files: &Files, before: Timestamp, thinned: &Thinned) -> Vec<Covered> {
    let catalog = files.catalog();
    let pairs = catalog.segments.windows(2);
    let is_old = |pair: &&[Covered]| pair[1].first.is_some_and(|(_, time)| time < before);
    let old = pairs.take_while(is_old).map(|pair| pair[0]);
    old.filter(|covered| !thinned.0.contains(&covered.index)).collect()
}

fn thin_segment(
    files: &Files,
    state: &State,
    thinning: &Thinning,
    covered: Covered,
) -> Result<u64, Error> {
    // Held while reading, so that it is not removed meanwhile.
    let catalog = files.catalog();
    if !catalog.segments.iter().any(|one| one.index == covered.index) {
        return Ok(0);
    }
    let (segment, _) = Segment::open(&*files.disk, covered.index, Some(files.store))?;
    let mut items = read(&segment)?;
    let snapshots = catalog.snapshots.clone();
    drop(catalog);
    let gone = churn(&items, &snapshots, thinning);
    if !gone.contains(&true) {
        return Ok(0);
    }
    let mut gone = gone.into_iter();
    for item in &mut items {
        let Item::Commit(record) = item else { continue };
        record.writes.retain(|_| !gone.next().unwrap_or(false));
    }
    let bytes = segment.again(&frames(&items, segment.salt), files.store);
    let size = bytes.len() as u64;
    if size + segment.size / GAIN_PARTS > segment.size {
        return Ok(0);
    }
    let last = items.iter().rev().find_map(|item| match item {
        Item::Commit(record) => Some(record.revision),
        Item::Compact(_) => None,
    });
    // Before the file changes: whoever reads both must find them alike, or learn that they differ.
    state.forget_thinned(last.unwrap_or_default());
    replace(files, &segment, &bytes)?;
    Ok(segment.size - size)
}

/// For each write of a segment, whether it may go.
fn churn(items: &[Item], snapshots: &[Revision], thinning: &Thinning) -> Vec<bool> {
    let mut writes = Vec::new();
    for item in items {
        let Item::Commit(record) = item else { continue };
        // A snapshot holds what was last written before it, and the store is opened from there:
        // what it holds must not come from a write that is missing.
        let era = snapshots.partition_point(|snapshot| *snapshot < record.revision);
        let time = record.provenance.time;
        for write in &record.writes {
            let (key, value) = (&write.key, write.value.as_ref());
            writes.push(Seen { time, era, key, before: None, value });
        }
    }
    superfluous(&writes, thinning)
}

fn read(segment: &Segment) -> Result<Vec<Item>, Error> {
    let mut reader = FrameReader::new(segment);
    let mut items = Vec::new();
    loop {
        match reader.next()? {
            Next::Frame(some) => items.extend(some),
            Next::End => return Ok(items),
            Next::Torn => return Err(segment.damaged(reader.offset, "a frame is not whole")),
        }
    }
}

/// The frames of items, one after the other.
fn frames(items: &[Item], salt: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut frame = FrameBuilder::default();
    frame.start();
    for item in items {
        frame.push(item);
        if frame.length() >= FRAME_BYTES {
            bytes.extend_from_slice(frame.finish(salt));
            frame.start();
        }
    }
    if !frame.is_empty() {
        bytes.extend_from_slice(frame.finish(salt));
    }
    bytes
}

/// Puts new contents in the place of a segment. A crash leaves the one or the other.
fn replace(files: &Files, segment: &Segment, bytes: &[u8]) -> Result<(), Error> {
    let temporary = format!("{}.tmp", segment.name);
    let failed = segment.failed("thin");
    let write = || {
        let file = files.disk.create(&temporary)?;
        file.write_at(bytes, 0)?;
        file.sync()
    };
    if let Err(source) = write() {
        // What was written so far would only take up space.
        let _ = files.disk.remove(&temporary);
        return Err(failed(source));
    }
    files.change(|catalog| {
        let covered = catalog.segments.iter_mut().find(|one| one.index == segment.index);
        let Some(covered) = covered else {
            // It was forgotten meanwhile.
            let _ = files.disk.remove(&temporary);
            return Ok(());
        };
        files.disk.rename(&temporary, &segment.name).map_err(&failed)?;
        files.disk.sync_directory().map_err(&failed)?;
        covered.size = bytes.len() as u64;
        Ok(())
    })
}
