//! What the store takes from the world besides disk and network: time and randomness.
//!
//! Behind a trait, so that the simulator owns both.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::Timestamp;

/// Time and randomness.
pub trait Environment: Send + Sync + 'static {
    fn now(&self) -> Timestamp;

    /// Sixty-four bits nobody outside the process can foresee.
    fn random(&self) -> u64;
}

/// The real world.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Environment for System {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that draws randomness")]
    fn random(&self) -> u64 {
        RandomState::new().build_hasher().finish()
    }
}
