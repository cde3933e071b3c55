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

/// A time that nobody waits to the end of; what is longer is as long.
const SECONDS_MAX: f64 = 100.0 * 365.0 * 86_400.0;

/// The times that a controller waits for, by whose they are, when they began and how long they are.
#[derive(Debug, Default)]
pub struct Timers {
    ends: Mutex<BTreeMap<(String, i64, u64), Instant>>,
}

impl Timers {
    /// What is left of so many seconds from `since`.
    pub fn left(&self, uid: &str, since: Timestamp, seconds: u64, now: Timestamp) -> Duration {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let instant = Instant::now();
        if ends.len() >= TIMERS_MAX {
            ends.clear();
        }
        let end = ends.entry((uid.to_owned(), since.as_second(), seconds)).or_insert_with(|| {
            let passed = now.duration_since(since).as_secs_f64().max(0.0);
            let left = (seconds as f64 - passed).clamp(0.0, SECONDS_MAX);
            instant + Duration::from_secs_f64(left)
        });
        end.saturating_duration_since(instant)
    }

    /// Forgets what an object waited for.
    pub fn forget(&self, uid: &str) {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.retain(|(of, ..), _| of != uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_jumps_changes_nothing() {
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

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    #[tokio::test(start_paused = true)]
    async fn two_times_that_begin_together_end_apart() {
        let timers = Timers::default();
        assert_eq!(timers.left("a", at(100), 3_600, at(100)), Duration::from_secs(3_600));
        assert_eq!(timers.left("a", at(100), 10, at(100)), Duration::from_secs(10));
        assert_eq!(timers.left("a", at(100), 3_600, at(100)), Duration::from_secs(3_600));
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_that_is_changed_counts_as_it_is_changed() {
        let timers = Timers::default();
        assert_eq!(timers.left("a", at(100), 60, at(100)), Duration::from_secs(60));
        tokio::time::advance(Duration::from_secs(20)).await;
        assert_eq!(timers.left("a", at(100), 30, at(120)), Duration::from_secs(10));
        timers.forget("a");
        assert_eq!(timers.left("a", at(100), 5, at(120)), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_without_end_is_only_very_long() {
        let timers = Timers::default();
        for seconds in [i64::MAX as u64, u64::MAX] {
            let left = timers.left("a", at(100), seconds, at(100));
            assert_eq!(left, Duration::from_secs_f64(SECONDS_MAX));
        }
    }
}
