//! Places where this process may be killed by a test, to see that what it leaves behind is put in
//! order. Nothing happens unless the variable names one.

use std::sync::OnceLock;

/// Names the point at which the process ends as if it were killed.
pub const VARIABLE: &str = "SETPOINT_FAILPOINT";

/// Between any two things that a runtime does outside of this process.
pub const OF_RUNTIME: [&str; 10] = [
    "start:recorded",
    "start:spawned",
    "start:begun",
    "start:known",
    "stop:asked",
    "stop:ended",
    "remove:forgotten",
    "remove:container",
    "remove:logs",
    "remove:groups",
];

/// Between those and what the agent does besides.
pub const OF_AGENT: [&str; 5] =
    ["volumes:made", "sandbox:made", "pod:reported", "pod:cleared", "pod:deleted"];

/// Says that this point is reached.
pub fn reached(point: &'static str) {
    static WANTED: OnceLock<Option<String>> = OnceLock::new();
    debug_assert!(
        OF_RUNTIME.contains(&point) || OF_AGENT.contains(&point),
        "{point} is not listed"
    );
    let wanted = WANTED.get_or_init(|| std::env::var(VARIABLE).ok());
    if wanted.as_deref() == Some(point) {
        // Nothing is dropped, written or told.
        std::process::abort();
    }
}
