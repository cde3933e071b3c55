//! Waiting for a condition, with a bound. The only reader of the clock in this crate.

use std::thread;
use std::time::{Duration, Instant};

/// How often a condition is looked at.
const POLL_EVERY: Duration = Duration::from_millis(5);

/// What one look at a condition found.
pub enum Look<T> {
    Found(T),
    NotYet,
}

/// Looks until the condition is found; `None` when `timeout` has passed.
pub fn wait_for<T, E>(
    timeout: Duration,
    mut look: impl FnMut() -> Result<Look<T>, E>,
) -> Result<Option<T>, E> {
    let start = now();
    loop {
        match look()? {
            Look::Found(value) => return Ok(Some(value)),
            Look::NotYet if start.elapsed() >= timeout => return Ok(None),
            Look::NotYet => thread::sleep(POLL_EVERY),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a real server takes real time to start and stop")]
fn now() -> Instant {
    Instant::now()
}
