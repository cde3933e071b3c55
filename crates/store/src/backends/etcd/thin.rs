//! Thins out churn that is old: what it replaced is told by the commit that replaced it.
//!
//! A log entry is never changed: another takes its place under a name that says which revision it
//! is of. A mark beside the log says up to where this was done; every transaction compares it, so
//! that of several processes one does the work, and readers learn from it that they must begin
//! again.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;
use tonic::Status;

use crate::{Key, Revision, Thinning, Timestamp};

use super::Shared;
use super::draft::CHANGE_OVERHEAD_BYTES;
use super::history::{Unreadable, read_group};
use super::journal::Source;
use super::layout::Id;
use super::messages::*;
use super::mirror::{number, number_bytes, revision};
use super::undo::{self, Kind, Logged, Undo, Written};

const DEADLINE: Duration = Duration::from_secs(10);
/// Log entries are looked at in groups of at most so many, and about so large.
const GROUP_ENTRIES_MAX: usize = 100;
const GROUP_BYTES_MAX: u64 = 4 << 20;
/// Log entries that one transaction replaces: each takes two of its 128 operations.
const REPLACED_MAX: usize = 50;
const REPLACED_BYTES_MAX: usize = 512 << 10;

/// The mark: up to where history was thinned, and the revision of etcd that says so.
struct Mark {
    through: Revision,
    written: i64,
}

/// A log entry under work.
struct Entry {
    revision: Revision,
    id: Id,
    logged: Logged,
    /// `None` where the write has gone.
    written: Vec<Option<Written>>,
    is_changed: bool,
}

/// Takes churn out of the history that was made before a time. Answers how many log entries became
/// smaller or were told otherwise.
pub async fn thin(
    shared: &Shared,
    thinning: &Thinning,
    before: Timestamp,
) -> Result<usize, Status> {
    let mut mark = read_mark(shared).await?;
    let after = mark.through.max(shared.state.compacted());
    let old = shared.known().journal.older_than(after, before);
    let mut replaced = 0;
    for group in groups(&old, thinning) {
        let Some(last) = group.last().map(|(revision, _)| *revision) else { continue };
        match thin_group(shared, thinning, group, &mut mark).await {
            Ok(count) => replaced += count,
            // What etcd refuses for its size, or what is gone, stays as it is.
            Err(Unreadable::Gone) => {}
            Err(Unreadable::Failed(status)) if status.code() == tonic::Code::InvalidArgument => {}
            Err(Unreadable::Failed(status)) => return Err(status),
        }
        if !write(shared, Vec::new(), last, &mut mark).await? {
            // Another process does the same.
            return Ok(replaced);
        }
    }
    Ok(replaced)
}

/// When the mark was last written. Whoever has seen less than that may miss log entries.
pub async fn last_written(shared: &Shared) -> Result<Revision, Status> {
    Ok(revision(read_mark(shared).await?.written))
}

async fn read_mark(shared: &Shared) -> Result<Mark, Status> {
    let request = RangeRequest::one(shared.layout.thinned());
    let page = shared.client.range_until(Instant::now() + DEADLINE, request).await?;
    let kv = page.kvs.into_iter().next();
    let through = kv.as_ref().and_then(|kv| number(&kv.value)).unwrap_or(0);
    Ok(Mark { through: Revision(through), written: kv.map_or(0, |kv| kv.mod_revision) })
}

/// Entries of one interval each, in order; another program's write ends a group.
fn groups<'a>(
    entries: &'a [(Revision, Source)],
    thinning: &Thinning,
) -> Vec<&'a [(Revision, Source)]> {
    let interval = |source: Source| thinning.interval_of(source.time());
    let mut groups = Vec::new();
    let mut rest = entries;
    while let Some(&(_, first)) = rest.first() {
        let mut bytes = 0;
        let fits = rest.iter().take(GROUP_ENTRIES_MAX).take_while(|(_, source)| {
            bytes += source.bytes();
            let is_ours = matches!(source, Source::Logged(_));
            is_ours && bytes <= GROUP_BYTES_MAX && interval(*source) == interval(first)
        });
        let (group, others) = rest.split_at(fits.count().max(1));
        groups.push(group);
        rest = others;
    }
    groups
}

async fn thin_group(
    shared: &Shared,
    thinning: &Thinning,
    group: &[(Revision, Source)],
    mark: &mut Mark,
) -> Result<usize, Unreadable> {
    let logged = |(revision, source): &(Revision, Source)| match source {
        Source::Logged(id) => Some((*revision, *id)),
        Source::Foreign { .. } => None,
    };
    let ids: Vec<(Revision, Id)> = group.iter().filter_map(logged).collect();
    if ids.len() < 2 {
        return Ok(0);
    }
    let by_revision: HashMap<Revision, Id> = ids.iter().copied().collect();
    let read = read_group(shared, &ids).await?;
    let entries = read.into_iter().map(|(revision, logged, written)| Entry {
        revision,
        id: by_revision[&revision],
        logged,
        written: written.into_iter().map(Some).collect(),
        is_changed: false,
    });
    let mut work = Work { entries: entries.collect(), last: HashMap::new() };
    let mut count = 0;
    for at in 0..work.entries.len() {
        work.take(at, thinning);
        let is_last = at + 1 == work.entries.len();
        if work.is_full() || (is_last && work.entries.iter().any(|entry| entry.is_changed)) {
            let random = || shared.environment.random();
            let (operations, replaced) = work.replacements(shared, random);
            let through = mark.through;
            if !write(shared, operations, through, mark).await.map_err(Unreadable::Failed)? {
                return Err(Unreadable::Gone);
            }
            count += replaced;
        }
    }
    Ok(count)
}

/// Performs a part of the work and notes how far it is, unless another process was faster.
async fn write(
    shared: &Shared,
    mut success: Vec<RequestOp>,
    through: Revision,
    mark: &mut Mark,
) -> Result<bool, Status> {
    let key = shared.layout.thinned();
    let compare = match mark.written {
        0 => created_at(key.clone(), 0),
        written => modified_at(key.clone(), written),
    };
    success.push(put(key, number_bytes(through.0)));
    let request = TxnRequest { compare: vec![compare], success, failure: Vec::new() };
    let answer = shared.client.txn_until(Instant::now() + DEADLINE, request).await?;
    if answer.succeeded {
        *mark = Mark { through, written: answer.revision() };
    }
    Ok(answer.succeeded)
}

struct Work {
    /// In the order of their revisions.
    entries: Vec<Entry>,
    /// Where each key was last written.
    last: HashMap<Key, (usize, usize)>,
}

impl Work {
    /// Looks at the writes of an entry: what each replaced may be churn.
    fn take(&mut self, at: usize, thinning: &Thinning) {
        for position in 0..self.entries[at].written.len() {
            let Some(write) = &self.entries[at].written[position] else { continue };
            let key = write.key.clone();
            if let Some(churn) = self.last.insert(key, (at, position))
                && self.is_churn(churn, (at, position), thinning)
            {
                let gone = self.entries[churn.0].written[churn.1].take();
                self.entries[churn.0].is_changed = true;
                self.entries[at].is_changed = true;
                if let Some(next) = &mut self.entries[at].written[position] {
                    next.previous = gone.and_then(|gone| gone.previous);
                }
            }
        }
    }

    fn is_churn(&self, one: (usize, usize), next: (usize, usize), thinning: &Thinning) -> bool {
        let (entry, next_entry) = (&self.entries[one.0], &self.entries[next.0]);
        let is_inline = |entry: &Entry| matches!(entry.logged.undo, Undo::Inline(_));
        let (Some(write), Some(next)) = (&entry.written[one.1], &next_entry.written[next.1]) else {
            return false;
        };
        let (Some(before), Some(value)) = (&write.previous, &next.previous) else { return false };
        is_inline(entry)
            && is_inline(next_entry)
            && write.kind == Kind::Put
            && value.modified == entry.revision
            && (thinning.is_churn)(&write.key, &before.value, &value.value)
    }

    fn is_full(&self) -> bool {
        let changed = self.entries.iter().filter(|entry| entry.is_changed);
        let bytes: usize = changed.clone().map(|entry| entry.id.bytes as usize).sum();
        changed.count() >= REPLACED_MAX || bytes >= REPLACED_BYTES_MAX
    }

    /// What replaces the changed entries, and how many they are.
    fn replacements(
        &mut self,
        shared: &Shared,
        random: impl Fn() -> u64,
    ) -> (Vec<RequestOp>, usize) {
        let mut operations = Vec::new();
        let mut count = 0;
        for entry in self.entries.iter_mut().filter(|entry| entry.is_changed) {
            let left: Vec<&Written> = entry.written.iter().flatten().collect();
            let undo = undo::encode_written(left.iter().copied());
            let bytes = undo.len() + CHANGE_OVERHEAD_BYTES * left.len();
            entry.logged.undo = Undo::Inline(undo);
            operations.push(delete(shared.layout.log(entry.id)));
            entry.id = Id { of: Some(entry.revision), ..entry.id.sized(bytes, random()) };
            operations.push(put(shared.layout.log(entry.id), entry.logged.encode()));
            entry.is_changed = false;
            count += 1;
        }
        (operations, count)
    }
}
