//! What whoever runs the program says of one controller: how many at once, how often, how patient.

use std::time::Duration;

use tokio::time::Instant;

use crate::reconciler::Settings;

/// What is not said is as the controller has it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tuning {
    pub workers_max: Option<usize>,
    /// Reconciles a second.
    pub per_second_max: Option<u32>,
    pub backoff_first: Option<Duration>,
    pub backoff_max: Option<Duration>,
}

impl Tuning {
    pub(crate) fn apply(&self, mut settings: Settings) -> Settings {
        settings.workers_max = self.workers_max.unwrap_or(settings.workers_max).max(1);
        settings.backoff.first = self.backoff_first.unwrap_or(settings.backoff.first);
        settings.backoff.max = self.backoff_max.unwrap_or(settings.backoff.max);
        settings
    }
}

/// Lets no more than so many begin in a second; what was not used within a second is lost.
#[derive(Debug)]
pub(crate) struct Pace {
    interval: Option<Duration>,
    /// When the last that was let begin would have begun, had they come evenly.
    even: Option<Instant>,
}

impl Pace {
    pub fn new(per_second_max: Option<u32>) -> Pace {
        let interval = per_second_max.map(|count| Duration::from_secs(1) / count.max(1));
        Pace { interval, even: None }
    }

    /// When the next may begin.
    pub fn next(&self, now: Instant) -> Instant {
        match (self.interval, self.even) {
            (Some(interval), Some(even)) => {
                let burst = Duration::from_secs(1).saturating_sub(interval);
                even.checked_sub(burst).unwrap_or(now).max(now)
            }
            _ => now,
        }
    }

    /// One begins.
    pub fn begin(&mut self, now: Instant) {
        if let Some(interval) = self.interval {
            self.even = Some(self.even.map_or(now, |even| even.max(now)) + interval);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_more_begin_in_a_second_than_may() {
        let mut pace = Pace::new(Some(4));
        let mut began = 0;
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(10) {
            let now = Instant::now();
            let next = pace.next(now);
            if next <= now {
                pace.begin(now);
                began += 1;
            } else {
                tokio::time::sleep_until(next).await;
            }
        }
        // Four at once, then four a second.
        assert!((40..=44).contains(&began), "{began}");
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_limit_all_begin() {
        let mut pace = Pace::new(None);
        for _ in 0..1_000 {
            let now = Instant::now();
            assert_eq!(pace.next(now), now);
            pace.begin(now);
        }
    }

    #[test]
    fn what_is_not_said_stays() {
        let settings = Settings::default();
        assert_eq!(Tuning::default().apply(settings), settings);
        let tuning = Tuning { workers_max: Some(3), ..Tuning::default() };
        assert_eq!(tuning.apply(settings).workers_max, 3);
        assert_eq!(tuning.apply(settings).backoff, settings.backoff);
    }
}
