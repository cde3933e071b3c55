//! Writers that remember what they were told, a watcher, and the comparison with the log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use store::{Batch, Error, KeyRange, Revision, Store};
use tokio::task::JoinSet;

use crate::support::{key, put};

/// What a writer was told about a value that no other commit writes.
#[derive(Debug)]
pub enum Told {
    Committed(Revision),
    NotCommitted,
    Unknown,
}

/// Everything that was tried, by value.
pub type Attempts = BTreeMap<String, Told>;

/// Writers at work.
pub struct Load {
    stop: Arc<AtomicBool>,
    pub acknowledged: Arc<AtomicUsize>,
    writers: JoinSet<Attempts>,
}

impl Load {
    /// Each writer updates a key of its own and, every third time, one that all share.
    pub fn start(stores: &[Arc<dyn Store>], writers: usize, name: &str) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let acknowledged = Arc::new(AtomicUsize::new(0));
        let mut set = JoinSet::new();
        for number in 0..writers {
            let store = stores[number % stores.len()].clone();
            let (stop, acknowledged) = (stop.clone(), acknowledged.clone());
            let writer = Writer { store, name: format!("{name}-{number}"), acknowledged };
            set.spawn(async move { writer.run(&stop).await });
        }
        Load { stop, acknowledged, writers: set }
    }

    pub async fn finish(mut self) -> Attempts {
        self.stop.store(true, Ordering::SeqCst);
        let mut all = Attempts::new();
        while let Some(attempts) = self.writers.join_next().await {
            all.extend(attempts.unwrap());
        }
        all
    }
}

struct Writer {
    store: Arc<dyn Store>,
    name: String,
    acknowledged: Arc<AtomicUsize>,
}

impl Writer {
    async fn run(&self, stop: &AtomicBool) -> Attempts {
        let own = format!("own/{}", self.name);
        let mut attempts = Attempts::new();
        for number in 0.. {
            if stop.load(Ordering::SeqCst) {
                break;
            }
            let target = if number % 3 == 0 { "shared" } else { &own };
            let value = format!("{}:{number}", self.name);
            // A read that fails says so; there is nothing to write over then.
            let Ok(found) = self.store.get(&key(target), None).await else {
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
                continue;
            };
            let at = found.map(|entry| entry.modified);
            let told = match self.store.commit(put(target, value.clone(), at)).await {
                Ok(committed) => {
                    self.acknowledged.fetch_add(1, Ordering::SeqCst);
                    Told::Committed(committed.revision)
                }
                Err(Error::Conflict { current, .. }) => {
                    assert_ne!(current, at, "a conflict with what was expected");
                    Told::NotCommitted
                }
                Err(Error::Unavailable { .. }) => Told::NotCommitted,
                Err(Error::OutcomeUnknown { .. }) => Told::Unknown,
                Err(other) => panic!("{other}"),
            };
            attempts.insert(value, told);
        }
        attempts
    }
}

/// Collects what a watch sees until a revision has been seen.
pub async fn watch_to(
    store: Arc<dyn Store>,
    to: impl Future<Output = Revision>,
) -> Vec<Arc<Batch>> {
    let mut watch = store.watch(KeyRange::all(), Revision::ZERO).await.unwrap();
    let mut seen: Vec<Arc<Batch>> = Vec::new();
    let mut to = std::pin::pin!(to);
    let mut last = None;
    loop {
        if let (Some(last), Some(batch)) = (last, seen.last())
            && batch.revision >= last
        {
            return seen;
        }
        tokio::select! {
            batch = watch.next() => seen.push(batch.unwrap()),
            revision = &mut to, if last.is_none() => last = Some(revision),
        }
    }
}

/// The whole log, from a store that was just opened.
pub async fn log(store: &dyn Store) -> Vec<Arc<Batch>> {
    let head = store.revision();
    let mut batches = Vec::new();
    let mut through = Revision::ZERO;
    while through < head {
        let changes = store.changes(&KeyRange::all(), through, head).await.unwrap();
        assert!(changes.through > through);
        through = changes.through;
        batches.extend(changes.batches);
    }
    batches
}

/// The log is without gap, and what writers were told is true.
pub fn check(log: &[Arc<Batch>], attempts: &Attempts) {
    let revisions: Vec<u64> = log.iter().map(|batch| batch.revision.0).collect();
    assert_eq!(revisions, (1..=log.len() as u64).collect::<Vec<_>>());
    let mut written: BTreeMap<String, Revision> = BTreeMap::new();
    let mut live: BTreeMap<store::Key, Arc<store::Entry>> = BTreeMap::new();
    for batch in log {
        for change in &batch.changes {
            assert_eq!(change.previous.as_ref(), live.get(&change.key), "at {}", batch.revision);
            match &change.entry {
                Some(entry) => live.insert(change.key.clone(), entry.clone()),
                None => live.remove(&change.key),
            };
            if let Some(entry) = &change.entry {
                let value = String::from_utf8(entry.value.to_vec()).unwrap();
                let twice = written.insert(value.clone(), batch.revision);
                assert_eq!(twice, None, "{value} was written twice");
            }
        }
    }
    for (value, told) in attempts {
        match (told, written.get(value)) {
            (Told::Committed(revision), Some(found)) => assert_eq!(revision, found, "{value}"),
            (Told::Committed(_), None) => panic!("{value} was acknowledged and is lost"),
            (Told::NotCommitted, Some(at)) => panic!("{value} was refused and is at {at}"),
            (Told::NotCommitted, None) | (Told::Unknown, _) => {}
        }
    }
}

/// A watch saw the log: every revision once, in order, with all its changes.
pub fn check_watch(seen: &[Arc<Batch>], log: &[Arc<Batch>]) {
    assert_eq!(seen.len(), log.len());
    for (seen, logged) in seen.iter().zip(log) {
        assert_eq!(seen, logged);
    }
}

pub fn count(attempts: &Attempts, which: impl Fn(&Told) -> bool) -> usize {
    attempts.values().filter(|told| which(told)).count()
}
