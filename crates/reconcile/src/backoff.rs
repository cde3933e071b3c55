//! How long to wait after the nth failure in a row.

use std::time::Duration;

use crate::defects::{Defect, is_planted};

/// Doubles from `first` to `max`, with up to a quarter of chance added so that many failures do
/// not come back together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    pub first: Duration,
    pub max: Duration,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { first: Duration::from_millis(5), max: Duration::from_secs(300) }
    }
}

impl Backoff {
    pub fn delay(&self, failures: u32, random: u64) -> Duration {
        if is_planted(Defect::NoBackoff) {
            return self.first;
        }
        let doubled = 1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        let delay = self.first.saturating_mul(doubled).min(self.max);
        let quarter = u64::try_from(delay.as_micros() / 4).unwrap_or(u64::MAX);
        delay + Duration::from_micros(random.checked_rem(quarter).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_up_to_its_bound() {
        let backoff = Backoff { first: Duration::from_secs(1), max: Duration::from_secs(60) };
        let seconds: Vec<u64> = (1..9).map(|n| backoff.delay(n, 0).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert!(backoff.delay(1000, u64::MAX).as_secs() <= 75);
    }
}
