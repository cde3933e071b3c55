//! How far back ordinary lists and watches reach: as far as clients of Kubernetes expect.
//!
//! The store keeps far more for the history, which hides secrets and knows whose past it is. What
//! is older answers here as if it were compacted.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use store::{Key, Revision, Timestamp};

use super::Request;
use crate::history::moment::{self, Moment};
use crate::rbac::Attributes;
use crate::server::{Server, store_failure};
use crate::status::Error;

/// A revision is served until it has been followed by others for this long: the default of etcd
/// under Kubernetes is five to ten minutes.
const REACH_MICROS: i64 = 10 * 60_000_000;
/// How often the newest revision is noted.
const NOTE_MICROS: i64 = 60_000_000;
/// More notes than these are there only while the clock goes back.
const NOTES_MAX: usize = 32;

/// Revisions that were the newest in the last minutes, so that a recent one costs no look at the
/// history.
#[derive(Default)]
pub struct Reach(Mutex<VecDeque<(Timestamp, Revision)>>);

/// What the notes say of a revision.
#[derive(Debug, PartialEq, Eq)]
enum Known {
    Recent,
    Old,
    /// It is older than the notes.
    Unknown,
}

impl Reach {
    fn look(&self, revision: Revision, now: Timestamp, newest: Revision) -> Known {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = |(time, _): &(Timestamp, Revision)| (now.0 - time.0).abs() >= NOTE_MICROS;
        if notes.back().is_none_or(is_due) {
            notes.push_back((now, newest));
        }
        let cut = now.0.saturating_sub(REACH_MICROS);
        // The last one before the window stays: what is older than it is too old.
        while notes.len() > NOTES_MAX || notes.get(1).is_some_and(|(time, _)| time.0 <= cut) {
            notes.pop_front();
        }
        let is_within = |(time, _): &&(Timestamp, Revision)| time.0 > cut;
        if revision >= newest
            || notes.iter().find(is_within).is_some_and(|(_, noted)| revision >= *noted)
        {
            return Known::Recent;
        }
        match notes.front() {
            Some((time, noted)) if time.0 <= cut && revision < *noted => Known::Old,
            _ => Known::Unknown,
        }
    }
}

/// Refuses a revision that is older than what a client may name.
pub async fn check(server: &Server, request: &Request, verb: &str, at: Revision) -> Outcome {
    let (now, newest) = (server.environment.now(), server.store.revision());
    let oldest = match server.reach.look(at, now, newest) {
        Known::Recent => Revision::ZERO,
        Known::Unknown if is_recent(server, at, now).await? => Revision::ZERO,
        Known::Old | Known::Unknown => oldest(server).await?,
    };
    let oldest = oldest.max(since(server, request, verb, at).await?);
    match at < oldest {
        true => Err(Refused::TooOld { requested: at, oldest }),
        false => Ok(()),
    }
}

/// What a check comes to.
pub type Outcome = Result<(), Refused>;

pub enum Refused {
    TooOld { requested: Revision, oldest: Revision },
    Failed(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused::Failed(error)
    }
}

/// Whether what followed a revision was made within the window.
async fn is_recent(server: &Server, at: Revision, now: Timestamp) -> Result<bool, Error> {
    let followed = match at < server.store.compacted() {
        true => None,
        false => moment::time_of(server, at.next()).await?,
    };
    Ok(followed.is_some_and(|time| time.0 > now.0.saturating_sub(REACH_MICROS)))
}

/// The revision that was the newest at the beginning of the window.
async fn oldest(server: &Server) -> Result<Revision, Error> {
    match moment::resolve(server, Moment::Ago(REACH_MICROS)).await {
        // Less is kept than would be served: the store knows what.
        Err(error) if error.code == 410 => Ok(Revision::ZERO),
        resolved => resolved,
    }
}

/// From when on who asks may know of a namespace: another of its name may have been somebody
/// else's. Rights are asked about only for what is older.
async fn since(
    server: &Server,
    request: &Request,
    verb: &str,
    at: Revision,
) -> Result<Revision, Error> {
    let target = &request.target;
    if target.namespace.is_empty() || !request.resource.namespaced {
        return Ok(Revision::ZERO);
    }
    let key = Key::new(format!("namespaces/{}", target.namespace));
    let key = key.map_err(|error| Error::bad_request(error.to_string()))?;
    let entry = server.store.get(&key, Some(server.store.revision())).await;
    // In a namespace that is not there nobody has rights of its own.
    let Some(entry) = entry.map_err(store_failure)? else { return Ok(Revision::ZERO) };
    if at >= entry.created {
        return Ok(Revision::ZERO);
    }
    let everywhere =
        Attributes { verb, group: &target.group, resource: &target.resource, ..Default::default() };
    match server.decide(&request.user, &everywhere) {
        Ok(()) => Ok(Revision::ZERO),
        Err(_) => Ok(entry.created),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_recent_until_it_was_followed_by_others_for_ten_minutes() {
        let reach = Reach::default();
        let minute = |minutes: i64| Timestamp(minutes * 60_000_000);
        let look = |at: u64, minutes: i64, newest: u64| {
            reach.look(Revision(at), minute(minutes), Revision(newest))
        };
        assert_eq!(look(100, 0, 100), Known::Recent, "the newest");
        assert_eq!(look(99, 0, 100), Known::Unknown, "older than all notes");
        assert_eq!(look(100, 5, 200), Known::Recent);
        assert_eq!(look(150, 9, 200), Known::Recent);
        assert_eq!(look(99, 11, 200), Known::Old);
        assert_eq!(look(150, 11, 200), Known::Unknown, "between two notes");
        assert_eq!(look(200, 14, 300), Known::Recent);
        assert_eq!(look(150, 16, 300), Known::Old);
        assert_eq!(look(300, 600, 300), Known::Recent, "nothing followed");
    }
}
