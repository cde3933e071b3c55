//! When a cron schedule is due: five fields, or a descriptor such as `@daily`, in a time zone.
//!
//! Where clocks are put back, what is due in the repeated hour is due twice; where they are put
//! forward, what is due in the missing hour is not.
//!
//! Upstream: github.com/robfig/cron/v3 (what the fields mean)

use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// How far ahead a time is looked for: 29 February comes every eighth year at worst.
const YEARS_MAX: i16 = 9;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// A schedule that was understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    times: Times,
    zone: TimeZone,
}

#[derive(Clone, Debug, PartialEq)]
enum Times {
    Every(Duration),
    Fields(Fields),
}

/// One bit for each value that a field allows.
#[derive(Clone, Debug, PartialEq)]
struct Fields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether every day of month, or of week, is allowed: then the other alone decides.
    is_any_day: bool,
    is_any_weekday: bool,
}

/// What a field allows: the least and the greatest value, and the names of values.
struct Bounds {
    low: u32,
    high: u32,
    names: &'static [&'static str],
}

impl Schedule {
    pub fn read(text: &str, zone: TimeZone) -> Result<Schedule, String> {
        let mut zone = zone;
        let mut text = text.trim();
        for prefix in ["TZ=", "CRON_TZ="] {
            if let Some((name, rest)) =
                text.strip_prefix(prefix).and_then(|rest| rest.split_once(' '))
            {
                zone = time_zone(name)?;
                text = rest.trim();
            }
        }
        Ok(Schedule { times: times(text)?, zone })
    }

    /// The first time after another; `None` if there is none in years.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let fields = match &self.times {
            Times::Every(delay) => {
                let whole = i64::try_from(delay.as_secs()).ok()?;
                return Timestamp::from_second(after.as_second().checked_add(whole)?).ok();
            }
            Times::Fields(fields) => fields,
        };
        let second = after.as_second();
        let minute = second - second.rem_euclid(60) + 60;
        let mut at = Timestamp::from_second(minute).ok()?.to_zoned(self.zone.clone());
        let last = at.year().saturating_add(YEARS_MAX);
        while at.year() <= last {
            let skipped = fields.skip(&at);
            match skipped {
                None => return Some(at.timestamp()),
                Some(Skip::Month) => {
                    at = at.last_of_month().ok()?.tomorrow().ok()?.start_of_day().ok()?;
                }
                Some(Skip::Day) => at = at.tomorrow().ok()?.start_of_day().ok()?,
                Some(Skip::Hour) => at = later(&at, 60 - i64::from(at.minute()))?,
                Some(Skip::Minute) => at = later(&at, 1)?,
            }
        }
        None
    }

    /// The last time up to another, not before a first one that is itself a time.
    pub fn last(&self, first: Timestamp, until: Timestamp) -> Timestamp {
        if let Times::Every(delay) = self.times {
            let delay = i64::try_from(delay.as_secs()).unwrap_or(i64::MAX).max(1);
            let passed = (until.as_second() - first.as_second()).max(0);
            let at = first.as_second() + passed / delay * delay;
            return Timestamp::from_second(at).unwrap_or(first);
        }
        // Looks back twice as far each time, so that years of every minute cost little.
        let mut window = 120;
        loop {
            let from = until.as_second().saturating_sub(window);
            let is_whole = from < first.as_second();
            let from = Timestamp::from_second(from.max(first.as_second() - 1)).unwrap_or(first);
            let found = self.times_between(from, until).last();
            if let Some(found) = found {
                return found;
            }
            if is_whole {
                return first;
            }
            window = window.saturating_mul(2);
        }
    }

    fn times_between(&self, after: Timestamp, until: Timestamp) -> impl Iterator<Item = Timestamp> {
        let next = |at: &Timestamp| self.next(*at);
        std::iter::successors(self.next(after), next).take_while(move |at| *at <= until)
    }

    /// A time as the schedule's zone writes it.
    pub fn write(&self, at: Timestamp) -> String {
        let text = at.to_zoned(self.zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
        text.strip_suffix("+00:00").map_or(text.clone(), |text| format!("{text}Z"))
    }
}

/// A time zone by its name.
pub fn time_zone(name: &str) -> Result<TimeZone, String> {
    TimeZone::get(name).map_err(|_| format!("unknown time zone {name}"))
}

enum Skip {
    Month,
    Day,
    Hour,
    Minute,
}

impl Fields {
    /// The largest step that leads past no time that is due; `None` where one is.
    fn skip(&self, at: &Zoned) -> Option<Skip> {
        let has = |set: u64, value: i8| set & (1 << value) != 0;
        if !has(self.months, at.month()) {
            return Some(Skip::Month);
        }
        let day = has(self.days, at.day());
        let weekday = has(self.weekdays, at.weekday().to_sunday_zero_offset());
        let is_due = match self.is_any_day || self.is_any_weekday {
            true => day && weekday,
            false => day || weekday,
        };
        if !is_due {
            return Some(Skip::Day);
        }
        if !has(self.hours, at.hour()) {
            return Some(Skip::Hour);
        }
        (!has(self.minutes, at.minute())).then_some(Skip::Minute)
    }
}

fn later(at: &Zoned, minutes: i64) -> Option<Zoned> {
    let second = at.timestamp().as_second() + minutes * 60;
    Some(Timestamp::from_second(second).ok()?.to_zoned(at.time_zone().clone()))
}

fn times(text: &str) -> Result<Times, String> {
    let fields = match text {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        text => text,
    };
    if let Some(delay) = fields.strip_prefix("@every ") {
        let delay = duration(delay).ok_or_else(|| format!("failed to parse duration {text}"))?;
        return Ok(Times::Every(delay.max(Duration::from_secs(1))));
    }
    if fields.starts_with('@') {
        return Err(format!("unrecognized descriptor: {text}"));
    }
    let parts: Vec<&str> = fields.split_whitespace().collect();
    let [minutes, hours, days, months, weekdays] = parts[..] else {
        let (found, all) = (parts.len(), parts.join(" "));
        return Err(format!("expected exactly 5 fields, found {found}: [{all}]"));
    };
    let plain = |low, high| Bounds { low, high, names: &[] };
    let (days, is_any_day) = field(days, &plain(1, 31))?;
    let weekday = Bounds { low: 0, high: 6, names: &DAYS };
    let (weekdays, is_any_weekday) = field(weekdays, &weekday)?;
    Ok(Times::Fields(Fields {
        minutes: field(minutes, &plain(0, 59))?.0,
        hours: field(hours, &plain(0, 23))?.0,
        days,
        months: field(months, &Bounds { low: 1, high: 12, names: &MONTHS })?.0,
        weekdays,
        is_any_day,
        is_any_weekday,
    }))
}

/// The values of a field, and whether it says "any".
fn field(text: &str, bounds: &Bounds) -> Result<(u64, bool), String> {
    let (mut all, mut is_any) = (0, false);
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (values, any) = range(part, bounds)?;
        all |= values;
        is_any |= any;
    }
    Ok((all, is_any))
}

/// `*`, `5`, `1-5`, each with an optional `/2`.
fn range(text: &str, bounds: &Bounds) -> Result<(u64, bool), String> {
    let (values, step) =
        match text.split_once('/') {
            Some((values, step)) => {
                let step = step.parse::<u32>().ok().filter(|step| *step > 0);
                (
                    values,
                    Some(step.ok_or_else(|| {
                        format!("step of range should be a positive number: {text}")
                    })?),
                )
            }
            None => (text, None),
        };
    let is_any = matches!(values, "*" | "?");
    let (low, high) = match values.split_once('-') {
        _ if is_any => (bounds.low, bounds.high),
        Some((low, high)) => (value(low, bounds)?, value(high, bounds)?),
        None => {
            let only = value(values, bounds)?;
            (only, if step.is_some() { bounds.high } else { only })
        }
    };
    if low < bounds.low {
        let least = bounds.low;
        return Err(format!("beginning of range ({low}) below minimum ({least}): {text}"));
    }
    if high > bounds.high {
        let most = bounds.high;
        return Err(format!("end of range ({high}) above maximum ({most}): {text}"));
    }
    if low > high {
        return Err(format!("beginning of range ({low}) beyond end of range ({high}): {text}"));
    }
    let step = step.unwrap_or(1);
    let all = (low..=high).step_by(usize::try_from(step).unwrap_or(usize::MAX));
    // Every second day is not any day.
    Ok((all.fold(0, |set, value| set | 1 << value), is_any && step == 1))
}

fn value(text: &str, bounds: &Bounds) -> Result<u32, String> {
    let name = text.to_ascii_lowercase();
    if let Some(at) = bounds.names.iter().position(|known| *known == name) {
        return Ok(bounds.low + u32::try_from(at).unwrap_or(0));
    }
    text.parse().map_err(|_| format!("failed to parse int from {text}"))
}

/// `1h30m`: numbers with units, as Go writes durations.
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut all = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|one: char| !one.is_ascii_digit() && one != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let units =
            [("ms", 0.001), ("us", 1e-6), ("ns", 1e-9), ("h", 3_600.0), ("m", 60.0), ("s", 1.0)];
        let (unit, seconds) = units.into_iter().find(|(unit, _)| rest.starts_with(unit))?;
        rest = &rest[unit.len()..];
        all += number * seconds;
    }
    Duration::try_from_secs_f64(all).ok().map(|all| Duration::from_secs(all.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(schedule: &str, zone: &str, after: &str) -> String {
        let zone = time_zone(zone).expect("a zone");
        let schedule = Schedule::read(schedule, zone).expect("a schedule");
        let next = schedule.next(after.parse().expect("a time")).expect("a next time");
        schedule.write(next)
    }

    #[test]
    fn schedules_are_due_when_they_say() {
        for (schedule, after, expected) in [
            ("* * * * *", "2024-01-01T00:00:00Z", "2024-01-01T00:01:00Z"),
            ("*/15 * * * *", "2024-01-01T00:50:10Z", "2024-01-01T01:00:00Z"),
            ("5/20 * * * *", "2024-01-01T00:26:00Z", "2024-01-01T00:45:00Z"),
            ("0 0 29 2 *", "2024-03-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("30 4 1,15 * 5", "2024-01-01T05:00:00Z", "2024-01-05T04:30:00Z"),
            ("0 9 * * mon-fri", "2024-01-05T10:00:00Z", "2024-01-08T09:00:00Z"),
            ("0 0 * JAN,Jul ?", "2024-01-31T12:00:00Z", "2024-07-01T00:00:00Z"),
            ("0 0 */2 * 0", "2024-01-01T12:00:00Z", "2024-01-03T00:00:00Z"),
            ("@weekly", "2024-01-01T00:00:00Z", "2024-01-07T00:00:00Z"),
            ("@yearly", "2024-01-01T00:00:00Z", "2025-01-01T00:00:00Z"),
            ("@hourly", "2024-01-01T00:00:00Z", "2024-01-01T01:00:00Z"),
            ("@every 1h30m", "2024-01-01T00:00:05Z", "2024-01-01T01:30:05Z"),
        ] {
            assert_eq!(next(schedule, "UTC", after), expected, "{schedule}");
        }
    }

    #[test]
    fn zones_and_their_summers_count() {
        let zone = "America/New_York";
        for (schedule, after, expected) in [
            ("0 9 * * *", "2024-01-01T00:00:00Z", "2024-01-01T09:00:00-05:00"),
            // Clocks go from 2:00 to 3:00.
            ("30 2 * * *", "2024-03-10T05:30:00Z", "2024-03-11T02:30:00-04:00"),
            // And from 2:00 back to 1:00.
            ("30 1 * * *", "2024-11-03T05:00:00Z", "2024-11-03T01:30:00-04:00"),
            ("30 1 * * *", "2024-11-03T05:30:00Z", "2024-11-03T01:30:00-05:00"),
        ] {
            assert_eq!(next(schedule, zone, after), expected, "{schedule} {after}");
        }
        let moved = next("TZ=Asia/Tokyo 0 9 * * *", "UTC", "2024-01-01T01:00:00Z");
        assert_eq!(moved, "2024-01-02T09:00:00+09:00");
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for text in [
            "",
            "* * * *",
            "60 * * * *",
            "5-1 * * * *",
            "*/0 * * * *",
            "@soon",
            "x * * * *",
            "* * * * 7",
            "@every never",
        ] {
            assert!(Schedule::read(text, TimeZone::UTC).is_err(), "{text}");
        }
    }

    #[test]
    fn the_last_time_is_found_without_counting_all() {
        let last = |schedule: &str, first: &str, until: &str| {
            let schedule = Schedule::read(schedule, TimeZone::UTC).expect("a schedule");
            let (first, until) = (first.parse().expect("a time"), until.parse().expect("a time"));
            schedule.write(schedule.last(first, until))
        };
        let first = "2000-01-01T00:00:00Z";
        assert_eq!(last("* * * * *", first, "2024-05-06T07:08:09Z"), "2024-05-06T07:08:00Z");
        assert_eq!(last("@yearly", first, "2024-05-06T07:08:09Z"), "2024-01-01T00:00:00Z");
        assert_eq!(last("@every 7s", first, "2000-01-01T00:00:20Z"), "2000-01-01T00:00:14Z");
        assert_eq!(last("@yearly", first, "2000-02-01T00:00:00Z"), first);
    }
}
