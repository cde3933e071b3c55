//! How much is let in at once: requests in flight, open watches, and how long a request may take.
//!
//! Whoever is turned away is told when to come back. Nobody has more places than are left to the
//! others, so that one who floods the server does not shut them out. Administrators are always let
//! in, so that an overloaded server can still be looked at and helped.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::identity::{GROUP_MASTERS, User};
use crate::status::Error;

/// Requests in flight that only read.
pub const READS_MAX: usize = 400;
/// Requests in flight that write.
pub const WRITES_MAX: usize = 200;
/// Open watches; each is a position and a buffer, some kilobytes in all.
pub const WATCHES_MAX: usize = 32_768;
/// Programs and ports that clients hold open; each is a few short queues and two tasks.
pub const STREAMS_MAX: usize = 1_024;
/// How long a request may take until its answer begins. Those that last by nature have no limit.
pub const REQUEST_MAX: Duration = Duration::from_secs(60);
/// The same for a request that writes.
pub const WRITE_MAX: Duration = Duration::from_secs(34);
/// When to come back.
const RETRY_AFTER_SECONDS: u32 = 1;

/// What is under way.
pub struct Traffic {
    pub reads: Lane,
    pub writes: Lane,
    pub watches: Lane,
    pub streams: Lane,
}

/// One kind of request, and how many of it may be under way.
pub struct Lane {
    places: Arc<Mutex<Places>>,
    max: usize,
}

/// The places that are taken, also by user. Who has none is not in the map, so it is never longer
/// than the lane.
#[derive(Debug, Default)]
struct Places {
    busy: usize,
    by_user: BTreeMap<Arc<str>, usize>,
}

/// A place in a lane, given back when dropped.
#[derive(Debug)]
pub struct Permit {
    places: Arc<Mutex<Places>>,
    user: Arc<str>,
}

impl Default for Traffic {
    fn default() -> Traffic {
        Traffic {
            reads: Lane::new(READS_MAX),
            writes: Lane::new(WRITES_MAX),
            watches: Lane::new(WATCHES_MAX),
            streams: Lane::new(STREAMS_MAX),
        }
    }
}

impl Traffic {
    /// Lets a request in; `None` for those that are not counted here.
    pub fn enter(&self, verb: &str, user: &User) -> Result<Option<Permit>, Error> {
        let lane = match verb {
            "get" | "list" => &self.reads,
            // Its place is taken when it begins and kept while it lasts.
            "watch" => return Ok(None),
            _ => &self.writes,
        };
        lane.enter(user).map(Some)
    }
}

impl Lane {
    pub fn new(max: usize) -> Lane {
        Lane { places: Arc::default(), max }
    }

    pub fn enter(&self, user: &User) -> Result<Permit, Error> {
        let mut places = lock(&self.places);
        let own = places.by_user.get(&user.name).copied().unwrap_or(0);
        let free = self.max.saturating_sub(places.busy);
        if own >= free && !user.is_in(GROUP_MASTERS) {
            let text = "Too many requests, please try again later.";
            return Err(Error::too_many_requests(text, RETRY_AFTER_SECONDS));
        }
        places.busy += 1;
        places.by_user.insert(user.name.clone(), own + 1);
        Ok(Permit { places: self.places.clone(), user: user.name.clone() })
    }

    pub fn max(&self) -> usize {
        self.max
    }

    pub fn busy(&self) -> usize {
        lock(&self.places).busy
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut places = lock(&self.places);
        places.busy -= 1;
        match places.by_user.get_mut(&self.user) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(places.by_user.remove(&self.user)),
        }
    }
}

fn lock(places: &Mutex<Places>) -> MutexGuard<'_, Places> {
    places.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What lasts by nature: its answer begins when somebody at the other end says something.
pub fn is_long_running(verb: &str, subresource: &str) -> bool {
    verb == "watch"
        || matches!(subresource, "attach" | "exec" | "log" | "portforward" | "proxy" | "run")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_too_much_is_told_to_come_back_and_administrators_are_not() {
        let user = User::authenticated("a", Vec::<&str>::new());
        let admin = User::authenticated("b", [GROUP_MASTERS]);
        let lane = Lane::new(4);
        let first = lane.enter(&user).unwrap();
        let _second = lane.enter(&user).unwrap();
        let error = lane.enter(&user).unwrap_err();
        assert_eq!((error.code, &*error.reason), (429, "TooManyRequests"));
        assert_eq!(error.details.unwrap().retry_after_seconds, 1);
        assert_eq!(lane.busy(), 2);
        let _third = lane.enter(&admin).unwrap();
        drop(first);
        assert_eq!(lane.busy(), 2);
    }

    #[test]
    fn one_who_floods_leaves_places_to_the_others() {
        let flood = User::authenticated("flood", Vec::<&str>::new());
        let lane = Lane::new(READS_MAX);
        let held: Vec<_> = std::iter::from_fn(|| lane.enter(&flood).ok()).collect();
        assert_eq!(held.len(), READS_MAX / 2);
        for other in ["b", "c", "d"] {
            let other = User::authenticated(other, Vec::<&str>::new());
            let held: Vec<_> = std::iter::from_fn(|| lane.enter(&other).ok()).collect();
            assert!(held.len() >= READS_MAX / 4, "{}", held.len());
        }
        drop(held);
        assert_eq!(lane.busy(), 0);
        assert!(lock(&lane.places).by_user.is_empty());
    }

    #[test]
    fn a_watch_takes_no_place_of_a_read() {
        let user = User::authenticated("a", Vec::<&str>::new());
        let traffic = Traffic::default();
        assert!(traffic.enter("watch", &user).unwrap().is_none());
        let _read = traffic.enter("list", &user).unwrap();
        let _write = traffic.enter("patch", &user).unwrap();
        let busy = (traffic.reads.busy(), traffic.writes.busy(), traffic.watches.busy());
        assert_eq!(busy, (1, 1, 0));
    }
}
