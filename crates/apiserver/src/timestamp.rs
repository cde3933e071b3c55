//! Times as the API writes them: RFC 3339, in UTC.
//!
//! Only that format: seconds since 1970, and the microseconds some kinds have.

use crate::calendar::{SECONDS_PER_DAY, civil, days_since_1970};

/// The seconds since 1970 of `2024-05-06T07:08:09Z`; a fraction is cut off, an offset is counted.
pub fn parse(text: &str) -> Option<i64> {
    parse_micro(text).map(|(seconds, _)| seconds)
}

/// The seconds since 1970, and the microseconds after them.
pub fn parse_micro(text: &str) -> Option<(i64, u32)> {
    let bytes = text.as_bytes();
    let (date, rest) = bytes.split_at_checked(19)?;
    let separators = [date[4], date[7], date[10], date[13], date[16]];
    if !matches!(separators, [b'-', b'-', b'T' | b't', b':', b':']) {
        return None;
    }
    let number = |from: usize, to: usize| digits(&date[from..to]);
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (micros, rest) = fraction(rest)?;
    let seconds =
        days_since_1970(year, month, day)? * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second
            - offset(rest)?;
    Some((seconds, micros))
}

/// `2024-05-06T07:08:09Z`.
pub fn format(seconds: i64) -> String {
    let (date, time) = (seconds.div_euclid(SECONDS_PER_DAY), seconds.rem_euclid(SECONDS_PER_DAY));
    let (year, month, day) = civil(date);
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// `2024-05-06T07:08:09.000001Z`: always six digits, as in leases and events.
pub fn format_micro(seconds: i64, micros: u32) -> String {
    let mut text = format(seconds);
    text.pop();
    format!("{text}.{micros:06}Z")
}

fn digits(bytes: &[u8]) -> Option<i64> {
    let mut number = 0;
    for byte in bytes {
        if !byte.is_ascii_digit() {
            return None;
        }
        number = number * 10 + i64::from(byte - b'0');
    }
    Some(number)
}

/// The microseconds of `.123`, and what follows.
fn fraction(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let [b'.' | b',', rest @ ..] = bytes else {
        return Some((0, bytes));
    };
    let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 {
        return None;
    }
    let six = rest[..count].iter().chain([b'0'].iter().cycle()).take(6);
    let micros = six.fold(0, |micros, digit| micros * 10 + u32::from(digit - b'0'));
    Some((micros, &rest[count..]))
}

/// The seconds east of Greenwich.
fn offset(bytes: &[u8]) -> Option<i64> {
    match bytes {
        [b'Z' | b'z'] => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (digits(&[*h1, *h2])?, digits(&[*m1, *m2])?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let seconds = hours * 3600 + minutes * 60;
            Some(if *sign == b'-' { -seconds } else { seconds })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_seconds_since_1970() {
        let cases = [
            ("1970-01-01T00:00:00Z", 0),
            ("1969-12-31T23:59:59Z", -1),
            ("2000-02-29T12:00:00Z", 951_825_600),
            ("2024-05-06T07:08:09Z", 1_714_979_289),
            ("2038-01-19T03:14:08Z", 2_147_483_648),
            ("1900-03-01T00:00:00Z", -2_203_891_200),
            ("0001-01-01T00:00:00Z", -62_135_596_800),
            ("9999-12-31T23:59:59Z", 253_402_300_799),
        ];
        for (text, seconds) in cases {
            assert_eq!(parse(text), Some(seconds), "{text}");
            assert_eq!(format(seconds), text);
        }
    }

    #[test]
    fn offsets_and_fractions_are_understood() {
        assert_eq!(parse("1970-01-01T02:00:00+02:00"), Some(0));
        assert_eq!(parse("1969-12-31T19:00:00-05:00"), Some(0));
        assert_eq!(parse_micro("1970-01-01T00:00:01.5Z"), Some((1, 500_000)));
        assert_eq!(parse_micro("1970-01-01T00:00:01.123456789Z"), Some((1, 123_456)));
        assert_eq!(format_micro(1, 500_000), "1970-01-01T00:00:01.500000Z");
    }

    #[test]
    fn what_is_no_time_is_refused() {
        let cases = [
            "",
            "2024-05-06",
            "2024-05-06T07:08:09",
            "2024-05-06 07:08:09Z",
            "2024-13-06T07:08:09Z",
            "2024-02-30T07:08:09Z",
            "2023-02-29T07:08:09Z",
            "2024-05-06T24:08:09Z",
            "2024-05-06T07:60:09Z",
            "2024-05-06T07:08:61Z",
            "2024-05-06T07:08:09.Z",
            "2024-05-06T07:08:09+2:00",
            "2024-05-06T07:08:09Zx",
            "+024-05-06T07:08:09Z",
            "2024-05-0éT07:08:09Z",
        ];
        for text in cases {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_formatted_is_parsed(
            seconds in -62_135_596_800_i64..253_402_300_800,
            micros in 0_u32..1_000_000,
        ) {
            prop_assert_eq!(parse(&format(seconds)), Some(seconds));
            let text = format_micro(seconds, micros);
            prop_assert_eq!(parse_micro(&text), Some((seconds, micros)));
        }

        #[test]
        fn no_text_panics(text in ".{0,40}|[0-9TZ:.+-]{0,32}") {
            let _ = parse(&text);
        }
    }
}
