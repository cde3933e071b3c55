//! Places for connections: how many a listener serves at once, and how many of them one source has.
//!
//! A source that has all of its places gets another one only for its oldest connection that has
//! not sent a request yet. So clients that connect and stay silent replace each other, and keep
//! nobody else out. A few places are for this host alone.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::Limits;

/// Accepted connections that wait for a place.
const WAITING_MAX: usize = 256;

/// Origin of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A socket of the file system.
    Unix,
    /// An IPv4 address, or an IPv6 network of 64 bits: a host has all addresses of one.
    Address(IpAddr),
}

impl Source {
    pub fn from_address(address: IpAddr) -> Source {
        Source::Address(match address.to_canonical() {
            IpAddr::V6(six) => Ipv6Addr::from_bits(six.to_bits() & !u128::from(u64::MAX)).into(),
            four => four,
        })
    }

    fn is_local(self) -> bool {
        match self {
            Source::Unix => true,
            // The network of ::1 has no other host.
            Source::Address(IpAddr::V6(network)) => network.is_unspecified(),
            Source::Address(IpAddr::V4(address)) => address.is_loopback(),
        }
    }
}

/// Places of one listener.
pub struct Places {
    limits: Limits,
    general: Arc<Semaphore>,
    /// Taken by connections of this host when all others are taken.
    reserve: Arc<Semaphore>,
    waiting: Semaphore,
    sources: Mutex<Sources>,
}

#[derive(Default)]
struct Sources {
    next: u64,
    by_source: BTreeMap<Source, Held>,
}

/// Connections of one source.
#[derive(Default)]
struct Held {
    count: usize,
    /// Those that have not sent a request, oldest first.
    silent: VecDeque<(u64, Arc<Notify>)>,
}

impl Held {
    /// Ends the oldest silent connection; `false` if there is none.
    fn evict(&mut self) -> bool {
        let Some((_, evicted)) = self.silent.pop_front() else { return false };
        evicted.notify_one();
        true
    }
}

/// A connection that counts against its source until it is dropped.
pub struct Place {
    places: Arc<Places>,
    source: Source,
    id: u64,
    evicted: Arc<Notify>,
    has_spoken: AtomicBool,
    permit: Option<OwnedSemaphorePermit>,
}

impl Places {
    pub fn new(limits: Limits) -> Arc<Places> {
        Arc::new(Places {
            limits,
            general: Arc::new(Semaphore::new(limits.connections_max)),
            reserve: Arc::new(Semaphore::new(limits.local_reserve)),
            waiting: Semaphore::new(WAITING_MAX),
            sources: Mutex::default(),
        })
    }

    /// Counts a connection; `None` if its source has too many.
    pub fn enter(self: &Arc<Self>, source: Source) -> Option<Place> {
        let mut sources = self.sources();
        let id = sources.next;
        sources.next += 1;
        let held = sources.by_source.entry(source).or_default();
        let is_full = held.count >= self.limits.per_source_max;
        if is_full && !held.evict() {
            return None;
        }
        let evicted = Arc::new(Notify::new());
        held.count += 1;
        held.silent.push_back((id, evicted.clone()));
        let (places, has_spoken) = (self.clone(), AtomicBool::new(false));
        Some(Place { places, source, id, evicted, has_spoken, permit: None })
    }

    /// Ends the oldest silent connection of the source that has the most connections.
    fn evict(&self) {
        let mut sources = self.sources();
        let silent = sources.by_source.values_mut().filter(|held| !held.silent.is_empty());
        if let Some(held) = silent.max_by_key(|held| held.count) {
            held.evict();
        }
    }

    fn sources(&self) -> MutexGuard<'_, Sources> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Waits for one of the places; `false` if none became free in time.
    pub async fn take(&mut self) -> bool {
        self.permit = self.places.general.clone().try_acquire_owned().ok();
        if self.permit.is_none() && self.source.is_local() {
            self.permit = self.places.reserve.clone().try_acquire_owned().ok();
        }
        if self.permit.is_some() {
            return true;
        }
        let Ok(_waiting) = self.places.waiting.try_acquire() else { return false };
        // Ending this connection would free no place.
        self.speak();
        self.places.evict();
        let waited = self.places.general.clone().acquire_owned();
        self.permit = timeout(self.places.limits.wait_max, waited).await.ok().and_then(Result::ok);
        self.fall_silent();
        self.permit.is_some()
    }

    fn fall_silent(&self) {
        self.has_spoken.store(false, Ordering::Relaxed);
        if let Some(held) = self.places.sources().by_source.get_mut(&self.source) {
            held.silent.push_back((self.id, self.evicted.clone()));
        }
    }

    /// Notes that the client has sent a request: the connection is no longer evicted.
    pub fn speak(&self) {
        if self.has_spoken.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut sources = self.places.sources();
        if let Some(held) = sources.by_source.get_mut(&self.source) {
            held.silent.retain(|(id, _)| *id != self.id);
        }
    }

    /// Returns when the connection has to give its place to a newer one.
    pub async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut sources = self.places.sources();
        let Some(held) = sources.by_source.get_mut(&self.source) else { return };
        held.count = held.count.saturating_sub(1);
        held.silent.retain(|(id, _)| *id != self.id);
        if held.count == 0 {
            sources.by_source.remove(&self.source);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Source {
        Source::from_address(text.parse().unwrap())
    }

    fn limits(connections_max: usize, per_source_max: usize, local_reserve: usize) -> Limits {
        Limits { connections_max, per_source_max, local_reserve, ..Limits::default() }
    }

    #[test]
    fn an_ipv6_network_is_one_source_and_a_mapped_address_is_its_ipv4_address() {
        assert_eq!(address("2001:db8::1"), address("2001:db8::ffff:1"));
        assert_ne!(address("2001:db8::1"), address("2001:db8:0:1::1"));
        assert_eq!(address("::ffff:192.0.2.1"), address("192.0.2.1"));
        assert!(address("::1").is_local() && address("127.8.8.8").is_local());
        assert!(!address("192.0.2.1").is_local() && Source::Unix.is_local());
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_with_all_its_places_gives_up_its_oldest_silent_connection() {
        let places = Places::new(limits(100, 2, 0));
        let (busy, silent) =
            (places.enter(address("192.0.2.1")), places.enter(address("192.0.2.1")));
        let (busy, silent) = (busy.unwrap(), silent.unwrap());
        busy.speak();
        let third = places.enter(address("192.0.2.1")).unwrap();
        silent.evicted().await;
        assert!(places.enter(address("192.0.2.2")).is_some());
        third.speak();
        assert!(places.enter(address("192.0.2.1")).is_none(), "nobody is silent");
        drop((busy, silent));
        assert!(places.enter(address("192.0.2.1")).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn the_reserve_is_for_this_host_and_silent_connections_make_way_for_others() {
        let places = Places::new(limits(1, 100, 1));
        let mut first = places.enter(address("192.0.2.1")).unwrap();
        assert!(first.take().await);
        let mut local = places.enter(address("127.0.0.1")).unwrap();
        assert!(local.take().await, "the reserve");
        let mut other = places.enter(address("192.0.2.2")).unwrap();
        let evicted = async {
            first.evicted().await;
            drop(first);
        };
        let (taken, ()) = tokio::join!(other.take(), evicted);
        assert!(taken);
        other.speak();
        let mut late = places.enter(address("192.0.2.3")).unwrap();
        assert!(!late.take().await, "all places are taken by clients that sent requests");
    }
}
