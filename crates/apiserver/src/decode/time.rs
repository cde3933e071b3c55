//! Times in the form in which Go writes them: RFC 3339, UTC, to the second or the microsecond.
//!
//! Upstream: apimachinery/pkg/apis/meta/v1/{time,micro_time}.go

use std::fmt::Write as _;

use crate::calendar::{civil, days_of_month, days_since_1970};

/// How finely a time is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    Seconds,
    Microseconds,
}

impl Precision {
    /// The layout that errors name.
    fn layout(self) -> &'static str {
        match self {
            Precision::Seconds => "2006-01-02T15:04:05Z07:00",
            Precision::Microseconds => "2006-01-02T15:04:05.000000Z07:00",
        }
    }
}

/// What a text means as a time.
#[derive(Debug, PartialEq, Eq)]
pub enum Canonical {
    /// It is canonical already.
    Same,
    /// The first moment of the year 1, which Go does not tell from no time at all.
    Zero,
    Text(String),
}

/// The canonical form of a time.
pub fn canonical(text: &str, precision: Precision) -> Result<Canonical, String> {
    let moment = read(text)
        .map_err(|what| format!("parsing time {text:?} as {:?}: {what}", precision.layout()))?;
    let written = moment.write(precision);
    Ok(match written {
        _ if moment.year <= 1 && moment.is_zero() => Canonical::Zero,
        written if written == text => Canonical::Same,
        written => Canonical::Text(written),
    })
}

/// The text of a moment since 1970; none where its year has not four digits.
pub fn since_1970(seconds: i64, microseconds: i64, precision: Precision) -> Option<String> {
    let seconds = seconds.checked_add(microseconds.div_euclid(1_000_000))?;
    let (year, month, day) = civil(seconds.div_euclid(86_400));
    let in_day = seconds.rem_euclid(86_400);
    let moment = Moment {
        year,
        month,
        day,
        hour: in_day / 3_600,
        minute: in_day / 60 % 60,
        second: in_day % 60,
        microsecond: microseconds.rem_euclid(1_000_000),
    };
    (0..=9999).contains(&year).then(|| moment.write(precision))
}

#[derive(Clone, Copy)]
struct Moment {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    microsecond: i64,
}

impl Moment {
    fn is_zero(&self) -> bool {
        (self.year, self.month, self.day, self.hour, self.minute, self.second) == (1, 1, 1, 0, 0, 0)
    }

    fn write(&self, precision: Precision) -> String {
        let mut text = String::with_capacity(27);
        let _ = write!(text, "{:04}-{:02}-{:02}T", self.year, self.month, self.day);
        let _ = write!(text, "{:02}:{:02}:{:02}", self.hour, self.minute, self.second);
        if precision == Precision::Microseconds {
            let _ = write!(text, ".{:06}", self.microsecond);
        }
        text.push('Z');
        text
    }

    /// The same moment when the clock was ahead of UTC by some minutes.
    fn to_utc(self, minutes_ahead: i64) -> Moment {
        let minutes = days_since_1970(self.year, self.month, self.day).unwrap_or(0) * 1440
            + self.hour * 60
            + self.minute
            - minutes_ahead;
        let (year, month, day) = civil(minutes.div_euclid(1440));
        let in_day = minutes.rem_euclid(1440);
        Moment { year, month, day, hour: in_day / 60, minute: in_day % 60, ..self }
    }
}

fn read(text: &str) -> Result<Moment, String> {
    let mut rest = text;
    let year = digits(&mut rest, 4, "2006")?;
    mark(&mut rest, '-')?;
    let month = digits(&mut rest, 2, "01")?;
    mark(&mut rest, '-')?;
    let day = digits(&mut rest, 2, "02")?;
    mark(&mut rest, 'T')?;
    let hour = digits(&mut rest, 2, "15")?;
    mark(&mut rest, ':')?;
    let minute = digits(&mut rest, 2, "04")?;
    mark(&mut rest, ':')?;
    let second = digits(&mut rest, 2, "05")?;
    let microsecond = fraction(&mut rest)?;
    let minutes_ahead = zone(&mut rest)?;
    if !rest.is_empty() {
        return Err(format!("extra text: {rest:?}"));
    }
    let parts = [
        ("month", (1..=12).contains(&month)),
        ("day", (1..=days_of_month(year, month)).contains(&day)),
        ("hour", hour < 24),
        ("minute", minute < 60),
        ("second", second < 60),
    ];
    if let Some((part, _)) = parts.into_iter().find(|(_, is_possible)| !is_possible) {
        return Err(format!("{part} out of range"));
    }
    let moment = Moment { year, month, day, hour, minute, second, microsecond };
    let moment = if minutes_ahead == 0 { moment } else { moment.to_utc(minutes_ahead) };
    match moment.year {
        0..=9999 => Ok(moment),
        _ => Err("year out of range".to_owned()),
    }
}

fn cannot_parse(rest: &str, element: &str) -> String {
    format!("cannot parse {rest:?} as {element:?}")
}

fn digits(rest: &mut &str, count: usize, element: &str) -> Result<i64, String> {
    let text = rest.get(..count).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number = text.and_then(|text| text.parse().ok());
    let number = number.ok_or_else(|| cannot_parse(rest, element))?;
    *rest = &rest[count..];
    Ok(number)
}

fn mark(rest: &mut &str, wanted: char) -> Result<(), String> {
    let after = rest.strip_prefix(wanted);
    *rest = after.ok_or_else(|| cannot_parse(rest, &wanted.to_string()))?;
    Ok(())
}

/// The microseconds after a point or comma; finer digits are cut off.
fn fraction(rest: &mut &str) -> Result<i64, String> {
    let Some(after) = rest.strip_prefix(['.', ',']) else { return Ok(0) };
    let length = after.bytes().take_while(u8::is_ascii_digit).count();
    if length == 0 {
        return Err(cannot_parse(rest, "Z07:00"));
    }
    let mut number = 0;
    for digit in after.bytes().take(length).chain(std::iter::repeat(b'0')).take(6) {
        number = number * 10 + i64::from(digit - b'0');
    }
    *rest = &after[length..];
    Ok(number)
}

/// How many minutes the clock is ahead of UTC.
fn zone(rest: &mut &str) -> Result<i64, String> {
    if let Some(after) = rest.strip_prefix('Z') {
        *rest = after;
        return Ok(0);
    }
    let whole = *rest;
    let sign = match rest.chars().next() {
        Some('+') => 1,
        Some('-') => -1,
        _ => return Err(cannot_parse(whole, "Z07:00")),
    };
    *rest = &rest[1..];
    let hours = digits(rest, 2, "Z07:00").map_err(|_| cannot_parse(whole, "Z07:00"))?;
    mark(rest, ':').map_err(|_| cannot_parse(whole, "Z07:00"))?;
    let minutes = digits(rest, 2, "Z07:00").map_err(|_| cannot_parse(whole, "Z07:00"))?;
    match (hours, minutes) {
        (0..=24, 0..=59) => Ok(sign * (hours * 60 + minutes)),
        _ => Err("time zone offset out of range".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        let seconds = [
            ("2024-02-29T23:59:59Z", "2024-02-29T23:59:59Z"),
            ("2024-02-29T23:59:59.999Z", "2024-02-29T23:59:59Z"),
            ("2024-03-01T00:30:00+01:00", "2024-02-29T23:30:00Z"),
            ("2023-12-31T20:00:00-05:30", "2024-01-01T01:30:00Z"),
            ("1969-12-31T23:00:00-02:00", "1970-01-01T01:00:00Z"),
            ("0001-01-01T00:00:00Z", "zero"),
        ];
        let microseconds = [
            ("2024-02-29T23:59:59Z", "2024-02-29T23:59:59.000000Z"),
            ("2024-02-29T23:59:59.1234567+00:00", "2024-02-29T23:59:59.123456Z"),
        ];
        let check = |text: &str, expected: &str, precision| {
            let found = match canonical(text, precision).unwrap() {
                Canonical::Same => text.to_owned(),
                Canonical::Zero => "zero".to_owned(),
                Canonical::Text(text) => text,
            };
            assert_eq!(found, expected, "{text}");
        };
        for (text, expected) in seconds {
            check(text, expected, Precision::Seconds);
        }
        for (text, expected) in microseconds {
            check(text, expected, Precision::Microseconds);
        }
    }

    #[test]
    fn what_is_not_a_time_is_refused_as_go_does() {
        let layout = "as \"2006-01-02T15:04:05Z07:00\"";
        let cases = [
            ("x", r#"cannot parse "x" as "2006""#),
            ("", r#"cannot parse "" as "2006""#),
            ("2024-1-01", r#"cannot parse "1-01" as "01""#),
            ("2024-01-01", r#"cannot parse "" as "T""#),
            ("2024-01-01T00:00:00", r#"cannot parse "" as "Z07:00""#),
            ("2024-02-30T00:00:00Z", "day out of range"),
            ("2024-02-20T25:00:00Z", "hour out of range"),
            ("2024-02-20T00:00:00Zx", "extra text: \"x\""),
        ];
        for (text, expected) in cases {
            let error = canonical(text, Precision::Seconds).unwrap_err();
            assert_eq!(error, format!("parsing time {text:?} {layout}: {expected}"));
        }
    }

    proptest::proptest! {
        #[test]
        fn dates_and_days_are_inverse(days in -700_000_i64..2_900_000) {
            let (year, month, day) = civil(days);
            proptest::prop_assert_eq!(days_since_1970(year, month, day), Some(days));
        }
    }
}
