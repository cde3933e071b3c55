//! Ends events that are old.
//!
//! An event is kept for a time in which a server ran, by the clock that only goes forward: a jump
//! of the wall clock ends nothing, and neither does the time in which nobody ran. One small key
//! remembers how long servers have run and at which revisions that was written down, so that the
//! age of an event follows from the revision that wrote it: nothing is kept for each event, and a
//! restart costs an event at most one interval of extra life.
//!
//! Upstream: the lease of a key in etcd

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use store::{
    COMMIT_OPERATIONS_MAX, Commit, Entry, Environment, Key, KeyRange, Mutation, Operation,
    PageRequest, Precondition, Provenance, Revision, Store,
};
use tokio::time::Instant;

/// How long events are kept when nobody says.
pub const EVENT_AGE: Duration = Duration::from_secs(3_600);
/// Where events are in the store, and where it is remembered how old they are.
const EVENTS: &str = "events/";
const MEMORY: &str = "internal/event-ages";
/// An age is measured in so many intervals: an event is gone at most two of them late.
const INTERVALS: u32 = 12;
/// How many marks are remembered: enough for an age, and one to measure from.
const MARKS_MAX: usize = INTERVALS as usize + 2;
/// How many events are looked at at once.
const PAGE_ENTRIES: usize = 1_000;
const ACTOR: &str = "system:apiserver";

/// Ends events when their time is over.
pub struct Expiry {
    store: Arc<dyn Store>,
    environment: Arc<dyn Environment>,
    age: Duration,
    /// The memory as this process saw it last, and when.
    seen: Option<(Option<Revision>, Instant)>,
}

/// How long servers have run, and at which revisions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Memory {
    marks: Vec<Mark>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    revision: Revision,
    /// Milliseconds in which a server ran, from the very first.
    run: u64,
}

impl Memory {
    fn read(value: &[u8]) -> Memory {
        let value: Value = serde_json::from_slice(value).unwrap_or_default();
        let list = value["marks"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mark =
            |it: &Value| Some(Mark { revision: Revision(it[0].as_u64()?), run: it[1].as_u64()? });
        Memory { marks: list.iter().filter_map(mark).collect() }
    }

    fn write(&self) -> String {
        let mark = |mark: &Mark| json!([mark.revision.0, mark.run]);
        json!({"marks": self.marks.iter().map(mark).collect::<Vec<_>>()}).to_string()
    }

    /// Adds that it is `ran` later, and everything up to a revision is written.
    fn mark(&mut self, revision: Revision, ran: Duration) {
        let before = self.marks.last().map_or(0, |mark| mark.run);
        let ran = u64::try_from(ran.as_millis()).unwrap_or(u64::MAX);
        self.marks.push(Mark { revision, run: before.saturating_add(ran) });
        let surplus = self.marks.len().saturating_sub(MARKS_MAX);
        self.marks.drain(..surplus);
    }

    /// Everything written up to this revision is older than an age.
    fn expired(&self, age: Duration) -> Option<Revision> {
        let now = self.marks.last()?.run;
        let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        let old = self.marks.iter().filter(|mark| now - mark.run.min(now) >= age);
        old.map(|mark| mark.revision).max()
    }
}

impl Expiry {
    pub fn new(store: Arc<dyn Store>, environment: Arc<dyn Environment>, age: Duration) -> Expiry {
        Expiry { store, environment, age, seen: None }
    }

    /// Ends what is old for as long as the store is open.
    pub async fn run(mut self) {
        loop {
            match self.step(Instant::now()).await {
                Ok(()) => {}
                Err(store::Error::Stopped { .. }) => return,
                Err(error) => tracing::warn!(%error, "old events could not be ended"),
            }
            tokio::time::sleep(self.age / INTERVALS).await;
        }
    }

    /// One interval later: writes down how long it was, and ends what has become old.
    async fn step(&mut self, now: Instant) -> Result<(), store::Error> {
        let key = Key::new(MEMORY)?;
        let entry = self.store.get(&key, None).await?;
        let found = entry.as_ref().map(|entry| entry.modified);
        let ran = match self.seen {
            Some((seen, when)) if seen == found => now.saturating_duration_since(when),
            // It is the first look, or another process wrote down the time that we both ran.
            _ => {
                self.seen = Some((found, now));
                return Ok(());
            }
        };
        let events = KeyRange::prefix(EVENTS);
        let page = self.store.list(&events, PageRequest::first(1), None).await?;
        if page.entries.is_empty() {
            // Nothing ages, so that a quiet cluster writes nothing.
            self.seen = Some((found, now));
            return Ok(());
        }
        let mut memory = entry.map(|entry| Memory::read(&entry.value)).unwrap_or_default();
        memory.mark(page.revision, ran);
        let when = found.map_or(Precondition::Absent, Precondition::At);
        let mutation = Mutation::Put(memory.write().into());
        match self.commit(vec![Operation { key, mutation, when }]).await {
            Ok(revision) => self.seen = Some((Some(revision), now)),
            Err(store::Error::Conflict { .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
        match memory.expired(self.age) {
            Some(revision) => self.end_until(revision).await,
            None => Ok(()),
        }
    }

    /// Deletes all events that were last written up to a revision.
    async fn end_until(&self, revision: Revision) -> Result<(), store::Error> {
        let events = KeyRange::prefix(EVENTS);
        let mut page = PageRequest::first(PAGE_ENTRIES);
        loop {
            let found = self.store.list(&events, page, None).await?;
            let old = found.entries.iter().filter(|entry| entry.modified <= revision);
            let old: Vec<Operation> = old.map(|entry| deletion(entry)).collect();
            for some in old.chunks(COMMIT_OPERATIONS_MAX) {
                self.end(some).await?;
            }
            match found.next {
                Some(next) => page = PageRequest::next(PAGE_ENTRIES, next),
                None => return Ok(()),
            }
        }
    }

    async fn end(&self, old: &[Operation]) -> Result<(), store::Error> {
        match self.commit(old.to_vec()).await {
            Ok(_) => Ok(()),
            // Somebody wrote one of them again, or ended it; the others are still old.
            Err(store::Error::Conflict { .. }) if old.len() > 1 => {
                for one in old {
                    match self.commit(vec![one.clone()]).await {
                        Ok(_) | Err(store::Error::Conflict { .. }) => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(())
            }
            Err(store::Error::Conflict { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn commit(&self, operations: Vec<Operation>) -> Result<Revision, store::Error> {
        let provenance = Provenance::of(self.environment.now(), ACTOR);
        let committed = self.store.commit(Commit { operations, epoch: None, provenance }).await?;
        Ok(committed.revision)
    }
}

fn deletion(entry: &Entry) -> Operation {
    let when = Precondition::At(entry.modified);
    Operation { key: entry.key.clone(), mutation: Mutation::Delete, when }
}

#[cfg(test)]
mod tests {
    use store::{Retention, System, Timestamp, backends};

    use super::*;

    const MINUTES_5: Duration = Duration::from_secs(300);

    /// A wall clock that is years ahead at every look.
    struct Jumping(std::sync::atomic::AtomicI64);

    impl Environment for Jumping {
        fn now(&self) -> Timestamp {
            let year = 365 * 86_400 * 1_000_000;
            Timestamp(self.0.fetch_add(year, std::sync::atomic::Ordering::Relaxed))
        }

        fn random(&self) -> u64 {
            System.random()
        }
    }

    fn expiry(store: &Arc<dyn Store>) -> Expiry {
        let environment = Arc::new(Jumping(0.into()));
        Expiry::new(store.clone(), environment, EVENT_AGE)
    }

    async fn write(store: &Arc<dyn Store>, key: &str) {
        let key = Key::new(key).unwrap();
        let found = store.get(&key, None).await.unwrap();
        let when = found.map_or(Precondition::Absent, |entry| Precondition::At(entry.modified));
        let operations = vec![Operation { key, mutation: Mutation::Put("{}".into()), when }];
        let provenance = Provenance::of(Timestamp(0), "test");
        store.commit(Commit { operations, epoch: None, provenance }).await.unwrap();
    }

    async fn keys(store: &Arc<dyn Store>) -> Vec<String> {
        let range = KeyRange::prefix(EVENTS);
        let page = store.list(&range, PageRequest::all(), None).await.unwrap();
        page.entries.iter().map(|entry| entry.key.to_string()).collect()
    }

    #[tokio::test]
    async fn an_event_is_ended_after_its_age_and_not_before() {
        let store = backends::memory::open(Retention::default(), Arc::new(System));
        let mut expiry = expiry(&store);
        let start = Instant::now();
        write(&store, "events/default/a").await;
        write(&store, "pods/default/a").await;
        for minutes in (0..=60).step_by(5) {
            expiry.step(start + Duration::from_secs(minutes * 60)).await.unwrap();
            assert_eq!(keys(&store).await, ["events/default/a"], "{minutes}");
        }
        expiry.step(start + Duration::from_secs(65 * 60)).await.unwrap();
        assert!(keys(&store).await.is_empty());
        let pod = store.get(&Key::new("pods/default/a").unwrap(), None).await.unwrap();
        assert!(pod.is_some(), "only events end");
    }

    #[tokio::test]
    async fn an_event_that_is_written_again_is_young_again() {
        let store = backends::memory::open(Retention::default(), Arc::new(System));
        let mut expiry = expiry(&store);
        let start = Instant::now();
        write(&store, "events/default/a").await;
        write(&store, "events/default/b").await;
        for step in 0..8 {
            expiry.step(start + MINUTES_5 * step).await.unwrap();
        }
        write(&store, "events/default/b").await;
        for step in 8..16 {
            expiry.step(start + MINUTES_5 * step).await.unwrap();
        }
        assert_eq!(keys(&store).await, ["events/default/b"]);
    }

    #[tokio::test]
    async fn the_age_of_an_event_survives_a_restart_and_grows_only_while_a_server_runs() {
        let store = backends::memory::open(Retention::default(), Arc::new(System));
        let start = Instant::now();
        write(&store, "events/default/a").await;
        let mut first = expiry(&store);
        for step in 0..8 {
            first.step(start + MINUTES_5 * step).await.unwrap();
        }
        // Years later, by a clock that nobody ran by.
        let later = start + Duration::from_secs(1_000_000);
        let mut second = expiry(&store);
        for step in 0..5 {
            second.step(later + MINUTES_5 * step).await.unwrap();
            assert_eq!(keys(&store).await, ["events/default/a"], "{step}");
        }
        for step in 5..8 {
            second.step(later + MINUTES_5 * step).await.unwrap();
        }
        assert!(keys(&store).await.is_empty());
    }

    #[tokio::test]
    async fn two_processes_do_not_count_the_same_time_twice() {
        let store = backends::memory::open(Retention::default(), Arc::new(System));
        let (mut one, mut other) = (expiry(&store), expiry(&store));
        let start = Instant::now();
        write(&store, "events/default/a").await;
        for step in 0..=12 {
            one.step(start + MINUTES_5 * step).await.unwrap();
            other.step(start + MINUTES_5 * step + MINUTES_5 / 2).await.unwrap();
            assert_eq!(keys(&store).await, ["events/default/a"], "{step}");
        }
    }

    #[tokio::test]
    async fn many_events_end_at_once_and_a_quiet_store_is_not_written() {
        let store = backends::memory::open(Retention::default(), Arc::new(System));
        let mut expiry = expiry(&store);
        let start = Instant::now();
        for number in 0..150 {
            write(&store, &format!("events/default/{number}")).await;
        }
        for step in 0..15 {
            expiry.step(start + MINUTES_5 * step).await.unwrap();
        }
        assert!(keys(&store).await.is_empty());
        let quiet = store.revision();
        for step in 15..20 {
            expiry.step(start + MINUTES_5 * step).await.unwrap();
        }
        assert_eq!(store.revision(), quiet);
    }
}
