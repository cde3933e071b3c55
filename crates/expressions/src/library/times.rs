//! Timestamps and durations: parsing, parts, time zones.

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

use crate::cost::Cost;
use crate::evaluate::{Failure, Fuel};
use crate::library::Function;
use crate::value::Value;

type Outcome<'a> = Result<Value<'a>, Failure>;

macro_rules! part {
    ($name:literal, $call:expr) => {
        Function {
            name: $name,
            overloads: &[
                concat!("timestamp.", $name, "() int"),
                concat!("timestamp.", $name, "(string) int"),
            ],
            cost: Cost::One,
            call: |_, values| zoned(values, $call),
        }
    };
}

macro_rules! part_of_both {
    ($name:literal, $call:expr, $nanoseconds:literal) => {
        Function {
            name: $name,
            overloads: &[
                concat!("timestamp.", $name, "() int"),
                concat!("timestamp.", $name, "(string) int"),
                concat!("duration.", $name, "() int"),
            ],
            cost: Cost::One,
            call: |_, values| match values {
                [Value::Duration(span)] => Ok(Value::Int(span / $nanoseconds)),
                _ => zoned(values, $call),
            },
        }
    };
}

pub(crate) const FUNCTIONS: &[Function] = &[
    part!("getFullYear", |time| i64::from(time.year())),
    part!("getMonth", |time| i64::from(time.month()) - 1),
    part!("getDate", |time| i64::from(time.day())),
    part!("getDayOfMonth", |time| i64::from(time.day()) - 1),
    part!("getDayOfWeek", |time| i64::from(time.weekday().to_sunday_zero_offset())),
    part!("getDayOfYear", |time| i64::from(time.day_of_year()) - 1),
    part_of_both!("getHours", |time| i64::from(time.hour()), 3_600_000_000_000),
    part_of_both!("getMinutes", |time| i64::from(time.minute()), 60_000_000_000),
    part_of_both!("getSeconds", |time| i64::from(time.second()), 1_000_000_000),
    // Of a duration, the whole of it; of a timestamp, what is beyond the second.
    part_of_both!("getMilliseconds", |time| i64::from(time.millisecond()), 1_000_000),
    Function {
        name: "timestamp",
        overloads: &[
            "timestamp(string) timestamp",
            "timestamp(int) timestamp",
            "timestamp(timestamp) timestamp",
        ],
        cost: Cost::One,
        call: to_timestamp,
    },
    Function {
        name: "duration",
        overloads: &[
            "duration(string) duration",
            "duration(int) duration",
            "duration(duration) duration",
        ],
        cost: Cost::One,
        call: to_duration,
    },
];

fn zoned<'a>(values: &[Value<'a>], part: fn(&jiff::Zoned) -> i64) -> Outcome<'a> {
    let (time, zone) = match values {
        [Value::Timestamp(time)] => (time, TimeZone::UTC),
        [Value::Timestamp(time), Value::String(zone)] => (time, time_zone(zone.as_str())?),
        _ => return Err(Failure::no_such_overload()),
    };
    Ok(Value::Int(part(&time.to_zoned(zone))))
}

/// `Europe/Paris`, `+01:00`, `-02:30`, `UTC`, or nothing.
fn time_zone(name: &str) -> Result<TimeZone, Failure> {
    let unknown = || Failure::evaluation(format!("unknown time zone {name}"));
    if name.is_empty() || name == "UTC" {
        return Ok(TimeZone::UTC);
    }
    let Some((hours, minutes)) = name.split_once(':') else {
        return TimeZone::get(name).map_err(|_| unknown());
    };
    let sign = if hours.starts_with('-') { -1 } else { 1 };
    let hours: i32 = hours.trim_start_matches(['+', '-']).parse().map_err(|_| unknown())?;
    let minutes: i32 = minutes.parse().map_err(|_| unknown())?;
    if !(0..24).contains(&hours) || !(0..60).contains(&minutes) {
        return Err(unknown());
    }
    let offset = Offset::from_seconds(sign * (hours * 3600 + minutes * 60));
    offset.map(TimeZone::fixed).map_err(|_| unknown())
}

fn to_timestamp<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let out_of_range = || Failure::evaluation("timestamp overflow");
    match values {
        [Value::Timestamp(time)] => Ok(Value::Timestamp(*time)),
        [Value::Int(seconds)] => {
            let time = Timestamp::from_second(*seconds).map_err(|_| out_of_range())?;
            in_range(time).map(Value::Timestamp).ok_or_else(out_of_range)
        }
        [Value::String(text)] => {
            let text = text.as_str();
            parse_timestamp(text).map(Value::Timestamp).ok_or_else(|| {
                Failure::evaluation(format!("parsing time \"{text}\" as RFC 3339: cannot parse"))
            })
        }
        _ => Err(Failure::no_such_overload()),
    }
}

fn to_duration<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    match values {
        [Value::Duration(span)] => Ok(Value::Duration(*span)),
        [Value::Int(nanoseconds)] => Ok(Value::Duration(*nanoseconds)),
        [Value::String(text)] => {
            let text = text.as_str();
            parse_duration(text)
                .map(Value::Duration)
                .ok_or_else(|| Failure::evaluation(format!("time: invalid duration \"{text}\"")))
        }
        _ => Err(Failure::no_such_overload()),
    }
}

/// The years 1 to 9999.
fn in_range(time: Timestamp) -> Option<Timestamp> {
    (-62_135_596_800..=253_402_300_799).contains(&time.as_second()).then_some(time)
}

/// RFC 3339: a date, `T`, a time of day, an offset.
pub(crate) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let shape = bytes.len() >= 20
        && bytes.iter().take(19).enumerate().all(|(index, byte)| match index {
            4 | 7 => *byte == b'-',
            10 => *byte == b'T' || *byte == b't',
            13 | 16 => *byte == b':',
            _ => byte.is_ascii_digit(),
        });
    let rest = text.get(19..)?;
    let fraction = rest
        .strip_prefix('.')
        .map_or(0, |rest| 1 + rest.bytes().take_while(u8::is_ascii_digit).count());
    let offset = &rest[fraction..];
    let offset_fits = match offset.as_bytes() {
        b"Z" | b"z" => true,
        [b'+' | b'-', a, b, b':', c, d] => [a, b, c, d].iter().all(|digit| digit.is_ascii_digit()),
        _ => false,
    };
    if !shape || !offset_fits || fraction == 1 {
        return None;
    }
    text.parse::<Timestamp>().ok().and_then(in_range)
}

/// A string of format `date`.
pub(crate) fn parse_date(text: &str) -> Option<Timestamp> {
    let date: jiff::civil::Date = text.parse().ok()?;
    if text.len() != 10 {
        return None;
    }
    Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

/// As Go writes them: `1h30m`, `-1.5s`, `100ms`, `0`.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let whole = &rest[..digits];
        rest = &rest[digits..];
        let mut fraction = "";
        if let Some(after) = rest.strip_prefix('.') {
            let digits = after.bytes().take_while(u8::is_ascii_digit).count();
            fraction = &after[..digits];
            rest = &after[digits..];
        }
        if (whole.is_empty() && fraction.is_empty()) || whole.len() > 18 {
            return None;
        }
        let (unit, length) = unit(rest)?;
        rest = &rest[length..];
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        total = total.checked_add(whole.checked_mul(unit)?)?;
        let fraction = fraction.get(..fraction.len().min(12)).unwrap_or_default();
        if !fraction.is_empty() {
            let scale = 10i128.checked_pow(fraction.len() as u32)?;
            total = total.checked_add(fraction.parse::<i128>().ok()? * unit / scale)?;
        }
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

/// A unit in nanoseconds, and how many bytes its name takes.
fn unit(text: &str) -> Option<(i128, usize)> {
    let units: [(&str, i128); 8] = [
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("μs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    units.iter().find(|(name, _)| text.starts_with(name)).map(|(name, unit)| (*unit, name.len()))
}

/// RFC 3339, in UTC, with as many digits as there are.
pub(crate) fn show_timestamp(time: Timestamp) -> String {
    time.to_string()
}

/// Seconds, as `5400s` or `1.5s`.
pub(crate) fn show_duration(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let absolute = nanoseconds.unsigned_abs();
    let (seconds, rest) = (absolute / 1_000_000_000, absolute % 1_000_000_000);
    if rest == 0 {
        return format!("{sign}{seconds}s");
    }
    let fraction = format!("{rest:09}");
    format!("{sign}{seconds}.{}s", fraction.trim_end_matches('0'))
}
