//! How much history is kept.

use std::time::Duration;

use crate::Thinning;

/// The window of history: whatever is older, or beyond the size, is compacted in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    pub age_max: Duration,
    pub bytes_max: u64,
    /// How often the window is moved.
    pub interval: Duration,
    /// Changes are kept in memory up to this size, for watches and recent reads.
    pub recent_bytes_max: u64,
    /// What of the older history may go before its time.
    pub thinning: Option<Thinning>,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention {
            age_max: Duration::from_secs(24 * 60 * 60),
            bytes_max: 256 << 20,
            interval: Duration::from_secs(60),
            recent_bytes_max: 32 << 20,
            thinning: None,
        }
    }
}
