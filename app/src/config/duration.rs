//! Durations as Go writes them: `5s`, `1m30s`, `500ms`, `1.5h`.

use std::time::Duration;

/// For messages.
pub const EXPECTED: &str = "a duration such as 5s, 1m30s or 500ms";

/// Longer than any time limit anyone means; it keeps sums of times from overflowing.
const SECONDS_MAX: f64 = 100.0 * 365.0 * 86_400.0;

/// Reads a duration. Negative ones are none of ours.
pub fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(number_end);
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        seconds += number.parse::<f64>().ok()? * seconds_per(unit)?;
        rest = after;
    }
    let is_sane = !text.is_empty() && seconds <= SECONDS_MAX;
    // To the nanosecond, so that 0.1s is what it says.
    is_sane.then(|| Duration::from_nanos((seconds * 1e9).round() as u64))
}

/// Writes a duration as it is given on a command line: `5m`, `1m30s`, `500ms`.
pub fn short(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    if seconds == 0 || millis > 0 && seconds < 60 {
        return match duration.as_millis() {
            0 => "0s".to_owned(),
            millis if millis < 1_000 => format!("{millis}ms"),
            _ => format!("{}s", duration.as_secs_f64()),
        };
    }
    let parts = [(seconds / 3600, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    parts.map(|(count, unit)| format!("{count}{unit}")).collect()
}

fn seconds_per(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1e-9,
        "us" | "µs" | "μs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        let cases = [
            ("5s", 5_000),
            ("1m30s", 90_000),
            ("500ms", 500),
            ("24h", 86_400_000),
            ("1.5h", 5_400_000),
            ("0.1s", 100),
            ("1h0m0.25s", 3_600_250),
            ("0", 0),
            ("0s", 0),
        ];
        for (text, millis) in cases {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(parse("2µs"), Some(Duration::from_micros(2)));
    }

    #[test]
    fn durations_are_written_as_they_are_given() {
        for text in ["5m", "1m30s", "500ms", "1h", "10h5s", "4s", "2.5s", "0s", "1ms"] {
            let duration = parse(text).expect("a duration");
            assert_eq!(short(duration), text);
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "5", "s", "5 s", "-5s", "5d", "1..5s", "five", "9999999h", "1e3s", "."] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
