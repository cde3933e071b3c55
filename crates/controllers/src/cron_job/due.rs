//! Whether a CronJob is due, and for which time.

use jiff::Timestamp;
use reconcile::Object;

use super::schedule::Schedule;

/// More missed times than this are worth a warning.
const MISSED_MAX: i64 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    NotYet,
    /// The last time that has not been acted on; earlier ones are over.
    At {
        time: Timestamp,
        are_many_missed: bool,
    },
}

pub fn due(cron: &Object, schedule: &Schedule, now: Timestamp) -> Due {
    let Some(since) = since(cron, now) else { return Due::NotYet };
    let Some(first) = schedule.next(since).filter(|first| *first <= now) else {
        return Due::NotYet;
    };
    let second = schedule.next(first).unwrap_or(Timestamp::MAX);
    if now < second {
        return Due::At { time: first, are_many_missed: false };
    }
    let between = (second.as_second() - first.as_second()).max(1);
    let missed = (now.as_second() - first.as_second()) / between + 1;
    Due::At { time: schedule.last(first, now), are_many_missed: missed > MISSED_MAX }
}

/// From when on times count: since the last, or the creation, but no longer ago than the deadline.
fn since(cron: &Object, now: Timestamp) -> Option<Timestamp> {
    let last = cron.value["status"]["lastScheduleTime"].as_str();
    let last = last.and_then(|last| last.parse::<Timestamp>().ok()).or(cron.created())?;
    let deadline = cron.value["spec"]["startingDeadlineSeconds"].as_i64();
    let earliest = deadline
        .and_then(|deadline| Timestamp::from_second(now.as_second().saturating_sub(deadline)).ok());
    Some(earliest.map_or(last, |earliest| last.max(earliest)))
}
