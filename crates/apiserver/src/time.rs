//! The store's times as Kubernetes writes them.

use store::Timestamp;

use crate::timestamp;

/// RFC 3339 in UTC, whole seconds.
pub fn rfc3339(time: Timestamp) -> String {
    timestamp::format(unix_seconds(time))
}

pub fn unix_seconds(time: Timestamp) -> i64 {
    time.0.div_euclid(1_000_000)
}
