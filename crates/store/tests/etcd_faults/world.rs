//! What the fault tests share: opening stores, writing under load, and a witness that checks what
//! a watch shows against what was acknowledged.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use store::backends::etcd::{self, Settings};
use store::{
    Batch, Commit, Committed, Entry, Environment, Error, Key, KeyRange, Mutation, Operation,
    PageRequest, Precondition, Provenance, Retention, Revision, Store, System,
};
use tokio::task::JoinHandle;

/// How long a test waits for what must happen.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub fn settings(endpoint: impl Into<String>) -> Settings {
    Settings { endpoints: vec![endpoint.into()], ..Settings::default() }
}

pub fn local(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

pub async fn open(settings: &Settings) -> Arc<dyn Store> {
    etcd::open(settings, Retention::default(), Arc::new(System)).await.unwrap()
}

/// How many rounds: few, unless the whole is asked for.
pub fn rounds(few: usize, many: usize) -> usize {
    if std::env::var_os("SETPOINT_TEST_FULL").is_some() { many } else { few }
}

pub fn key(name: impl Into<String>) -> Key {
    Key::new(name.into()).unwrap()
}

pub fn put(name: &str, value: impl Into<bytes::Bytes>, at: Option<Revision>) -> Operation {
    let when = at.map_or(Precondition::Absent, Precondition::At);
    Operation { key: key(name), mutation: Mutation::Put(value.into()), when }
}

pub fn delete(name: &str, at: Revision) -> Operation {
    Operation { key: key(name), mutation: Mutation::Delete, when: Precondition::At(at) }
}

pub fn all(operations: Vec<Operation>) -> Commit {
    Commit { operations, epoch: None, provenance: Provenance::of(System.now(), "test") }
}

pub async fn write(store: &dyn Store, operation: Operation) -> Result<Committed, Error> {
    store.commit(all(vec![operation])).await
}

pub async fn list(store: &dyn Store, at: Option<Revision>) -> Vec<(String, String, u64)> {
    let page = store.list(&KeyRange::all(), PageRequest::all(), at).await.unwrap();
    page.entries.iter().map(|entry| line(entry)).collect()
}

pub fn line(entry: &Entry) -> (String, String, u64) {
    let value = String::from_utf8_lossy(&entry.value).into_owned();
    (entry.key.to_string(), value, entry.modified.0)
}

pub fn etcdctl(endpoint: &str, arguments: &[&str]) -> String {
    let output = Command::new("etcdctl")
        .env("ETCDCTL_API", "3")
        .arg(format!("--endpoints={endpoint}"))
        .args(arguments)
        .output()
        .expect("etcdctl must be installed");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "etcdctl {arguments:?}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The revision that etcd is at.
pub fn server_revision(endpoint: &str) -> u64 {
    let json = etcdctl(endpoint, &["endpoint", "status", "-w", "json"]);
    let (_, rest) = json.split_once("\"revision\":").unwrap();
    rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what} did not happen within {PATIENCE:?}"),
    }
}

/// A watch on everything, and all it has shown.
pub struct Witness {
    /// The entries where it begins.
    start: BTreeMap<Key, Arc<Entry>>,
    seen: Arc<Mutex<Vec<Arc<Batch>>>>,
    end: JoinHandle<Error>,
}

impl Witness {
    pub async fn after(store: &Arc<dyn Store>, after: Revision) -> Witness {
        let start = match after {
            Revision::ZERO => BTreeMap::new(),
            after => {
                let page = store.list(&KeyRange::all(), PageRequest::all(), Some(after)).await;
                let entries = page.unwrap().entries.into_iter();
                entries.map(|entry| (entry.key.clone(), entry)).collect()
            }
        };
        let mut watch = store.watch(KeyRange::all(), after).await.unwrap();
        let seen: Arc<Mutex<Vec<Arc<Batch>>>> = Arc::default();
        let sink = seen.clone();
        let end = spawn(async move {
            loop {
                match watch.next().await {
                    Ok(batch) => sink.lock().unwrap().push(batch),
                    Err(error) => return error,
                }
            }
        });
        Witness { start, seen, end }
    }

    pub fn seen(&self) -> Vec<Arc<Batch>> {
        self.seen.lock().unwrap().clone()
    }

    /// Everything up to a revision, checked: in order, nothing twice, each change what the one
    /// before left.
    pub async fn through(&self, revision: Revision) -> Vec<Arc<Batch>> {
        within("the watch to come to the end", async {
            while self.seen().last().is_none_or(|batch| batch.revision < revision) {
                assert!(!self.end.is_finished(), "the watch ended");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        let seen = self.seen();
        check_chain_from(&self.start, &seen);
        seen
    }

    /// The error with which the watch ends.
    pub async fn ended(self) -> Error {
        within("the watch to end", self.end).await.unwrap()
    }
}

pub fn check_chain(batches: &[Arc<Batch>]) {
    check_chain_from(&BTreeMap::new(), batches);
}

fn check_chain_from(start: &BTreeMap<Key, Arc<Entry>>, batches: &[Arc<Batch>]) {
    let mut live = start.clone();
    let mut last = Revision::ZERO;
    for batch in batches {
        assert!(batch.revision > last, "{} came after {last}", batch.revision);
        last = batch.revision;
        for change in &batch.changes {
            let before = match &change.entry {
                Some(entry) => {
                    assert_eq!(entry.modified, batch.revision);
                    live.insert(change.key.clone(), entry.clone())
                }
                None => live.remove(&change.key),
            };
            assert_eq!(change.previous, before, "{} at {}", change.key, batch.revision);
        }
    }
}

/// What writers were told.
#[derive(Default)]
pub struct Ledger {
    /// Key, value and revision of each acknowledged write.
    pub acknowledged: Vec<(String, String, Revision)>,
    /// Values of writes whose outcome is unknown.
    pub unknown: Vec<String>,
    /// Values of writes of which it was said that nothing was written.
    pub refused: Vec<String>,
    /// Conflicts: the key, and the revision it was said to be at.
    pub conflicts: Vec<(String, Option<Revision>)>,
}

/// Writers that write until they are stopped.
pub struct Load {
    stop: Arc<AtomicBool>,
    writers: Vec<JoinHandle<Ledger>>,
}

impl Load {
    /// Each writer changes a key of its own and one that all share.
    pub fn start(stores: &[Arc<dyn Store>], writers: usize) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let start = |number: usize| {
            let store = stores[number % stores.len()].clone();
            spawn(write_until(store, number, stop.clone()))
        };
        Load { writers: (0..writers).map(start).collect(), stop }
    }

    pub async fn finish(self) -> Ledger {
        self.stop.store(true, Ordering::Relaxed);
        let mut whole = Ledger::default();
        for writer in self.writers {
            let ledger = within("a writer to stop", writer).await.unwrap();
            whole.acknowledged.extend(ledger.acknowledged);
            whole.unknown.extend(ledger.unknown);
            whole.refused.extend(ledger.refused);
            whole.conflicts.extend(ledger.conflicts);
        }
        whole
    }
}

async fn write_until(store: Arc<dyn Store>, number: usize, stop: Arc<AtomicBool>) -> Ledger {
    let mut ledger = Ledger::default();
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        for name in [format!("own/{number}"), "shared".to_owned()] {
            count += 1;
            let value = format!("{number}-{count}");
            write_one(&*store, &name, value, &mut ledger).await;
        }
    }
    ledger
}

async fn write_one(store: &dyn Store, name: &str, value: String, ledger: &mut Ledger) {
    // A read may fail while the server is away, but it must not be wrong.
    let current = match store.get(&key(name), None).await {
        Ok(entry) => entry.map(|entry| entry.modified),
        Err(Error::Unavailable { .. }) => return,
        Err(error) => panic!("{error}"),
    };
    match write(store, put(name, value.clone(), current)).await {
        Ok(committed) => ledger.acknowledged.push((name.into(), value, committed.revision)),
        Err(Error::Conflict { expected, current: found, .. }) => {
            assert_eq!(expected, current);
            assert_ne!(found, current);
            ledger.conflicts.push((name.into(), found));
        }
        Err(Error::OutcomeUnknown { .. }) => ledger.unknown.push(value),
        Err(Error::Unavailable { .. }) => ledger.refused.push(value),
        Err(error) => panic!("{error}"),
    }
}

impl Ledger {
    /// Everything acknowledged is in the history once, at its revision; what was refused is not,
    /// and nothing else is; every conflict named a revision that the key really had.
    pub fn check(&self, batches: &[Arc<Batch>]) {
        let mut happened = BTreeMap::new();
        let mut revisions = BTreeMap::new();
        for batch in batches {
            for change in &batch.changes {
                let value = change.entry.as_ref().map(|entry| entry.value.clone()).unwrap();
                let value = String::from_utf8(value.to_vec()).unwrap();
                let twice = happened.insert(value.clone(), batch.revision);
                assert_eq!(twice, None, "{value} was written twice");
                revisions.insert((change.key.to_string(), batch.revision), ());
            }
        }
        for (_, value, revision) in &self.acknowledged {
            assert_eq!(happened.remove(value), Some(*revision), "{value} was acknowledged");
        }
        for value in &self.refused {
            assert_eq!(happened.get(value), None, "{value} was refused");
        }
        for value in &self.unknown {
            happened.remove(value);
        }
        assert!(happened.is_empty(), "nobody wrote {happened:?}");
        for (name, current) in &self.conflicts {
            let current = current.expect("a key that is never deleted must have a revision");
            assert!(
                revisions.contains_key(&(name.clone(), current)),
                "{name} never was at {current}"
            );
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a test waits for its tasks, or dies with them")]
pub fn spawn<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(task)
}
