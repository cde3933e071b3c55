//! Dates, times and durations.

/// `2006-01-02`.
pub(super) fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return false;
    }
    match (number(&bytes[..4]), number(&bytes[5..7]), number(&bytes[8..])) {
        (Some(year), Some(month), Some(day)) => {
            (1..=12).contains(&month) && (1..=days(year, month)).contains(&day)
        }
        _ => false,
    }
}

fn days(year: u32, month: u32) -> u32 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// `2006-01-02T15:04:05.999Z`, with an offset instead of `Z`, in either case.
pub(crate) fn is_date_time(text: &str) -> bool {
    if !text.is_ascii() || text.len() < 20 {
        return false;
    }
    let (date, rest) = text.split_at(10);
    let Some(rest) = rest.strip_prefix(['T', 't']) else {
        return false;
    };
    let (clock, rest) = rest.split_at(8);
    let rest = match rest.strip_prefix('.') {
        Some(fraction) => {
            let end = fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len());
            if end == 0 {
                return false;
            }
            &fraction[end..]
        }
        None => rest,
    };
    is_date(date) && is_clock(clock) && is_zone(rest)
}

fn is_clock(text: &str) -> bool {
    let parts: Vec<_> = text.split(':').map(two_digits).collect();
    matches!(parts[..], [Some(0..=23), Some(0..=59), Some(0..=59)])
}

fn is_zone(text: &str) -> bool {
    if matches!(text, "Z" | "z") {
        return true;
    }
    let Some(offset) = text.strip_prefix(['+', '-']) else {
        return false;
    };
    let parts: Vec<_> = offset.split(':').map(two_digits).collect();
    matches!(parts[..], [Some(0..=23), Some(0..=59)])
}

fn two_digits(part: &str) -> Option<u32> {
    if part.len() == 2 { number(part.as_bytes()) } else { None }
}

fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |sum, byte| match byte {
        b'0'..=b'9' => Some(sum * 10 + u32::from(byte - b'0')),
        _ => None,
    })
}

/// A duration of Go (`1h30m`), or a number and a unit in words (`3 days`).
pub(super) fn is_duration(text: &str) -> bool {
    is_go_duration(text) || is_worded_duration(text)
}

fn is_go_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (amount, after) = rest.split_at(end);
        let digits = amount.bytes().filter(u8::is_ascii_digit).count();
        if digits == 0 || amount.matches('.').count() > 1 {
            return false;
        }
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        if !matches!(unit, "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h") {
            return false;
        }
        rest = after;
    }
    true
}

fn is_worded_duration(text: &str) -> bool {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (amount, unit) = text.split_at(end);
    let unit = unit.trim_start();
    let singular = unit.strip_suffix('s').unwrap_or(unit);
    let known = [
        "ns",
        "nano",
        "nanosecond",
        "us",
        "µs",
        "micro",
        "microsecond",
        "ms",
        "milli",
        "millisecond",
        "s",
        "sec",
        "second",
        "m",
        "min",
        "minute",
        "h",
        "hr",
        "hour",
        "d",
        "day",
        "w",
        "wk",
        "week",
    ];
    !amount.is_empty() && (known.contains(&unit) || known.contains(&singular))
}
