//! The end of the log: where frames are appended.

use std::collections::VecDeque;
use std::sync::Arc;

use super::files::{Covered, Files};
use super::recover::Recovered;
use super::segment::{FrameBuilder, HEADER_BYTES, Plan, Segment};
use crate::{Environment, Error, Revision, Timestamp};

/// Sizes that tests make small, so that a short run crosses every boundary.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// Segments are small at first, so that a first start is quick and a small store stays small.
    pub segment_bytes_min: u64,
    /// Each is twice the last, up to this.
    pub segment_bytes_max: u64,
    /// A snapshot is due after at least this much log, however small the state.
    pub snapshot_log_bytes_min: u64,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            segment_bytes_min: 4 << 20,
            segment_bytes_max: 64 << 20,
            snapshot_log_bytes_min: 16 << 20,
        }
    }
}

impl Tuning {
    /// Returns the sizes with which a history of at most `bytes_max` bytes is kept. Files are
    /// removed whole, so they are small where the history is.
    pub fn for_history(bytes_max: u64) -> Tuning {
        let default = Tuning::default();
        let share = bytes_max / HISTORY_SEGMENTS;
        let segment_bytes_max = share.clamp(default.segment_bytes_min, default.segment_bytes_max);
        Tuning { segment_bytes_max, ..default }
    }
}

/// Segments over which a full history extends.
const HISTORY_SEGMENTS: u64 = 4;
/// Part of a segment after which the next one is prepared.
const RESERVE_SHARE: u64 = 8;

/// The segment being written, and those prepared for later.
pub(super) struct Log {
    files: Arc<Files>,
    environment: Arc<dyn Environment>,
    tuning: Tuning,
    current: Segment,
    offset: u64,
    spare: VecDeque<Segment>,
}

impl Log {
    /// Goes on where recovery ended, or begins a first segment.
    pub fn open(
        files: Arc<Files>,
        environment: Arc<dyn Environment>,
        tuning: Tuning,
        recovered: &mut Recovered,
    ) -> Result<Log, Error> {
        let (current, offset) = match recovered.tail.take() {
            Some(tail) => tail,
            None => {
                let size = tuning.segment_bytes_min;
                let salt = environment.random();
                let plan = Plan { index: 1, store: files.store, salt, size };
                (prepare(&files, &plan)?, HEADER_BYTES)
            }
        };
        let spare = std::mem::take(&mut recovered.spare).into();
        Ok(Log { files, environment, tuning, current, offset, spare })
    }

    /// Whether a frame fits without a segment that is not there yet.
    pub fn has_room(&self, length: usize) -> bool {
        self.fits(length) || !self.spare.is_empty()
    }

    fn fits(&self, length: usize) -> bool {
        self.offset + length as u64 <= self.current.size
    }

    /// Makes room for a frame, in a new segment if need be. Fails without having changed anything.
    pub fn make_room(&mut self, length: usize) -> Result<(), Error> {
        if self.fits(length) {
            return Ok(());
        }
        if self.spare.is_empty() {
            // A commit waits for this one, and perhaps space is short: the smallest will do.
            let plan = Plan { size: self.tuning.segment_bytes_min, ..self.next_plan() };
            self.spare.push_back(prepare(&self.files, &plan)?);
        }
        if let Some(next) = self.spare.pop_front() {
            self.current = next;
            self.offset = HEADER_BYTES;
        }
        Ok(())
    }

    /// Writes a frame where the last one ended. It is not durable before [`Log::sync`].
    pub fn write(&mut self, frame: &mut FrameBuilder) -> Result<(), Error> {
        let bytes = frame.finish(self.current.salt);
        debug_assert!(self.offset + bytes.len() as u64 <= self.current.size);
        let failed = self.current.failed("write");
        self.current.file.write_at(bytes, self.offset).map_err(failed)
    }

    pub fn sync(&self) -> Result<(), Error> {
        self.current.file.sync().map_err(self.current.failed("sync"))
    }

    /// Moves past a frame that is durable.
    pub fn advance(&mut self, length: usize, first: Option<(Revision, Timestamp)>) {
        let begins = self.offset == HEADER_BYTES;
        self.offset += length as u64;
        // Only the first record of a segment is remembered.
        if let Some(first) = first
            && (begins || self.files.catalog().segments.last().is_some_and(|s| s.first.is_none()))
        {
            let index = self.current.index;
            self.files.change(|catalog| {
                let covered = catalog.segments.iter_mut().find(|covered| covered.index == index);
                if let Some(covered) = covered {
                    covered.first.get_or_insert(first);
                }
            });
        }
    }

    /// Returns whether the next segment should be prepared ahead of its need. It is prepared early,
    /// because its blocks are the reserve with which the store goes on while the disk is full.
    pub fn wants_spare(&self) -> bool {
        self.spare.is_empty() && self.offset > self.current.size / RESERVE_SHARE
    }

    pub fn next_plan(&self) -> Plan {
        Plan {
            index: self.current.index + 1,
            store: self.files.store,
            salt: self.environment.random(),
            size: (self.current.size * 2).min(self.tuning.segment_bytes_max),
        }
    }

    /// Takes a segment that was prepared in the background.
    pub fn add_spare(&mut self, segment: Segment) {
        let expected = self.spare.back().unwrap_or(&self.current).index + 1;
        assert_eq!(segment.index, expected, "segments must follow each other");
        self.spare.push_back(segment);
    }
}

/// Makes a segment and enters it into the catalog.
pub(super) fn prepare(files: &Files, plan: &Plan) -> Result<Segment, Error> {
    let segment = Segment::prepare(&*files.disk, plan)?;
    let covered = Covered { index: plan.index, first: None, size: plan.size };
    files.change(|catalog| catalog.segments.push(covered));
    Ok(segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_small_where_the_history_is() {
        let segment_bytes_max =
            |mebibytes: u64| Tuning::for_history(mebibytes << 20).segment_bytes_max;
        assert_eq!(segment_bytes_max(0), 4 << 20);
        assert_eq!(segment_bytes_max(8), 4 << 20);
        assert_eq!(segment_bytes_max(100), 25 << 20);
        assert_eq!(segment_bytes_max(256), 64 << 20);
        assert_eq!(segment_bytes_max(4096), 64 << 20);
    }
}
