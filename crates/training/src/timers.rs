//! How much of a time is left, whatever happens to the clock meanwhile.
//!
//! When a time is first asked for, what is left of it is read from the clock; from then on only
//! the time that passes counts. A clock that is set forward ends nothing early.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

/// Times that are kept; beyond that the clock is believed again.
const TIMERS_MAX: usize = 65_536;

/// The times that a controller waits for, by whose they are and when they began.
#[derive(Debug, Default)]
pub struct Timers {
    ends: Mutex<BTreeMap<(String, i64), Instant>>,
}

impl Timers {
    /// What is left of so many seconds from `since`.
    pub fn left(&self, uid: &str, since: Timestamp, seconds: u64, now: Timestamp) -> Duration {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let instant = Instant::now();
        if ends.len() >= TIMERS_MAX {
            ends.clear();
        }
        let end = ends.entry((uid.to_owned(), since.as_second())).or_insert_with(|| {
            let passed = now.duration_since(since).as_secs_f64().max(0.0);
            let left = (seconds as f64 - passed).max(0.0);
            instant + Duration::from_secs_f64(left)
        });
        end.saturating_duration_since(instant)
    }

    /// Forgets what an object waited for.
    pub fn forget(&self, uid: &str) {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.retain(|(of, _), _| of != uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_jumps_changes_nothing() {
        let at = |second| Timestamp::from_second(second).expect("a time");
        let timers = Timers::default();
        assert_eq!(timers.left("a", at(100), 60, at(110)), Duration::from_secs(50));
        tokio::time::advance(Duration::from_secs(20)).await;
        assert_eq!(timers.left("a", at(100), 60, at(3_710)), Duration::from_secs(30));
        // Another beginning is another time.
        assert_eq!(timers.left("a", at(120), 60, at(130)), Duration::from_secs(50));
        tokio::time::advance(Duration::from_secs(31)).await;
        assert_eq!(timers.left("a", at(100), 60, at(0)), Duration::ZERO);
        timers.forget("a");
        assert_eq!(timers.left("a", at(100), 60, at(110)), Duration::from_secs(50));
    }
}
