//! Which watchers a change concerns: a watcher sleeps until something happens in its own range.
//!
//! Watchers of one range share a topic. A topic keeps the recent changes of its range, so that a
//! watcher costs nothing when others write, and one that has read them all is never behind however
//! much is forgotten elsewhere. Topics are found by a prefix that every key of their range has.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use tokio::sync::watch;

use crate::state::{TAKE_BATCHES_MAX, within};
use crate::{Batch, Key, KeyRange, Revision};

/// Wakes whoever waits for a topic.
pub(crate) type Wake = watch::Sender<Revision>;

/// All topics of a store.
#[derive(Default)]
pub(crate) struct Topics {
    by_prefix: BTreeMap<Box<[u8]>, Vec<Topic>>,
}

struct Topic {
    range: KeyRange,
    watchers: usize,
    wake: Wake,
    /// The newest change of the range.
    last: Revision,
    /// Every change of the range after this is in `recent`.
    complete_after: Revision,
    recent: VecDeque<Arc<Batch>>,
}

/// What a topic knows for a watcher at a position.
pub(crate) enum Known {
    /// All changes up to `through`.
    Changes { batches: Vec<Arc<Batch>>, through: Revision },
    /// They are older than the topic.
    Older,
}

impl Topics {
    /// Adds a watcher. The changes up to `head` are not the topic's to tell when it is new.
    pub fn join(&mut self, range: &KeyRange, head: Revision) -> watch::Receiver<Revision> {
        let topics = self.by_prefix.entry(prefix(range).into()).or_default();
        let at = topics.iter().position(|topic| topic.range == *range).unwrap_or_else(|| {
            topics.push(Topic::new(range.clone(), head));
            topics.len() - 1
        });
        topics[at].watchers += 1;
        topics[at].wake.subscribe()
    }

    /// Takes a watcher out; the last one takes the topic with it.
    pub fn leave(&mut self, range: &KeyRange) {
        let prefix = prefix(range);
        let Some(topics) = self.by_prefix.get_mut(prefix) else { return };
        if let Some(at) = topics.iter().position(|topic| topic.range == *range) {
            topics[at].watchers -= 1;
            if topics[at].watchers == 0 {
                topics.swap_remove(at);
            }
        }
        if topics.is_empty() {
            self.by_prefix.remove(prefix);
        }
    }

    /// Notes a new batch and says whom to wake.
    pub fn add(&mut self, batch: &Arc<Batch>, wakes: &mut Vec<Wake>) {
        for change in &batch.changes {
            self.visit(&change.key, |topic| {
                // A batch comes whole with the first of its changes.
                if topic.last < batch.revision {
                    topic.last = batch.revision;
                    topic.recent.extend(within(batch, &topic.range));
                    wakes.push(topic.wake.clone());
                }
            });
        }
    }

    /// Forgets the oldest batch.
    pub fn forget(&mut self, batch: &Batch) {
        for change in &batch.changes {
            self.visit(&change.key, |topic| {
                if topic.recent.front().is_some_and(|first| first.revision == batch.revision) {
                    topic.recent.pop_front();
                    topic.complete_after = batch.revision;
                }
            });
        }
    }

    /// What happened up to `head` is not known: whoever has not read up to it is behind.
    pub fn reset(&mut self, head: Revision) {
        for topic in self.by_prefix.values_mut().flatten() {
            topic.recent.clear();
            topic.last = head;
            topic.complete_after = head;
        }
    }

    pub fn wakes(&self) -> Vec<Wake> {
        self.by_prefix.values().flatten().map(|topic| topic.wake.clone()).collect()
    }

    /// The changes of a range after a position, as far as its topic has them.
    pub fn since(&self, position: Revision, range: &KeyRange, head: Revision) -> Known {
        let topics = self.by_prefix.get(prefix(range));
        let topic = topics.and_then(|topics| topics.iter().find(|topic| topic.range == *range));
        let Some(topic) = topic else { return Known::Older };
        if position < topic.complete_after {
            return Known::Older;
        }
        let from = topic.recent.partition_point(|batch| batch.revision <= position);
        let mut rest = topic.recent.range(from..);
        let batches: Vec<_> = rest.by_ref().take(TAKE_BATCHES_MAX).cloned().collect();
        let through = match rest.next() {
            Some(next) => next.revision.before(),
            None => head.max(position),
        };
        Known::Changes { batches, through }
    }

    /// Calls for every topic whose range has the key. The prefixes of a key that are there are
    /// found from the longest to the shortest; each step ends at one, or shortens what is looked
    /// for to what the key and its neighbour have in common.
    fn visit(&mut self, key: &Key, mut act: impl FnMut(&mut Topic)) {
        let key_bytes = key.as_bytes();
        let mut length = key_bytes.len();
        loop {
            let up_to = (Bound::Unbounded, Bound::Included(&key_bytes[..length]));
            let Some((prefix, topics)) = self.by_prefix.range_mut::<[u8], _>(up_to).next_back()
            else {
                return;
            };
            let shared = shared_length(prefix, key_bytes);
            if shared < prefix.len() {
                length = shared;
                continue;
            }
            topics.iter_mut().filter(|topic| topic.range.contains(key)).for_each(&mut act);
            if shared == 0 {
                return;
            }
            length = shared - 1;
        }
    }
}

impl Topic {
    fn new(range: KeyRange, head: Revision) -> Topic {
        let (wake, _) = watch::channel(head);
        let recent = VecDeque::new();
        Topic { range, watchers: 0, wake, last: head, complete_after: head, recent }
    }
}

/// What every key of a range begins with.
fn prefix(range: &KeyRange) -> &[u8] {
    match &range.end {
        Some(end) => &range.start[..shared_length(&range.start, end)],
        None => &[],
    }
}

fn shared_length(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Change, Provenance};

    fn batch(revision: u64, keys: &[&str]) -> Arc<Batch> {
        let change =
            |key: &&str| Change { key: Key::new(*key).unwrap(), entry: None, previous: None };
        let changes = keys.iter().map(change).collect();
        let provenance = Arc::new(Provenance::of(crate::Timestamp(0), "test"));
        Arc::new(Batch { revision: Revision(revision), provenance, changes })
    }

    fn told(topics: &Topics, range: &KeyRange, after: u64, head: u64) -> Option<Vec<u64>> {
        match topics.since(Revision(after), range, Revision(head)) {
            Known::Changes { batches, .. } => {
                Some(batches.iter().map(|batch| batch.revision.0).collect())
            }
            Known::Older => None,
        }
    }

    #[test]
    fn only_those_who_watch_a_range_are_woken() {
        let mut topics = Topics::default();
        let mut receivers = Vec::new();
        for text in ["pods/", "pods/a/", "pods/ab/", "services/", ""] {
            receivers.push((text, topics.join(&KeyRange::prefix(text), Revision::ZERO)));
        }
        let mut wakes = Vec::new();
        topics.add(&batch(1, &["pods/a/x"]), &mut wakes);
        for wake in wakes {
            wake.send_replace(Revision(1));
        }
        let woken: Vec<_> = receivers
            .iter()
            .filter(|(_, receiver)| receiver.has_changed().unwrap())
            .map(|(text, _)| *text)
            .collect();
        assert_eq!(woken, ["pods/", "pods/a/", ""]);
    }

    #[test]
    fn who_has_read_everything_of_a_range_is_not_behind_when_the_rest_is_forgotten() {
        let mut topics = Topics::default();
        let range = KeyRange::prefix("quiet/");
        let _receiver = topics.join(&range, Revision::ZERO);
        let (first, second) = (batch(1, &["quiet/a"]), batch(2, &["loud/a"]));
        let mut wakes = Vec::new();
        topics.add(&first, &mut wakes);
        topics.add(&second, &mut wakes);
        assert_eq!(told(&topics, &range, 0, 2), Some(vec![1]));
        topics.forget(&first);
        topics.forget(&second);
        assert_eq!(told(&topics, &range, 0, 2), None);
        assert_eq!(told(&topics, &range, 1, 2), Some(Vec::new()));
    }

    #[test]
    fn a_topic_goes_with_its_last_watcher() {
        let mut topics = Topics::default();
        let range = KeyRange::prefix("a");
        let _receivers = [topics.join(&range, Revision::ZERO), topics.join(&range, Revision::ZERO)];
        topics.leave(&range);
        assert_eq!(topics.by_prefix.len(), 1);
        topics.leave(&range);
        assert!(topics.by_prefix.is_empty());
    }

    proptest! {
        #[test]
        fn a_key_finds_exactly_the_ranges_that_have_it(
            bounds in proptest::collection::vec(("[ab/]{0,4}", "[ab/]{0,4}", 0..3_u8), 0..12),
            key in "[ab/]{1,5}",
        ) {
            let mut topics = Topics::default();
            let mut ranges = Vec::new();
            for (start, end, kind) in &bounds {
                let range = match kind {
                    0 => KeyRange::prefix(start),
                    1 => KeyRange::between(start, end),
                    _ => KeyRange { start: start.as_bytes().into(), end: None },
                };
                if !ranges.contains(&range) {
                    let _ = topics.join(&range, Revision::ZERO);
                    ranges.push(range);
                }
            }
            let key = Key::new(key).unwrap();
            let expected = ranges.iter().filter(|range| range.contains(&key)).count();
            let mut found = 0;
            topics.visit(&key, |_| found += 1);
            prop_assert_eq!(found, expected);
        }
    }
}
