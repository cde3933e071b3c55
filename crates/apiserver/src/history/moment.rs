//! Moments of the past: a revision, a time, or how long ago; and which revision that was.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use store::{KeyRange, Revision, Store, Timestamp};

use crate::server::{Server, store_failure};
use crate::status::Error;
use crate::timestamp;

/// Times of revisions that are remembered: finding one among old files costs a walk.
const KNOWN_MAX: usize = 4_096;
/// How far the clock of a client may be ahead.
const AHEAD_MICROS: i64 = 60_000_000;

const EXPECTED: &str = "expected a revision such as 1234, a time such as 2026-01-02T15:04:05Z, or \
                        how long ago, such as -5m";

/// A moment as somebody says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    At(Revision),
    Time(Timestamp),
    /// Microseconds before now.
    Ago(i64),
}

/// What was learned of when revisions were made.
#[derive(Default)]
pub struct Moments(Mutex<BTreeMap<Revision, Timestamp>>);

impl Moments {
    fn get(&self, revision: Revision) -> Option<Timestamp> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&revision).copied()
    }

    fn add(&self, revision: Revision, time: Timestamp) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(revision, time);
        if known.len() > KNOWN_MAX {
            known.pop_first();
        }
    }
}

/// Reads what somebody says.
pub fn parse(text: &str) -> Result<Moment, Error> {
    let wrong = || Error::bad_request(format!("invalid time {text:?}; {EXPECTED}"));
    if let Some(ago) = text.strip_prefix('-') {
        return duration(ago).map(Moment::Ago).ok_or_else(wrong);
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().map(|number| Moment::At(Revision(number))).map_err(|_| wrong());
    }
    let (seconds, micros) = timestamp::parse_micro(text).ok_or_else(wrong)?;
    Ok(Moment::Time(Timestamp(seconds.saturating_mul(1_000_000) + i64::from(micros))))
}

/// The microseconds of `1h30m`.
fn duration(text: &str) -> Option<i64> {
    let mut rest = text;
    let mut total: i64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|character: char| !character.is_ascii_digit())?;
        let number: i64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|character: char| character.is_ascii_digit());
        let (unit, after) = rest.split_at(letters.unwrap_or(rest.len()));
        rest = after;
        let micros = match unit {
            "ms" => 1_000,
            "s" => 1_000_000,
            "m" => 60_000_000,
            "h" => 3_600_000_000,
            "d" => 86_400_000_000,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(micros)?)?;
    }
    (!text.is_empty()).then_some(total)
}

/// The oldest and the newest revision that can be read.
pub fn window(store: &dyn Store) -> (Revision, Revision) {
    let newest = store.revision();
    (store.compacted().max(Revision(1)).min(newest), newest)
}

/// RFC 3339 with microseconds.
pub fn text(time: Timestamp) -> String {
    let micros = u32::try_from(time.0.rem_euclid(1_000_000)).unwrap_or_default();
    timestamp::format_micro(time.0.div_euclid(1_000_000), micros)
}

/// The revision that was the newest at a moment.
pub async fn resolve(server: &Server, moment: Moment) -> Result<Revision, Error> {
    let (oldest, newest) = window(&*server.store);
    let now = server.environment.now();
    let time = match moment {
        Moment::At(revision) if revision > newest => {
            let text = format!("revision {revision} does not exist; the newest is {newest}");
            return Err(Error::bad_request(text));
        }
        Moment::At(revision) if revision < oldest => {
            return Err(too_old(server, format!("revision {revision}"), oldest).await);
        }
        Moment::At(revision) => return Ok(revision),
        Moment::Time(time) if time.0 > now.0.saturating_add(AHEAD_MICROS) => {
            let text = format!("{} is in the future; it is {}", text(time), text(now));
            return Err(Error::bad_request(text));
        }
        Moment::Time(time) => time,
        Moment::Ago(micros) => Timestamp(now.0.saturating_sub(micros)),
    };
    if time_of(server, oldest).await?.is_some_and(|first| first > time) {
        if server.store.compacted() == Revision::ZERO {
            // Nothing was forgotten: there was nothing yet.
            return Ok(Revision::ZERO);
        }
        return Err(too_old(server, text(time), oldest).await);
    }
    let (mut low, mut high) = (oldest, newest);
    // The last revision whose time is not after the one that is meant.
    while low < high {
        let middle = Revision(low.0 + (high.0 - low.0).div_ceil(2));
        match time_of(server, middle).await? {
            Some(found) if found > time => high = middle.before(),
            _ => low = middle,
        }
    }
    Ok(low)
}

async fn too_old(server: &Server, what: String, oldest: Revision) -> Error {
    let since = time_of(server, oldest).await.ok().flatten();
    let since = since.map(|time| format!(" of {}", text(time))).unwrap_or_default();
    Error::expired(format!(
        "{what} is before the history that is kept, which begins at revision {oldest}{since}; ask \
         for a later moment, or keep more with storage.history.max_age and max_bytes of the \
         configuration"
    ))
}

/// When a revision was made, or the next one that was.
pub async fn time_of(server: &Server, revision: Revision) -> Result<Option<Timestamp>, Error> {
    if let Some(time) = server.moments.get(revision) {
        return Ok(Some(time));
    }
    let newest = server.store.revision();
    // Where history was thinned out the next revision may be any number away.
    let (mut after, mut step) = (revision.before(), 1_u64);
    while after < newest {
        let to = Revision(after.0.saturating_add(step)).min(newest);
        let changes = server.store.changes(&KeyRange::all(), after, to).await;
        let changes = changes.map_err(store_failure)?;
        if let Some(batch) = changes.batches.first() {
            server.moments.add(revision, batch.provenance.time);
            return Ok(Some(batch.provenance.time));
        }
        after = changes.through;
        step = step.saturating_mul(8);
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_revision_a_time_or_how_long_ago() {
        assert_eq!(parse("17").unwrap(), Moment::At(Revision(17)));
        assert_eq!(parse("-1h30m").unwrap(), Moment::Ago(5_400_000_000));
        assert_eq!(parse("-2d").unwrap(), Moment::Ago(172_800_000_000));
        let time = Timestamp(1_714_979_289_500_000);
        assert_eq!(parse("2024-05-06T07:08:09.5Z").unwrap(), Moment::Time(time));
        for wrong in ["", "-", "-5", "-5x", "yesterday", "2024-05-06", "99999999999999999999"] {
            assert_eq!(parse(wrong).expect_err(wrong).code, 400, "{wrong}");
        }
    }
}
