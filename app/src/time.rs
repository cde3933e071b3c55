//! Times and durations as text for people.

use std::time::Duration;

use store::Timestamp;

const MICROS_PER_SECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// A time as RFC 3339 with seconds, in UTC.
pub fn rfc3339(time: Timestamp) -> String {
    let seconds = time.0.div_euclid(MICROS_PER_SECOND);
    let (year, month, day) = date(seconds.div_euclid(SECONDS_PER_DAY));
    let second = seconds.rem_euclid(SECONDS_PER_DAY);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// How long something lasts, by its two largest units.
pub fn elapsed(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, minutes) => format!("{minutes}m{}s", seconds % 60),
        (0, hours, minutes) => format!("{hours}h{minutes}m"),
        (days, hours, _) => format!("{days}d{hours}h"),
    }
}

/// The date of a day counted from 1970-01-01.
///
/// Counts in eras of 400 years that begin on a first of March, so that a leap day is the last day
/// of its year (H. Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`).
fn date(day: i64) -> (i64, i64, i64) {
    const DAYS_PER_ERA: i64 = 146_097;
    let day = day + 719_468;
    let era = day.div_euclid(DAYS_PER_ERA);
    let of_era = day.rem_euclid(DAYS_PER_ERA);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    (year, month, of_year - (153 * from_march + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_rfc_3339() {
        let cases = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_767_225_600, "2026-01-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(rfc3339(Timestamp(seconds * MICROS_PER_SECOND)), expected);
        }
    }

    #[test]
    fn durations_are_written_by_their_two_largest_units() {
        let cases = [(0, "0s"), (59, "59s"), (61, "1m1s"), (3_720, "1h2m"), (90_000, "1d1h")];
        for (seconds, expected) in cases {
            assert_eq!(elapsed(Duration::from_secs(seconds)), expected);
        }
    }
}
