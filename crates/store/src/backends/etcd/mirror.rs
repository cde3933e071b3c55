//! The entries of etcd in memory, and what its events do to them.
//!
//! Pure: `follow.rs` brings the events and publishes what comes out.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use crate::tree::Tree;
use crate::{Batch, Change, Entry, Epoch, Key, Provenance, Revision, Timestamp};

use super::journal::Source;
use super::layout::{Id, Layout, Place};
use super::messages::{Event, EventType, KeyValue};
use super::undo::Logged;

/// A copy of the entries, as they were at a revision.
pub struct Mirror {
    pub layout: Layout,
    pub tree: Tree,
    /// Every event up to here has been taken.
    pub position: Revision,
}

/// What a group of events means.
#[derive(Default)]
pub struct Taken {
    /// Changes of entries, one batch for each revision.
    pub batches: Vec<Arc<Batch>>,
    pub epochs: Vec<Epoch>,
    pub journal: Vec<(Revision, Source)>,
    /// Log entries that are gone.
    pub deleted: Vec<Id>,
    pub compacted: Option<Revision>,
    /// Churn was taken out of the history up to here.
    pub thinned: Option<Revision>,
    pub format: Option<Bytes>,
}

impl Mirror {
    /// Takes events in the order in which etcd sends them. Those that were taken before are left
    /// out, so that a watch may begin anywhere.
    pub fn take(&mut self, events: Vec<Event>, now: Timestamp) -> Taken {
        let mut taken = Taken::default();
        let mut events: VecDeque<_> = events.into();
        while let Some(revision) = events.front().map(revision_of) {
            let count = events.iter().take_while(|event| revision_of(event) == revision).count();
            let same: Vec<Event> = events.drain(..count).collect();
            if revision > self.position {
                self.take_revision(revision, same, now, &mut taken);
                self.position = revision;
            }
        }
        taken
    }

    fn take_revision(
        &mut self,
        revision: Revision,
        events: Vec<Event>,
        now: Timestamp,
        taken: &mut Taken,
    ) {
        let mut changes = Vec::new();
        let mut logged = None;
        for event in events {
            let put = event.kind == EventType::Put as i32;
            let Some(kv) = event.kv else { continue };
            match self.layout.place(&kv.key) {
                Place::Entry(key) => changes.extend(self.change(key, put.then_some(&kv))),
                Place::Log(id @ Id { of: Some(revision), .. }) if put => {
                    taken.journal.push((revision, Source::Logged(id)));
                    taken.thinned = taken.thinned.max(Some(revision));
                }
                Place::Log(id) if put => logged = Some((id, kv.value)),
                Place::Log(id) => taken.deleted.push(id),
                Place::Epoch(group) if put => taken.epochs.extend(epoch(group, &kv.value)),
                Place::Compacted if put => {
                    taken.compacted = number(&kv.value).map(Revision).max(taken.compacted);
                }
                Place::Format if put => taken.format = Some(kv.value),
                _ => {}
            }
        }
        let known = logged.as_ref().and_then(|(_, value)| Logged::decode(value).ok());
        match (logged, changes.is_empty()) {
            (Some((id, _)), _) => taken.journal.push((revision, Source::Logged(id))),
            (None, false) => taken.journal.push((revision, Source::Foreign { seen: now })),
            (None, true) => {}
        }
        if !changes.is_empty() {
            let provenance = match known {
                Some(known) => known.provenance,
                None => Arc::new(Provenance::of(now, "etcd")),
            };
            taken.batches.push(Arc::new(Batch { revision, provenance, changes }));
        }
    }

    /// `None` when the key was deleted and is not here: it was made and deleted by names that
    /// nobody of ours can have seen.
    fn change(&mut self, key: Key, put: Option<&KeyValue>) -> Option<Change> {
        let Some(kv) = put else {
            let previous = self.tree.remove(&key)?;
            return Some(Change { key, entry: None, previous: Some(previous) });
        };
        let entry = Arc::new(entry(key.clone(), kv));
        let previous = self.tree.insert(entry.clone());
        Some(Change { key, entry: Some(entry), previous })
    }
}

/// An entry as etcd stores it.
pub fn entry(key: Key, kv: &KeyValue) -> Entry {
    let (created, modified) = (revision(kv.create_revision), revision(kv.mod_revision));
    // A copy: the value is a part of the whole answer, which would stay in memory with it.
    Entry::new(key, Bytes::copy_from_slice(&kv.value), created, modified)
}

/// etcd's revisions are signed, and never negative.
pub fn revision(number: i64) -> Revision {
    Revision(u64::try_from(number).unwrap_or(0))
}

pub fn signed(revision: Revision) -> i64 {
    i64::try_from(revision.0).unwrap_or(i64::MAX)
}

/// Numbers are stored so that the order of bytes is their order.
pub fn number(value: &[u8]) -> Option<u64> {
    value.try_into().ok().map(u64::from_be_bytes)
}

pub fn number_bytes(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

pub fn epoch(group: &str, value: &[u8]) -> Option<Epoch> {
    Some(Epoch { group: group.into(), number: number(value)? })
}

fn revision_of(event: &Event) -> Revision {
    event.kv.as_ref().map_or(Revision::ZERO, |kv| revision(kv.mod_revision))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backends::etcd::undo::Undo;

    fn layout() -> Layout {
        Layout::new("/p").unwrap()
    }

    fn mirror() -> Mirror {
        Mirror { layout: layout(), tree: Tree::default(), position: Revision(1) }
    }

    fn put(key: Bytes, revision: i64, value: &'static str) -> Event {
        let (create_revision, mod_revision) = (revision, revision);
        let kv = KeyValue { key, create_revision, mod_revision, value: value.into() };
        Event { kind: EventType::Put as i32, kv: Some(kv) }
    }

    fn delete(key: Bytes, mod_revision: i64) -> Event {
        let kv = KeyValue { key, mod_revision, ..KeyValue::default() };
        Event { kind: EventType::Delete as i32, kv: Some(kv) }
    }

    fn entry_key(name: &str) -> Bytes {
        layout().entry(&Key::new(name).unwrap())
    }

    #[test]
    fn the_events_of_a_revision_are_one_batch_with_what_was_there_before() {
        let events = vec![
            put(entry_key("a"), 2, "1"),
            put(entry_key("b"), 2, "1"),
            put(entry_key("a"), 3, "2"),
            delete(entry_key("b"), 4),
        ];
        let taken = mirror().take(events, Timestamp(7));
        let revisions: Vec<_> = taken.batches.iter().map(|batch| batch.revision.0).collect();
        assert_eq!(revisions, [2, 3, 4]);
        assert_eq!(taken.batches[0].changes.len(), 2);
        let previous = taken.batches[1].changes[0].previous.as_ref().unwrap();
        assert_eq!(previous.modified, Revision(2));
        let deleted = &taken.batches[2].changes[0];
        assert_eq!(deleted.entry, None);
        assert_eq!(deleted.previous.as_ref().unwrap().value, "1");
    }

    #[test]
    fn events_at_or_below_the_position_are_left_out() {
        let mut mirror = mirror();
        let event = || vec![put(entry_key("a"), 2, "1")];
        assert_eq!(mirror.take(event(), Timestamp(0)).batches.len(), 1);
        assert_eq!(mirror.take(event(), Timestamp(0)).batches.len(), 0);
    }

    #[test]
    fn a_commit_brings_its_provenance_and_others_are_foreign() {
        let id = Id { time: 1, bytes: 2, random: 3, of: None };
        let provenance = Arc::new(Provenance::of(Timestamp(5), "someone"));
        let undo = Undo::Aside { parts: 1, bytes: 1 };
        let logged = Logged { provenance: provenance.clone(), epoch: None, undo };
        let mut log = put(layout().log(id), 2, "");
        log.kv.as_mut().unwrap().value = logged.encode();
        let events = vec![put(entry_key("a"), 2, "1"), log, put(entry_key("a"), 3, "2")];
        let taken = mirror().take(events, Timestamp(7));
        assert_eq!(taken.batches[0].provenance, provenance);
        assert_eq!(&*taken.batches[1].provenance.actor, "etcd");
        let seen = Timestamp(7);
        let expected = [(Revision(2), Source::Logged(id)), (Revision(3), Source::Foreign { seen })];
        assert_eq!(taken.journal, expected);
    }

    #[test]
    fn what_is_not_ours_changes_nothing() {
        let events = vec![
            put("/p/registry/".into(), 2, "x"),
            put("/p/s".into(), 3, "x"),
            delete(entry_key("unknown"), 4),
        ];
        let mut mirror = mirror();
        let taken = mirror.take(events, Timestamp(7));
        assert!(taken.batches.is_empty() && taken.journal.is_empty());
        assert_eq!(mirror.position, Revision(4));
    }
}
