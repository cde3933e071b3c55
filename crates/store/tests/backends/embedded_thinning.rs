//! Churn is thinned out of old history, and nothing else is lost.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use store::backends::embedded::simulated_disk::{Faults, SimulatedDisk};
use store::backends::embedded::{self, Inline, Settings, Tuning};
use store::{
    Commit, Environment, Key, KeyRange, Mutation, Operation, PageRequest, Precondition, Provenance,
    Retention, Revision, Store, System, Thinning, Timestamp,
};

/// Values that begin alike differ in churn only.
fn is_churn(_: &Key, before: &Bytes, after: &Bytes) -> bool {
    before.first() == after.first()
}

fn retention() -> Retention {
    let interval = Duration::from_secs(3_600);
    Retention {
        interval: Duration::from_millis(20),
        recent_bytes_max: 64 << 10,
        thinning: Some(Thinning { after: Duration::ZERO, interval, is_churn }),
        ..Retention::default()
    }
}

/// What is freed at least of the thirty megabytes that are written.
const FREED_BYTES: u64 = 20 << 20;

struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn open(directory: &Path, retention: Retention) -> Arc<dyn Store> {
    let settings = Settings { directory: directory.to_owned() };
    embedded::open(&settings, retention, Arc::new(System)).await.unwrap()
}

async fn put(store: &dyn Store, name: &str, first: u8, number: u64) -> Revision {
    let key = Key::new(name).unwrap();
    let current = store.get(&key, None).await.unwrap();
    let when = current.map_or(Precondition::Absent, |entry| Precondition::At(entry.modified));
    let mut value = vec![first];
    value.extend_from_slice(format!("{number:08}").as_bytes());
    value.resize(24 << 10, b'.');
    let operation = Operation { key, mutation: Mutation::Put(value.into()), when };
    let provenance = Provenance::of(System.now(), "test");
    let commit = Commit { operations: vec![operation], epoch: None, provenance };
    store.commit(commit).await.unwrap().revision
}

fn log_bytes(directory: &Path) -> u64 {
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let logs = files.filter(|file| file.file_name().to_string_lossy().ends_with(".log"));
    logs.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum()
}

async fn all_changes(store: &dyn Store) -> Vec<(Revision, String, u8)> {
    let (mut after, to) = (Revision::ZERO, store.revision());
    let mut found = Vec::new();
    while after < to {
        let changes = store.changes(&KeyRange::all(), after, to).await.unwrap();
        after = changes.through;
        for batch in changes.batches {
            for change in &batch.changes {
                let entry = change.entry.as_ref().unwrap();
                found.push((batch.revision, change.key.to_string(), entry.value[0]));
            }
        }
    }
    found
}

#[tokio::test]
async fn churn_goes_and_what_somebody_wanted_stays() {
    let name = format!("setpoint-thinning-{:016x}", System.random());
    let scratch = Scratch(std::env::temp_dir().join(name));
    // Written without thinning, so that there is something to compare with.
    let store = open(&scratch.0, Retention { thinning: None, ..retention() }).await;
    let mut wanted = Vec::new();
    for round in 0..40_u64 {
        let first = b'a' + u8::try_from(round % 20).unwrap();
        wanted.push((put(&*store, "spec", first, round).await, "spec".to_owned(), first));
        for number in 0..30 {
            put(&*store, "status", b's', round * 30 + number).await;
        }
    }
    let before = all_changes(&*store).await;
    assert_eq!(before.len(), 40 * 31);
    let live = store.list(&KeyRange::all(), PageRequest::all(), None).await.unwrap().entries;
    let written = log_bytes(&scratch.0);
    store.close().await;
    drop(store);

    let mut store = open(&scratch.0, retention()).await;
    let shrunk = async {
        while log_bytes(&scratch.0) + FREED_BYTES > written {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), shrunk).await.expect("nothing was thinned out");
    for _ in 0..2 {
        // The second time from files that were opened again.
        store.close().await;
        drop(store);
        store = open(&scratch.0, retention()).await;
        let after = all_changes(&*store).await;
        let kept: Vec<_> = after.iter().filter(|(_, key, _)| key == "spec").cloned().collect();
        assert_eq!(kept, wanted);
        assert!(after.len() < before.len() / 2, "{}", after.len());
        let now = store.list(&KeyRange::all(), PageRequest::all(), None).await.unwrap().entries;
        let parts = |entries: &[Arc<store::Entry>]| -> Vec<_> {
            let part = |one: &Arc<store::Entry>| {
                (one.key.clone(), one.value.clone(), one.created, one.modified)
            };
            entries.iter().map(part).collect()
        };
        assert_eq!(parts(&now), parts(&live));
        for (revision, ..) in &wanted {
            let key = Key::new("spec").unwrap();
            let entry = store.get(&key, Some(*revision)).await.unwrap().unwrap();
            assert_eq!(entry.modified, *revision);
        }
    }
}

/// A disk that fails while a segment is written again: the store goes on with the one it had.
#[tokio::test]
async fn a_disk_that_fails_while_thinning_costs_nothing_but_space() {
    for faults in [
        Faults { full: true, ..Faults::default() },
        Faults { sync_fails: true, ..Faults::default() },
    ] {
        let disk = SimulatedDisk::default();
        let tuning = Tuning {
            segment_bytes_min: 256 << 10,
            segment_bytes_max: 256 << 10,
            snapshot_log_bytes_min: 4 << 20,
        };
        let retention = Retention { thinning: None, ..retention() };
        let inline =
            Inline::open(Arc::new(disk.clone()), retention, Arc::new(System), tuning).unwrap();
        for number in 0..60 {
            put(&*inline.store, "status", b's', number).await;
        }
        let before = all_changes(&*inline.store).await;
        let names: Vec<String> = disk.image().names().map(str::to_owned).collect();
        let interval = Duration::from_secs(3_600);
        let thinning = Thinning { after: Duration::ZERO, interval, is_churn };
        let now = Timestamp(i64::MAX);
        disk.set_faults(faults);
        inline.thin(&thinning, now).expect_err("the disk fails");
        disk.set_faults(Faults::default());
        assert_eq!(all_changes(&*inline.store).await, before);
        let after: Vec<String> = disk.image().names().map(str::to_owned).collect();
        assert_eq!(after, names, "what was begun is removed");
        assert!(inline.thin(&thinning, now).unwrap() > 512 << 10);
        assert!(all_changes(&*inline.store).await.len() < before.len() / 2);
        put(&*inline.store, "status", b's', 60).await;
    }
}

/// Three segments, the last of them begun: more than may be kept, all of it young.
#[tokio::test]
async fn young_churn_goes_before_anything_else_does_for_its_size() {
    let name = format!("setpoint-thinning-{:016x}", System.random());
    let scratch = Scratch(std::env::temp_dir().join(name));
    let interval = Duration::from_secs(3_600);
    let thinning = Some(Thinning { after: interval, interval, is_churn });
    let store = open(&scratch.0, Retention { bytes_max: 20 << 20, thinning, ..retention() }).await;
    let mut wanted = Vec::new();
    for round in 0..35_u64 {
        let first = b'a' + u8::try_from(round % 20).unwrap();
        wanted.push((put(&*store, "spec", first, round).await, "spec".to_owned(), first));
        for number in 0..30 {
            put(&*store, "status", b's', round * 30 + number).await;
        }
    }
    let thinned = async {
        while all_changes(&*store).await.len() > 35 * 31 * 2 / 3 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), thinned).await.expect("nothing was thinned out");
    assert_eq!(store.compacted(), Revision::ZERO);
    let after = all_changes(&*store).await;
    let kept: Vec<_> = after.into_iter().filter(|(_, key, _)| key == "spec").collect();
    assert_eq!(kept, wanted);
    store.close().await;
}
