//! The form of a cron schedule: five fields, or a descriptor such as `@daily`.
//!
//! Only whether it can be read; when it is due is the controller's.
//!
//! Upstream: github.com/robfig/cron/v3 parser.go (for its texts)

/// The least and greatest value of a field, and the names it knows.
struct Bounds {
    low: u32,
    high: u32,
    names: &'static [&'static str],
    first_name: u32,
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const FIELDS: [Bounds; 5] = [
    Bounds { low: 0, high: 59, names: &[], first_name: 0 },
    Bounds { low: 0, high: 23, names: &[], first_name: 0 },
    Bounds { low: 1, high: 31, names: &[], first_name: 0 },
    Bounds { low: 1, high: 12, names: &MONTHS, first_name: 1 },
    Bounds { low: 0, high: 6, names: &DAYS, first_name: 0 },
];
const DESCRIPTORS: [&str; 7] =
    ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
const EVERY: &str = "@every ";

pub fn check(schedule: &str) -> Result<(), String> {
    if schedule.starts_with('@') {
        let every = schedule.strip_prefix(EVERY);
        if DESCRIPTORS.contains(&schedule) || every.is_some_and(is_duration) {
            return Ok(());
        }
        if every.is_some() {
            return Err(format!("failed to parse duration {schedule}"));
        }
        return Err(format!("unrecognized descriptor: {schedule}"));
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let found = fields.len();
        return Err(format!("expected exactly 5 fields, found {found}: [{}]", fields.join(" ")));
    }
    for (field, bounds) in fields.iter().zip(&FIELDS) {
        for part in field.split(',').filter(|part| !part.is_empty()) {
            check_range(part, bounds)?;
        }
    }
    Ok(())
}

/// `1h30m`: numbers with units, as Go writes durations.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let digits = rest.trim_start_matches(|it: char| it.is_ascii_digit() || it == '.');
        if digits.len() == rest.len() {
            return false;
        }
        let units = ["ns", "us", "ms", "h", "m", "s"];
        let Some(unit) = units.iter().find(|unit| digits.starts_with(**unit)) else {
            return false;
        };
        rest = &digits[unit.len()..];
    }
    true
}

/// `*`, `5`, `1-5`, each with an optional `/2`.
fn check_range(part: &str, bounds: &Bounds) -> Result<(), String> {
    let halves: Vec<&str> = part.split('/').collect();
    let ends: Vec<&str> = halves[0].split('-').collect();
    let (start, mut end) = match ends[..] {
        ["*" | "?"] => (bounds.low, bounds.high),
        [one] => {
            let value = number(one, bounds)?;
            (value, value)
        }
        [start, end] => (number(start, bounds)?, number(end, bounds)?),
        _ => return Err(format!("too many hyphens: {part}")),
    };
    match halves[..] {
        [_] => {}
        [_, step] => {
            if ends.len() == 1 {
                end = bounds.high;
            }
            if plain_number(step)? == 0 {
                return Err(format!("step of range should be a positive number: {part}"));
            }
        }
        _ => return Err(format!("too many slashes: {part}")),
    }
    let Bounds { low, high, .. } = bounds;
    if start < *low {
        return Err(format!("beginning of range ({start}) below minimum ({low}): {part}"));
    }
    if end > *high {
        return Err(format!("end of range ({end}) above maximum ({high}): {part}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {part}"));
    }
    Ok(())
}

fn number(text: &str, bounds: &Bounds) -> Result<u32, String> {
    let lower = text.to_lowercase();
    match bounds.names.iter().zip(bounds.first_name..).find(|(name, _)| **name == lower) {
        Some((_, value)) => Ok(value),
        None => plain_number(text),
    }
}

fn plain_number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| {
        format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax")
    })
}

/// Whether a zone exists is known to who keeps the database of zones; here its form is checked.
pub fn time_zone_fault(zone: &str) -> Option<String> {
    if zone.is_empty() {
        return Some("timeZone must be nil or non-empty string".to_owned());
    }
    if zone.eq_ignore_ascii_case("local") {
        let text = "timeZone must be an explicit time zone as defined in \
                    https://www.iana.org/time-zones";
        return Some(text.to_owned());
    }
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"_+-/".contains(&byte);
    let formed = zone.bytes().all(known)
        && zone.split('/').all(|part| !part.is_empty())
        && zone.starts_with(|first: char| first.is_ascii_uppercase());
    (!formed).then(|| format!("unknown time zone {zone}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read_as_cron_reads_them() {
        let good = [
            "* * * * *",
            "*/5 0-6 1,15 jan-mar MON",
            "0 0 31 12 6",
            "@daily",
            "@every 1h30m",
            "5/15 * * * ?",
        ];
        for schedule in good {
            assert_eq!(check(schedule), Ok(()), "{schedule}");
        }
        let bad = [
            ("* * *", "expected exactly 5 fields, found 3: [* * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            (
                "a * * * *",
                "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax",
            ),
            ("@often", "unrecognized descriptor: @often"),
        ];
        for (schedule, fault) in bad {
            assert_eq!(check(schedule), Err(fault.to_owned()), "{schedule}");
        }
    }
}
