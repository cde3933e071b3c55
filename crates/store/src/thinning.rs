//! Which of many changes of one key may be forgotten before the rest of the history is.
//!
//! What is churn only the user of the store knows: it gives a classifier. Of churn that is old
//! enough the last change of each interval is kept, so that what changes all the time cannot push
//! out what changes rarely.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;

use crate::{Key, Timestamp};

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

/// One write of a stretch of history.
pub(crate) struct Seen<'a> {
    pub time: Timestamp,
    pub key: &'a Key,
    /// `None` is a deletion.
    pub value: Option<&'a Bytes>,
}

/// For each write, in order, whether it may go: it is churn, and a later one of the same key and
/// interval is there. The first of a key stays, since what was before it is not known here.
pub(crate) fn superfluous(writes: &[Seen<'_>], thinning: &Thinning) -> Vec<bool> {
    let interval = i64::try_from(thinning.interval.as_micros()).unwrap_or(i64::MAX).max(1);
    let bucket = |seen: &Seen<'_>| seen.time.0.div_euclid(interval);
    // Backwards: whether another follows is cheap to know, and asked before what is costly.
    let mut next: HashMap<&Key, i64> = HashMap::new();
    let mut is_followed = vec![false; writes.len()];
    for (at, seen) in writes.iter().enumerate().rev() {
        is_followed[at] = next.insert(seen.key, bucket(seen)) == Some(bucket(seen));
    }
    let mut last: HashMap<&Key, &Bytes> = HashMap::new();
    let mut may_go = Vec::with_capacity(writes.len());
    for (seen, is_followed) in writes.iter().zip(is_followed) {
        let before = match seen.value {
            Some(value) => last.insert(seen.key, value),
            None => last.remove(seen.key),
        };
        may_go.push(match (before, seen.value) {
            (Some(before), Some(value)) if is_followed => {
                (thinning.is_churn)(seen.key, before, value)
            }
            _ => false,
        });
    }
    may_go
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
                key,
                value: value.as_ref(),
            })
            .collect();
        let expected: Vec<bool> = script.iter().map(|(.., gone)| *gone).collect();
        assert_eq!(superfluous(&writes, &thinning), expected);
    }
}
