//! Changes that are no longer in memory, from the log in etcd.
//!
//! The log says what each commit replaced, so history is walked backwards from a state that is
//! known. Every step is checked: a commit must have written just what is there. Where another
//! program wrote between, nobody knows the truth, and the answer is "compacted".

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use tonic::Status;

use crate::state::{Past, View};
use crate::{Batch, Change, Changes, Entry, Error, Key, KeyRange, PageRequest, Revision};

use super::Shared;
use super::failure;
use super::journal::Source;
use super::layout::Id;
use super::messages::{RangeRequest, TxnRequest, range as range_op};
use super::thin;
use super::undo::{self, Kind, Logged, Undo, Written};

/// How much of an answer is kept; the newest changes are left for the next call.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// Log entries are read in groups of at most so many, and about so large.
const GROUP_ENTRIES_MAX: usize = 100;
const GROUP_BYTES_MAX: u64 = 4 << 20;
const READ_DEADLINE: Duration = Duration::from_secs(10);
/// How long the follower may take to see what is known to be there, and how often it is asked.
const SHOW_DEADLINE: Duration = Duration::from_secs(5);
const SHOW_PAUSE: Duration = Duration::from_millis(5);

/// The changes of a range after one revision, up to another that the state can reconstruct.
pub async fn older(
    shared: &Shared,
    range: &KeyRange,
    after: Revision,
    to: Revision,
) -> Result<Changes, Error> {
    loop {
        let seen = shared.known().applied;
        let changes = walk_back(shared, range, after, to).await;
        if !matches!(changes, Err(Error::Compacted { .. })) {
            return changes;
        }
        // Log entries that were taken for others meanwhile look like lost ones.
        let thinned = thin::last_written(shared).await.map_err(|status| {
            failure::unavailable(&shared.client, "read the history from", status)
        })?;
        if thinned <= seen || !is_shown(shared, thinned).await {
            return changes;
        }
    }
}

/// Waits until the follower has seen a revision of etcd.
async fn is_shown(shared: &Shared, revision: Revision) -> bool {
    let deadline = Instant::now() + SHOW_DEADLINE;
    while shared.known().applied < revision {
        if Instant::now() > deadline {
            return false;
        }
        tokio::time::sleep(SHOW_PAUSE).await;
    }
    true
}

async fn walk_back(
    shared: &Shared,
    range: &KeyRange,
    after: Revision,
    to: Revision,
) -> Result<Changes, Error> {
    if to <= after {
        return Ok(Changes { batches: Vec::new(), through: to });
    }
    let (view, upper) = match shared.state.at(to, range)? {
        Past::Known(view) => (view, to),
        Past::Older { view, base } => (view, base),
    };
    let entries = entries(shared, after, upper)?;
    let mut walk = Walk::new(view, range, after, to);
    for group in groups(&entries) {
        let read = read_group(shared, group).await.map_err(|error| match error {
            Unreadable::Gone => walk.lost(),
            Unreadable::Failed(status) => {
                failure::unavailable(&shared.client, "read the history from", status)
            }
        })?;
        for (revision, logged, written) in read {
            walk.step(revision, logged, written)?;
        }
    }
    let changes = walk.finish(upper)?;
    // What was compacted meanwhile may be missing above.
    entries_known(shared, after)?;
    Ok(changes)
}

/// The log entries of a stretch, the newest first.
fn entries(
    shared: &Shared,
    after: Revision,
    upper: Revision,
) -> Result<Vec<(Revision, Id)>, Error> {
    let journal = shared.known().journal.newest_first(after.next()..=upper);
    // Only now: entries vanish after they are known to be compacted.
    entries_known(shared, after)?;
    let mut entries = Vec::with_capacity(journal.len());
    for (revision, source) in journal {
        match source {
            Source::Logged(id) => entries.push((revision, id)),
            Source::Foreign { .. } => return Err(lost(after, revision.next())),
        }
    }
    Ok(entries)
}

fn entries_known(shared: &Shared, after: Revision) -> Result<(), Error> {
    let oldest = shared.state.compacted();
    if after.next() < oldest || after < shared.known().complete_from {
        return Err(lost(after, oldest));
    }
    Ok(())
}

fn lost(after: Revision, oldest: Revision) -> Error {
    Error::Compacted { requested: after.next(), oldest }
}

fn groups(entries: &[(Revision, Id)]) -> Vec<&[(Revision, Id)]> {
    let mut groups = Vec::new();
    let mut rest = entries;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = rest.iter().take(GROUP_ENTRIES_MAX).take_while(|(_, id)| {
            bytes += u64::from(id.bytes);
            bytes <= GROUP_BYTES_MAX
        });
        let (group, others) = rest.split_at(fits.count().max(1));
        groups.push(group);
        rest = others;
    }
    groups
}

pub enum Unreadable {
    /// An entry is not there, or is not one.
    Gone,
    Failed(Status),
}

pub type Read = (Revision, Logged, Vec<Written>);

/// Reads log entries. Those that were given up are left out: nothing happened at their revision.
pub async fn read_group(
    shared: &Shared,
    group: &[(Revision, Id)],
) -> Result<Vec<Read>, Unreadable> {
    let keys = group.iter().map(|(_, id)| shared.layout.log(*id)).collect();
    let values = read_keys(shared, keys).await?;
    let mut read = Vec::with_capacity(group.len());
    for ((revision, id), value) in group.iter().zip(values) {
        if value.is_empty() {
            continue;
        }
        let logged = Logged::decode(&value).map_err(|_| Unreadable::Gone)?;
        let written = match &logged.undo {
            Undo::Inline(written) => written.clone(),
            Undo::Aside { parts, bytes } => read_aside(shared, *id, *parts, *bytes).await?,
        };
        let written = undo::decode_written(&written).map_err(|_| Unreadable::Gone)?;
        read.push((*revision, logged, written));
    }
    Ok(read)
}

async fn read_aside(
    shared: &Shared,
    id: Id,
    parts: usize,
    bytes: usize,
) -> Result<Bytes, Unreadable> {
    let mut whole = Vec::new();
    for part in 0..parts {
        let values = read_keys(shared, vec![shared.layout.previous(id, part)]).await?;
        values.iter().for_each(|value| whole.extend_from_slice(value));
    }
    if whole.len() != bytes {
        return Err(Unreadable::Gone);
    }
    Ok(whole.into())
}

/// The values of keys that must all be there.
async fn read_keys(shared: &Shared, keys: Vec<Bytes>) -> Result<Vec<Bytes>, Unreadable> {
    let count = keys.len();
    let success = keys.into_iter().map(|key| range_op(RangeRequest::one(key))).collect();
    let request = TxnRequest { success, ..TxnRequest::default() };
    let deadline = Instant::now() + READ_DEADLINE;
    let answer = shared.client.txn_until(deadline, request).await.map_err(Unreadable::Failed)?;
    let values: Vec<Bytes> = answer
        .ranges()
        .filter_map(|range| range.kvs.into_iter().next())
        .map(|kv| kv.value)
        .collect();
    if values.len() != count {
        return Err(Unreadable::Gone);
    }
    Ok(values)
}

/// A walk back through history.
struct Walk<'a> {
    view: View,
    range: &'a KeyRange,
    after: Revision,
    to: Revision,
    /// Keys that differ from the view, as they were before the newest commit taken back.
    before: BTreeMap<Key, Option<Arc<Entry>>>,
    /// The newest first.
    batches: std::collections::VecDeque<Arc<Batch>>,
    bytes: u64,
    through: Revision,
    /// History is known from here on.
    known_from: Revision,
}

impl<'a> Walk<'a> {
    fn new(view: View, range: &'a KeyRange, after: Revision, to: Revision) -> Walk<'a> {
        let known_from = view.revision;
        Walk {
            view,
            range,
            after,
            to,
            before: BTreeMap::new(),
            batches: std::collections::VecDeque::new(),
            bytes: 0,
            through: to,
            known_from,
        }
    }

    /// Takes the next older commit back.
    fn step(
        &mut self,
        revision: Revision,
        logged: Logged,
        written: Vec<Written>,
    ) -> Result<(), Error> {
        let mut changes = Vec::new();
        for Written { key, kind, previous } in written {
            if !self.range.contains(&key) {
                continue;
            }
            let entry = match self.before.get(&key) {
                Some(entry) => entry.clone(),
                None => self.view.get(&key),
            };
            let modified = entry.as_ref().map(|entry| entry.modified);
            let expected = (kind == Kind::Put).then_some(revision);
            if modified != expected {
                return Err(self.lost());
            }
            self.before.insert(key.clone(), previous.clone());
            changes.push(Change { key, entry, previous });
        }
        self.known_from = revision;
        if !changes.is_empty() && revision <= self.to {
            let provenance = logged.provenance;
            self.keep(Arc::new(Batch { revision, provenance, changes }));
        }
        Ok(())
    }

    fn keep(&mut self, batch: Arc<Batch>) {
        self.bytes += batch.cost();
        self.batches.push_back(batch);
        while self.bytes > ANSWER_BYTES_MAX && self.batches.len() > 1 {
            if let Some(newest) = self.batches.pop_front() {
                self.bytes -= newest.cost();
                self.through = newest.revision.before();
            }
        }
    }

    /// The changes in their order, when nothing else was written between.
    fn finish(self, upper: Revision) -> Result<Changes, Error> {
        let unexplained =
            |entry: &Arc<Entry>| entry.modified > self.after && entry.modified <= upper;
        if self.before.values().flatten().any(unexplained) {
            return Err(self.lost());
        }
        let page = self.view.list(self.range, &PageRequest::all());
        let untouched = |entry: &&Arc<Entry>| !self.before.contains_key(&entry.key);
        if page.entries.iter().filter(untouched).any(unexplained) {
            return Err(self.lost());
        }
        Ok(Changes { batches: self.batches.into_iter().rev().collect(), through: self.through })
    }

    fn lost(&self) -> Error {
        lost(self.after, self.known_from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Start, State};
    use crate::tree::Tree;
    use crate::{Provenance, Timestamp};

    fn entry(name: &str, modified: u64) -> Arc<Entry> {
        let (key, modified) = (Key::new(name).unwrap(), Revision(modified));
        Arc::new(Entry::new(key, Bytes::new(), modified, modified))
    }

    /// A view at revision 10.
    fn view(entries: Vec<Arc<Entry>>) -> View {
        let (head, base) = (Revision(10), Revision(10));
        let tree = Tree::from_sorted(entries);
        let start = Start { tree, head, compacted: Revision::ZERO, recent: Vec::new(), base };
        State::new(start, 1).live()
    }

    fn walk(view: View, commits: Vec<(u64, Written)>) -> Result<Changes, Error> {
        let range = KeyRange::all();
        let mut walk = Walk::new(view, &range, Revision(1), Revision(10));
        for (revision, written) in commits {
            let provenance = Arc::new(Provenance::of(Timestamp(0), "someone"));
            let logged = Logged { provenance, epoch: None, undo: Undo::Inline(Bytes::new()) };
            walk.step(Revision(revision), logged, vec![written])?;
        }
        walk.finish(Revision(10))
    }

    fn wrote(name: &str, previous: Option<Arc<Entry>>) -> Written {
        Written { key: Key::new(name).unwrap(), kind: Kind::Put, previous }
    }

    fn deleted(name: &str, previous: Option<Arc<Entry>>) -> Written {
        Written { key: Key::new(name).unwrap(), kind: Kind::Delete, previous }
    }

    fn is_lost(result: Result<Changes, Error>) -> bool {
        matches!(result, Err(Error::Compacted { .. }))
    }

    #[test]
    fn changes_come_in_order_with_what_was_there_before_and_after() {
        let commits = vec![
            (9, deleted("a", Some(entry("a", 5)))),
            (8, wrote("b", Some(entry("b", 1)))),
            (5, wrote("a", None)),
        ];
        let changes = walk(view(vec![entry("b", 8)]), commits).unwrap();
        let revisions: Vec<_> = changes.batches.iter().map(|batch| batch.revision.0).collect();
        assert_eq!((revisions, changes.through), (vec![5, 8, 9], Revision(10)));
        let made = &changes.batches[0].changes[0];
        assert_eq!((&made.entry, &made.previous), (&Some(entry("a", 5)), &None));
    }

    #[test]
    fn a_foreign_write_on_top_is_found() {
        assert!(is_lost(walk(view(vec![entry("a", 7)]), vec![(5, wrote("a", None))])));
    }

    #[test]
    fn a_foreign_write_below_is_found() {
        let commits = vec![(5, wrote("a", Some(entry("a", 3))))];
        assert!(is_lost(walk(view(vec![entry("a", 5)]), commits)));
    }

    #[test]
    fn a_foreign_key_is_found() {
        assert!(is_lost(walk(view(vec![entry("a", 7)]), vec![])));
    }

    #[test]
    fn a_foreign_deletion_is_found() {
        assert!(is_lost(walk(view(vec![]), vec![(5, wrote("a", None))])));
    }

    #[test]
    fn a_long_answer_ends_early_and_says_so() {
        let range = KeyRange::all();
        let mut walk = Walk::new(view(vec![]), &range, Revision(1), Revision(10));
        for revision in [9, 7, 3] {
            let value = vec![0; (ANSWER_BYTES_MAX / 5 * 2) as usize].into();
            let (key, at) = (Key::new("a").unwrap(), Revision(revision));
            let large = Arc::new(Entry::new(key.clone(), value, at, at));
            let change = Change { key, entry: Some(large), previous: None };
            let provenance = Arc::new(Provenance::of(Timestamp(0), "someone"));
            walk.keep(Arc::new(Batch { revision: at, provenance, changes: vec![change] }));
        }
        let revisions: Vec<_> = walk.batches.iter().map(|batch| batch.revision.0).collect();
        assert_eq!((revisions, walk.through), (vec![7, 3], Revision(8)));
    }
}
