//! Which watchers a change concerns: a watcher sleeps until something happens in its own range.
//!
//! Watchers of one range share a topic. A topic keeps the recent changes of its range, so that a
//! watcher costs nothing when others write, and one that has read them all is never behind however
//! much is forgotten elsewhere. Topics are found by a prefix that every key of their range has.
//! Watchers of one range may each want the entries that say one thing, as a node wants its pods:
//! such a topic has a channel for each answer.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use tokio::sync::watch;

use crate::state::{TAKE_BATCHES_MAX, within};
use crate::{Batch, Change, Entry, Key, KeyRange, Revision};

/// Wakes whoever waits for a topic.
pub(crate) type Wake = watch::Sender<Revision>;

/// All topics of a store.
#[derive(Default)]
pub(crate) struct Topics {
    by_prefix: BTreeMap<Box<[u8]>, Vec<Topic>>,
}

/// What an entry says of itself.
pub type Facet = for<'a> fn(&'a Entry) -> Option<&'a str>;

/// A watcher wants only changes of entries that say this, before or after.
#[derive(Clone, Debug)]
pub struct Interest {
    pub of: Facet,
    pub value: Box<str>,
}

/// What a watcher is to be told of.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    pub range: KeyRange,
    pub interest: Option<Interest>,
}

struct Topic {
    range: KeyRange,
    of: Option<Facet>,
    /// By what the entries say; one without a name where nothing is asked of them.
    channels: BTreeMap<Box<str>, Channel>,
}

struct Channel {
    watchers: usize,
    wake: Wake,
    /// The newest change.
    last: Revision,
    /// Every change after this is in `recent`.
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
    pub fn join(&mut self, scope: &Scope, head: Revision) -> watch::Receiver<Revision> {
        let topics = self.by_prefix.entry(prefix(&scope.range).into()).or_default();
        let at = topics.iter().position(|topic| topic.is_of(scope)).unwrap_or_else(|| {
            topics.push(Topic::new(scope));
            topics.len() - 1
        });
        let channels = &mut topics[at].channels;
        let channel = channels.entry(scope.value().into()).or_insert_with(|| Channel::new(head));
        channel.watchers += 1;
        channel.wake.subscribe()
    }

    /// Takes a watcher out; the last one takes the topic with it.
    pub fn leave(&mut self, scope: &Scope) {
        let prefix = prefix(&scope.range);
        let Some(topics) = self.by_prefix.get_mut(prefix) else { return };
        if let Some(at) = topics.iter().position(|topic| topic.is_of(scope)) {
            let channels = &mut topics[at].channels;
            if let Some(channel) = channels.get_mut(scope.value()) {
                channel.watchers -= 1;
                if channel.watchers == 0 {
                    channels.remove(scope.value());
                }
            }
            if channels.is_empty() {
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
                let Topic { range, of, channels } = topic;
                concerned(*of, channels, change, |channel| {
                    // A batch comes whole with the first of its changes.
                    if channel.last < batch.revision {
                        channel.last = batch.revision;
                        channel.recent.extend(within(batch, range));
                        wakes.push(channel.wake.clone());
                    }
                });
            });
        }
    }

    /// Forgets the oldest batch.
    pub fn forget(&mut self, batch: &Batch) {
        for change in &batch.changes {
            self.visit(&change.key, |topic| {
                concerned(topic.of, &mut topic.channels, change, |channel| {
                    let first = channel.recent.front();
                    if first.is_some_and(|first| first.revision == batch.revision) {
                        channel.recent.pop_front();
                        channel.complete_after = batch.revision;
                    }
                });
            });
        }
    }

    /// Forgets all batches up to a revision.
    pub fn forget_through(&mut self, through: Revision) {
        let topics = self.by_prefix.values_mut().flatten();
        for channel in topics.flat_map(|topic| topic.channels.values_mut()) {
            while channel.recent.front().is_some_and(|batch| batch.revision <= through) {
                channel.recent.pop_front();
            }
            channel.complete_after = channel.complete_after.max(through);
        }
    }

    /// What happened up to `head` is not known: whoever has not read up to it is behind.
    pub fn reset(&mut self, head: Revision) {
        let topics = self.by_prefix.values_mut().flatten();
        for channel in topics.flat_map(|topic| topic.channels.values_mut()) {
            channel.recent.clear();
            channel.last = head;
            channel.complete_after = head;
        }
    }

    pub fn wakes(&self) -> Vec<Wake> {
        let topics = self.by_prefix.values().flatten();
        let channels = topics.flat_map(|topic| topic.channels.values());
        channels.map(|channel| channel.wake.clone()).collect()
    }

    /// The changes that a watcher is to be told of after a position, as far as they are kept.
    pub fn since(&self, position: Revision, scope: &Scope, head: Revision) -> Known {
        let topics = self.by_prefix.get(prefix(&scope.range));
        let topic = topics.and_then(|topics| topics.iter().find(|topic| topic.is_of(scope)));
        let Some(channel) = topic.and_then(|topic| topic.channels.get(scope.value())) else {
            return Known::Older;
        };
        if position < channel.complete_after {
            return Known::Older;
        }
        let from = channel.recent.partition_point(|batch| batch.revision <= position);
        let mut rest = channel.recent.range(from..);
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

impl Scope {
    pub fn whole(range: KeyRange) -> Scope {
        Scope { range, interest: None }
    }

    fn value(&self) -> &str {
        self.interest.as_ref().map_or("", |interest| &interest.value)
    }
}

impl Topic {
    fn new(scope: &Scope) -> Topic {
        let of = scope.interest.as_ref().map(|interest| interest.of);
        Topic { range: scope.range.clone(), of, channels: BTreeMap::new() }
    }

    fn is_of(&self, scope: &Scope) -> bool {
        let is_same = match (self.of, &scope.interest) {
            (None, None) => true,
            (Some(own), Some(other)) => std::ptr::fn_addr_eq(own, other.of),
            _ => false,
        };
        is_same && self.range == scope.range
    }
}

impl Channel {
    fn new(head: Revision) -> Channel {
        let (wake, _) = watch::channel(head);
        let recent = VecDeque::new();
        Channel { watchers: 0, wake, last: head, complete_after: head, recent }
    }
}

/// Calls for every channel of a topic that a change is for.
fn concerned(
    of: Option<Facet>,
    channels: &mut BTreeMap<Box<str>, Channel>,
    change: &Change,
    mut act: impl FnMut(&mut Channel),
) {
    let Some(of) = of else {
        return channels.values_mut().for_each(act);
    };
    let new = change.entry.as_deref().and_then(of);
    let old = change.previous.as_deref().and_then(of).filter(|old| Some(*old) != new);
    for value in [new, old].into_iter().flatten() {
        if let Some(channel) = channels.get_mut(value) {
            act(channel);
        }
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

    fn prefixed(text: &str) -> Scope {
        Scope::whole(KeyRange::prefix(text))
    }

    fn told(topics: &Topics, range: &KeyRange, after: u64, head: u64) -> Option<Vec<u64>> {
        match topics.since(Revision(after), &Scope::whole(range.clone()), Revision(head)) {
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
            receivers.push((text, topics.join(&prefixed(text), Revision::ZERO)));
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
        let _receiver = topics.join(&Scope::whole(range.clone()), Revision::ZERO);
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
    fn who_wants_some_entries_is_told_when_they_come_and_when_they_go() {
        let entry = |said: &'static str| {
            let (key, value) = (Key::new("pods/a").unwrap(), said.into());
            Some(Arc::new(Entry::new(key, value, Revision(1), Revision(1))))
        };
        let batch = |revision: u64, previous, entry| {
            let change = Change { key: Key::new("pods/a").unwrap(), entry, previous };
            let provenance = Arc::new(Provenance::of(crate::Timestamp(0), "test"));
            Arc::new(Batch { revision: Revision(revision), provenance, changes: vec![change] })
        };
        let scope = |value: &str| Scope {
            range: KeyRange::prefix("pods/"),
            interest: Some(Interest {
                of: |entry| std::str::from_utf8(&entry.value).ok(),
                value: value.into(),
            }),
        };
        let mut topics = Topics::default();
        let scopes = [scope("one"), scope("two"), scope("three")];
        let _receivers = scopes.each_ref().map(|scope| topics.join(scope, Revision::ZERO));
        let batches = [
            batch(1, None, entry("one")),
            batch(2, entry("one"), entry("two")),
            batch(3, entry("two"), None),
        ];
        let mut wakes = Vec::new();
        batches.iter().for_each(|batch| topics.add(batch, &mut wakes));
        assert_eq!(wakes.len(), 4);
        let told = |topics: &Topics, scope, after| match topics.since(after, scope, Revision(3)) {
            Known::Changes { batches, through } => {
                assert_eq!(through, Revision(3));
                batches.iter().map(|batch| batch.revision.0).collect()
            }
            Known::Older => vec![0],
        };
        let all = |topics: &Topics, after| {
            scopes.each_ref().map(|scope| told(topics, scope, Revision(after)))
        };
        assert_eq!(all(&topics, 0), [vec![1, 2], vec![2, 3], vec![]]);
        topics.forget(&batches[0]);
        topics.forget(&batches[1]);
        assert_eq!(all(&topics, 1), [vec![0], vec![0], vec![]]);
        assert_eq!(all(&topics, 2), [vec![], vec![3], vec![]]);
        scopes.iter().for_each(|scope| topics.leave(scope));
        assert!(topics.by_prefix.is_empty());
    }

    #[test]
    fn a_topic_goes_with_its_last_watcher() {
        let mut topics = Topics::default();
        let range = prefixed("a");
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
                    let _ = topics.join(&Scope::whole(range.clone()), Revision::ZERO);
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
