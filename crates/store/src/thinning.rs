//! Which of many changes of one key may be forgotten before the rest of the history is.
//!
//! What is churn only the user of the store knows: it gives a classifier. Of churn that is old
//! enough the last change of each interval is kept, so that what changes all the time cannot push
//! out what changes rarely.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::{Batch, Change, Entry, Key, Revision, Timestamp};

/// How old churn is thinned out.
#[derive(Clone, Copy, Debug)]
pub struct Thinning {
    /// Younger changes are all kept.
    pub after: Duration,
    /// Of churn one change is kept for each such interval.
    pub interval: Duration,
    /// Whether a change from one value to the next is churn.
    pub is_churn: fn(&Key, &Bytes, &Bytes) -> bool,
}

impl PartialEq for Thinning {
    fn eq(&self, other: &Thinning) -> bool {
        (self.after, self.interval) == (other.after, other.interval)
            && std::ptr::fn_addr_eq(self.is_churn, other.is_churn)
    }
}

impl Eq for Thinning {}

impl Thinning {
    /// The interval that a time lies in.
    pub(crate) fn interval_of(&self, time: Timestamp) -> i64 {
        time.0.div_euclid(self.interval_micros())
    }

    /// Up to when history may be thinned out now: only intervals that are old as a whole, so that
    /// each is looked at once.
    pub(crate) fn until(&self, now: Timestamp) -> Timestamp {
        let interval = self.interval_of(now.minus(self.after));
        Timestamp(interval.saturating_mul(self.interval_micros()))
    }

    pub(crate) fn interval_micros(&self) -> i64 {
        i64::try_from(self.interval.as_micros()).unwrap_or(i64::MAX).max(1)
    }
}

/// One write of a stretch of history.
pub(crate) struct Seen<'a> {
    pub time: Timestamp,
    /// Writes of different eras are never one for the other.
    pub era: usize,
    pub key: &'a Key,
    /// What was there before the first write of the key, where that is known.
    pub before: Option<&'a Bytes>,
    /// `None` is a deletion.
    pub value: Option<&'a Bytes>,
}

/// For each write, in order, whether it may go: it is churn, and a later one of the same key and
/// interval is there.
pub(crate) fn superfluous(writes: &[Seen<'_>], thinning: &Thinning) -> Vec<bool> {
    let bucket = |seen: &Seen<'_>| (thinning.interval_of(seen.time), seen.era);
    // Backwards: whether another follows is cheap to know, and asked before what is costly.
    let mut next: HashMap<&Key, (i64, usize)> = HashMap::new();
    let mut is_followed = vec![false; writes.len()];
    for (at, seen) in writes.iter().enumerate().rev() {
        is_followed[at] = next.insert(seen.key, bucket(seen)) == Some(bucket(seen));
    }
    let mut last: HashMap<&Key, Option<&Bytes>> = HashMap::new();
    let mut may_go = Vec::with_capacity(writes.len());
    for (seen, is_followed) in writes.iter().zip(is_followed) {
        let before = last.insert(seen.key, seen.value).unwrap_or(seen.before);
        may_go.push(match (before, seen.value) {
            (Some(before), Some(value)) if is_followed => {
                (thinning.is_churn)(seen.key, before, value)
            }
            _ => false,
        });
    }
    may_go
}

/// The batches of a stretch that are different without their churn. Each change tells of what was
/// before it, so the one after churn is told what was before that.
pub(crate) fn without_churn(
    batches: &[Arc<Batch>],
    thinning: &Thinning,
) -> BTreeMap<Revision, Arc<Batch>> {
    let value = |entry: &'_ Option<Arc<Entry>>| entry.as_ref().map(|entry| entry.value.clone());
    let values: Vec<Vec<(Option<Bytes>, Option<Bytes>)>> = batches
        .iter()
        .map(|batch| batch.changes.iter().map(|one| (value(&one.previous), value(&one.entry))))
        .map(Iterator::collect)
        .collect();
    let mut seen = Vec::new();
    for (batch, values) in batches.iter().zip(&values) {
        for (change, (before, value)) in batch.changes.iter().zip(values) {
            let (before, value) = (before.as_ref(), value.as_ref());
            let time = batch.provenance.time;
            seen.push(Seen { time, era: 0, key: &change.key, before, value });
        }
    }
    let mut gone = superfluous(&seen, thinning).into_iter();
    // What a key held before the churn that has gone.
    let mut before: HashMap<&Key, Option<Arc<Entry>>> = HashMap::new();
    let mut different = BTreeMap::new();
    for batch in batches {
        let mut changes = Vec::with_capacity(batch.changes.len());
        let mut is_different = false;
        for change in &batch.changes {
            if gone.next().unwrap_or(false) {
                before.entry(&change.key).or_insert_with(|| change.previous.clone());
                is_different = true;
                continue;
            }
            let mut change: Change = change.clone();
            if let Some((_, previous)) = before.remove_entry(&change.key) {
                change.previous = previous;
                is_different = true;
            }
            changes.push(change);
        }
        if is_different {
            let Batch { revision, provenance, .. } = &**batch;
            let batch = Batch { revision: *revision, provenance: provenance.clone(), changes };
            different.insert(*revision, Arc::new(batch));
        }
    }
    different
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that begin alike differ in churn only.
    fn is_churn(_: &Key, before: &Bytes, after: &Bytes) -> bool {
        before.first() == after.first()
    }

    #[test]
    fn of_churn_the_last_of_each_interval_stays_and_all_else_does() {
        let interval = Duration::from_secs(60);
        let thinning = Thinning { after: Duration::ZERO, interval, is_churn };
        let key = |name: &str| Key::new(name).unwrap();
        let (one, other) = (key("a"), key("b"));
        let script = [
            (0, &one, Some("x1"), false),
            (1, &one, Some("x2"), true),
            (2, &other, Some("x1"), false),
            (3, &one, Some("y3"), false),
            (4, &one, Some("y4"), true),
            (5, &one, Some("y5"), false),
            (61, &one, Some("y6"), true),
            (62, &one, None, false),
            (63, &one, Some("y7"), false),
            (64, &one, Some("y8"), false),
        ];
        let values: Vec<Option<Bytes>> =
            script.iter().map(|(_, _, value, _)| value.map(Bytes::from)).collect();
        let writes: Vec<Seen<'_>> = script
            .iter()
            .zip(&values)
            .map(|((second, key, ..), value)| Seen {
                time: Timestamp(second * 1_000_000),
                era: 0,
                key,
                before: None,
                value: value.as_ref(),
            })
            .collect();
        let expected: Vec<bool> = script.iter().map(|(.., gone)| *gone).collect();
        assert_eq!(superfluous(&writes, &thinning), expected);
    }

    #[test]
    fn the_change_after_churn_tells_of_what_was_before_it() {
        let interval = Duration::from_secs(60);
        let thinning = Thinning { after: Duration::ZERO, interval, is_churn };
        let key = Key::new("a").unwrap();
        let entry = |revision: u64, value: &'static str| {
            let revision = Revision(revision);
            let entry = Entry::new(key.clone(), value.into(), Revision(1), revision);
            (revision != Revision::ZERO).then(|| Arc::new(entry))
        };
        let script = ["x1", "x2", "x3", "x4"];
        let batches: Vec<Arc<Batch>> = (1..)
            .zip(script)
            .map(|(revision, value)| {
                let previous = entry(revision - 1, script[(revision as usize).saturating_sub(2)]);
                let change = Change { key: key.clone(), entry: entry(revision, value), previous };
                let provenance = Arc::new(crate::Provenance::of(Timestamp(0), "test"));
                Arc::new(Batch { revision: Revision(revision), provenance, changes: vec![change] })
            })
            .collect();
        let thinned = without_churn(&batches, &thinning);
        let sizes: Vec<_> = thinned.iter().map(|(at, batch)| (at.0, batch.changes.len())).collect();
        assert_eq!(sizes, [(2, 0), (3, 0), (4, 1)]);
        let last = &thinned[&Revision(4)].changes[0];
        assert_eq!(last.previous, entry(1, "x1"));
        assert_eq!(last.entry, entry(4, "x4"));
    }
}
