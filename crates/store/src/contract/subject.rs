//! The store under test, and the words the cases are written in.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;

use crate::{
    Batch, Changes, Commit, Committed, Entry, Environment, Error, Key, KeyRange, Mutation,
    Operation, Page, PageRequest, Precondition, Provenance, Retention, Revision, Store, System,
    Timestamp, Watch,
};

/// Opens one and the same store, again and again.
#[async_trait]
pub trait Harness: Send + Sync + 'static {
    async fn open(
        &self,
        retention: Retention,
        environment: Arc<dyn Environment>,
    ) -> Result<Arc<dyn Store>, Error>;

    /// Whether the state outlives the process. Where it does not, reopening does nothing.
    fn is_durable(&self) -> bool {
        true
    }

    /// Called when a case has passed.
    async fn clean_up(&self) {}
}

/// A clock that a test moves; randomness is real.
pub struct TestEnvironment {
    micros: AtomicI64,
}

impl TestEnvironment {
    pub fn advance(&self, duration: std::time::Duration) {
        self.micros.fetch_add(duration.as_micros() as i64, Ordering::SeqCst);
    }
}

impl Environment for TestEnvironment {
    fn now(&self) -> Timestamp {
        Timestamp(self.micros.load(Ordering::SeqCst))
    }

    fn random(&self) -> u64 {
        System.random()
    }
}

/// A store under test.
pub struct Subject {
    harness: Arc<dyn Harness>,
    retention: Retention,
    pub environment: Arc<TestEnvironment>,
    store: Mutex<Arc<dyn Store>>,
}

pub fn key(text: &str) -> Key {
    Key::new(text).expect("the test's key must be valid")
}

pub fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

impl Subject {
    pub async fn open(harness: impl Harness) -> Subject {
        Subject::open_with(harness, Retention::default()).await
    }

    pub async fn open_with(harness: impl Harness, retention: Retention) -> Subject {
        // Some time in 2026, so that records look like real ones.
        let micros = AtomicI64::new(1_767_225_600_000_000);
        let environment = Arc::new(TestEnvironment { micros });
        let store = harness.open(retention, environment.clone()).await;
        let store = Mutex::new(store.expect("the store must open"));
        Subject { harness: Arc::new(harness), retention, environment, store }
    }

    pub fn store(&self) -> Arc<dyn Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn is_durable(&self) -> bool {
        self.harness.is_durable()
    }

    /// Closes the store and opens it again.
    pub async fn reopen(&self) {
        self.reopen_with(self.retention).await;
    }

    /// The same, keeping another amount of history in memory.
    pub async fn reopen_with(&self, retention: Retention) {
        if !self.harness.is_durable() {
            return;
        }
        self.store().close().await;
        let store = self.harness.open(retention, self.environment.clone()).await;
        let store = store.expect("the store must open again");
        *self.store.lock().unwrap_or_else(PoisonError::into_inner) = store;
    }

    /// Begins again with other settings, before anything was written; also where nothing survives.
    pub async fn begin_with(&self, retention: Retention) {
        assert_eq!(self.revision(), Revision::ZERO, "nothing may be written yet");
        self.store().close().await;
        let store = self.harness.open(retention, self.environment.clone()).await;
        let store = store.expect("the store must open");
        *self.store.lock().unwrap_or_else(PoisonError::into_inner) = store;
    }

    /// From now on almost nothing of the past is in memory, where there is another place for it.
    pub async fn forget_recent(&self) {
        self.reopen_with(Retention { recent_bytes_max: 1_500, ..self.retention }).await;
    }

    pub async fn finish(self) {
        self.store().close().await;
        self.harness.clean_up().await;
    }

    pub fn provenance(&self) -> Provenance {
        Provenance::of(self.environment.now(), "tester")
    }

    pub fn commit_of(&self, operations: Vec<Operation>) -> Commit {
        Commit { operations, epoch: None, provenance: self.provenance() }
    }

    pub async fn commit(&self, operations: Vec<Operation>) -> Result<Committed, Error> {
        self.store().commit(self.commit_of(operations)).await
    }

    pub async fn create(&self, name: &str, value: &str) -> Revision {
        let committed = self.commit(vec![create(name, value)]).await;
        committed.expect("the key must be creatable").revision
    }

    pub async fn update(&self, name: &str, value: &str, at: Revision) -> Revision {
        let committed = self.commit(vec![update(name, value, at)]).await;
        committed.expect("the key must be updatable").revision
    }

    pub async fn delete(&self, name: &str, at: Revision) -> Revision {
        let committed = self.commit(vec![delete(name, at)]).await;
        committed.expect("the key must be deletable").revision
    }

    /// Creates or updates, whichever it takes.
    pub async fn put(&self, name: &str, value: &str) -> Revision {
        match self.get(name).await {
            Some(entry) => self.update(name, value, entry.modified).await,
            None => self.create(name, value).await,
        }
    }

    pub async fn remove(&self, name: &str) -> Revision {
        let entry = self.get(name).await.expect("the key must be there");
        self.delete(name, entry.modified).await
    }

    pub async fn get(&self, name: &str) -> Option<Arc<Entry>> {
        self.store().get(&key(name), None).await.expect("the key must be readable")
    }

    pub async fn get_at(&self, name: &str, at: Revision) -> Result<Option<Arc<Entry>>, Error> {
        self.store().get(&key(name), Some(at)).await
    }

    pub async fn value_at(&self, name: &str, at: Revision) -> Option<Bytes> {
        let entry = self.get_at(name, at).await.expect("the past must be readable");
        entry.map(|entry| entry.value.clone())
    }

    pub async fn list(&self, range: KeyRange) -> Page {
        let page = self.store().list(&range, PageRequest::all(), None).await;
        page.expect("the range must be listable")
    }

    pub async fn list_at(&self, range: KeyRange, at: Revision) -> Page {
        let page = self.store().list(&range, PageRequest::all(), Some(at)).await;
        page.expect("the past must be listable")
    }

    pub async fn page(&self, request: PageRequest, at: Option<Revision>) -> Page {
        let page = self.store().list(&KeyRange::all(), request, at).await;
        page.expect("the page must be listable")
    }

    pub async fn watch(&self, after: Revision) -> Watch {
        self.watch_range(KeyRange::all(), after).await
    }

    pub async fn watch_range(&self, range: KeyRange, after: Revision) -> Watch {
        self.store().watch(range, after).await.expect("the watch must start")
    }

    /// All changes of a stretch, however many answers it takes.
    pub async fn changes(&self, range: KeyRange, after: Revision, to: Revision) -> Vec<Arc<Batch>> {
        let mut batches = Vec::new();
        let mut through = after;
        while through < to {
            let changes: Changes = self
                .store()
                .changes(&range, through, to)
                .await
                .expect("the changes must be readable");
            assert!(changes.through > through && changes.through <= to, "{:?}", changes.through);
            through = changes.through;
            batches.extend(changes.batches);
        }
        batches
    }

    pub fn revision(&self) -> Revision {
        self.store().revision()
    }

    pub async fn compact(&self, before: Revision) {
        self.store().compact(before).await.expect("compaction must succeed");
    }
}

pub fn create(name: &str, value: &str) -> Operation {
    put(name, value, Precondition::Absent)
}

pub fn update(name: &str, value: &str, at: Revision) -> Operation {
    put(name, value, Precondition::At(at))
}

pub fn put(name: &str, value: &str, when: Precondition) -> Operation {
    Operation { key: key(name), mutation: Mutation::Put(bytes(value)), when }
}

pub fn delete(name: &str, at: Revision) -> Operation {
    Operation { key: key(name), mutation: Mutation::Delete, when: Precondition::At(at) }
}

pub fn keep(name: &str, when: Precondition) -> Operation {
    Operation { key: key(name), mutation: Mutation::Keep, when }
}

/// The next batch of a watch, which must come soon.
pub async fn next(watch: &mut Watch) -> Arc<Batch> {
    try_next(watch).await.expect("the watch must go on")
}

pub async fn try_next(watch: &mut Watch) -> Result<Arc<Batch>, Error> {
    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);
    tokio::time::timeout(PATIENCE, watch.next()).await.expect("a change must arrive in time")
}

/// A batch in short: revision, then each key with its value.
pub fn brief(batch: &Batch) -> String {
    let change = |change: &crate::Change| match &change.entry {
        Some(entry) => format!("{}={}", change.key, String::from_utf8_lossy(&entry.value)),
        None => format!("-{}", change.key),
    };
    batch.changes.iter().map(change).collect::<Vec<_>>().join(" ")
}

pub fn names(page: &Page) -> Vec<&str> {
    page.entries.iter().map(|entry| entry.key.as_str()).collect()
}

/// A small stream of pseudo-random numbers, the same for the same seed.
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Numbers {
        Numbers(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }
}
