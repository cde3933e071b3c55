//! Tells systemd's watchdog that this program lives, where there is one (`WatchdogSec=`).
//!
//! It is told only while commits are possible: what can do nothing is to be started again.
//!
//! Upstream: sd_watchdog_enabled(3).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use tracing::warn;

use crate::health::Health;
use crate::notify;

const MICROS: &str = "WATCHDOG_USEC";
const PROCESS: &str = "WATCHDOG_PID";

/// Says it twice as often as it is asked for, as long as it is true.
pub async fn keep(health: Arc<Health>) {
    let variable = |name: &str| std::env::var(name).ok();
    let Some(patience) = patience(variable, std::process::id()) else { return };
    let mut ticks = interval(patience / 2);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match health.store.health() {
            Ok(()) => notify::tell(notify::ALIVE),
            Err(error) => warn!(%error, "the watchdog is not told that all is well"),
        }
    }
}

/// How long the watchdog waits, if it watches this process.
fn patience(variable: impl Fn(&str) -> Option<String>, process: u32) -> Option<Duration> {
    if variable(PROCESS).is_some_and(|watched| watched != process.to_string()) {
        return None;
    }
    let micros = variable(MICROS)?.parse().ok().filter(|micros| *micros > 1)?;
    Some(Duration::from_micros(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_process_that_is_watched_answers() {
        let of = |micros: Option<&str>, process: Option<&str>| {
            let variable = |name: &str| {
                let value = if name == MICROS { micros } else { process };
                value.map(str::to_owned)
            };
            patience(variable, 7).map(|it| it.as_micros())
        };
        assert_eq!(of(Some("3000000"), None), Some(3_000_000));
        assert_eq!(of(Some("3000000"), Some("7")), Some(3_000_000));
        assert_eq!(of(Some("3000000"), Some("8")), None);
        assert_eq!((of(None, None), of(Some("x"), None), of(Some("0"), None)), (None, None, None));
    }
}
