//! The clock and the randomness that controllers use, so that a test can own them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use k8s_openapi::jiff::Timestamp;

/// Where time and chance come from. Sleeping is `tokio::time`, which a test can pause.
pub trait Environment: Send + Sync + 'static {
    fn now(&self) -> Timestamp;

    /// A number that is different each time; for jitter and names, not for secrets.
    fn random(&self) -> u64;
}

/// The machine's own.
#[derive(Debug, Default)]
pub struct System;

impl Environment for System {
    fn now(&self) -> Timestamp {
        #[expect(clippy::disallowed_methods, reason = "this is the seam")]
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let microseconds = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_microsecond(microseconds).unwrap_or(Timestamp::MAX)
    }

    fn random(&self) -> u64 {
        use std::hash::{BuildHasher, Hasher};
        #[expect(clippy::disallowed_methods, reason = "this is the seam")]
        let state = std::collections::hash_map::RandomState::new();
        state.build_hasher().finish()
    }
}
