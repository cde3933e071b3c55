//! Durations as kubectl's users read them: `5s`, `2m3s`, `3h20m`, `2d4h`, `2y30d`.
//!
//! Upstream: apimachinery/pkg/util/duration/duration.go (HumanDuration)

use crate::timestamp;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// The time that clients written in Go send for none: the first of January of the year 1.
const NEVER: i64 = -62_135_596_800;

/// The time from a timestamp to `now`, `<unknown>` where there is no timestamp.
pub fn since(text: Option<&str>, now_unix_seconds: i64) -> String {
    match text.and_then(timestamp::parse) {
        Some(NEVER) | None => "<unknown>".to_owned(),
        Some(then) => human(now_unix_seconds.saturating_sub(then)),
    }
}

/// Two units while the second still matters, then one.
pub fn human(seconds: i64) -> String {
    match seconds {
        // Clocks of two machines may differ by a little.
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        _ if seconds < 2 * MINUTE => format!("{seconds}s"),
        _ if seconds < 10 * MINUTE => two(seconds, (MINUTE, "m"), (1, "s")),
        _ if seconds < 3 * HOUR => format!("{}m", seconds / MINUTE),
        _ if seconds < 8 * HOUR => two(seconds, (HOUR, "h"), (MINUTE, "m")),
        _ if seconds < 2 * DAY => format!("{}h", seconds / HOUR),
        _ if seconds < 8 * DAY => two(seconds, (DAY, "d"), (HOUR, "h")),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => two(seconds, (YEAR, "y"), (DAY, "d")),
        _ => format!("{}y", seconds / YEAR),
    }
}

fn two(seconds: i64, large: (i64, &str), small: (i64, &str)) -> String {
    let (many, few) = (seconds / large.0, seconds % large.0 / small.0);
    if few == 0 {
        format!("{many}{}", large.1)
    } else {
        format!("{many}{}{few}{}", large.1, small.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_unit_goes_when_it_no_longer_matters() {
        let cases = [
            (i64::MIN, "<invalid>"),
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (5, "5s"),
            (119, "119s"),
            (120, "2m"),
            (123, "2m3s"),
            (300, "5m"),
            (599, "9m59s"),
            (600, "10m"),
            (659, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 20 * MINUTE + 59, "3h20m"),
            (8 * HOUR - 1, "7h59m"),
            (8 * HOUR, "8h"),
            (47 * HOUR, "47h"),
            (2 * DAY, "2d"),
            (2 * DAY + 4 * HOUR, "2d4h"),
            (2 * DAY + 59 * MINUTE, "2d"),
            (8 * DAY - 1, "7d23h"),
            (8 * DAY, "8d"),
            (2 * YEAR - 1, "729d"),
            (2 * YEAR, "2y"),
            (2 * YEAR + 30 * DAY, "2y30d"),
            (8 * YEAR - 1, "7y364d"),
            (8 * YEAR, "8y"),
            (20 * YEAR + 100 * DAY, "20y"),
        ];
        for (seconds, text) in cases {
            assert_eq!(human(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn ages_are_counted_from_timestamps() {
        assert_eq!(since(Some("1970-01-01T00:00:00Z"), 90), "90s");
        assert_eq!(since(Some("1970-01-01T00:00:10Z"), 0), "<invalid>");
        assert_eq!(since(Some("yesterday"), 90), "<unknown>");
        assert_eq!(since(Some("0001-01-01T00:00:00Z"), 90), "<unknown>");
        assert_eq!(since(None, 90), "<unknown>");
    }
}
