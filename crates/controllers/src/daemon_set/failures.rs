//! How often the pods of a set have failed on a node: one that fails again and again is replaced
//! later and later. Forgotten when the process ends.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// How long the wait gets.
const WAIT_SECONDS_MAX: i64 = 15 * 60;
/// After so long without a failure a node counts as well.
const FORGET_SECONDS: i64 = 2 * WAIT_SECONDS_MAX;
/// Nodes with failures that are remembered.
const FAILURES_MAX: usize = 16_384;

#[derive(Default)]
pub struct Failures {
    known: Mutex<BTreeMap<(String, String), Failure>>,
}

struct Failure {
    /// The last pod that failed.
    pod: String,
    count: u32,
    /// When it was seen to have failed.
    seen: i64,
}

impl Failures {
    /// A pod of a set has failed on a node; returns when it may be replaced. The same failure may
    /// be told of again.
    pub fn note(&self, set: &str, node: &str, pod: &str, now: i64) -> i64 {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= FAILURES_MAX {
            known.retain(|_, failure| now - failure.seen < FORGET_SECONDS);
        }
        if known.len() >= FAILURES_MAX {
            known.clear();
        }
        let place = (set.to_owned(), node.to_owned());
        let first = || Failure { pod: String::new(), count: 0, seen: now };
        let failure = known.entry(place).or_insert_with(first);
        if failure.pod != pod {
            let is_forgotten = now - failure.seen > FORGET_SECONDS;
            let count = if is_forgotten { 1 } else { failure.count.saturating_add(1) };
            *failure = Failure { pod: pod.to_owned(), count, seen: now };
        }
        failure.seen + wait(failure.count)
    }
}

impl Failures {
    /// How often pods of a set have failed, by node.
    pub fn of(&self, set: &str) -> BTreeMap<String, u32> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let from = (set.to_owned(), String::new());
        let own = known.range(from..).take_while(|((of, _), _)| of == set);
        own.map(|((_, node), failure)| (node.clone(), failure.count)).collect()
    }
}

/// At once, then after one second, two, four.
fn wait(count: u32) -> i64 {
    match count {
        0 | 1 => 0,
        count => (1_i64 << (count - 2).min(20)).min(WAIT_SECONDS_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_in_a_row_waits_longer() {
        let failures = Failures::default();
        let waits: Vec<i64> =
            (0..13).map(|at| failures.note("set", "node", &at.to_string(), 100) - 100).collect();
        assert_eq!(waits, [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]);
        assert_eq!(failures.note("set", "node", "12", 500), 1_000);
        assert_eq!(failures.note("set", "other", "x", 500), 500);
        assert_eq!(
            failures.of("set"),
            [("node", 13), ("other", 1)].map(|(n, c)| (n.to_owned(), c)).into()
        );
        assert!(failures.of("se").is_empty());
        assert_eq!(failures.note("set", "node", "late", 5_000), 5_000);
    }
}
