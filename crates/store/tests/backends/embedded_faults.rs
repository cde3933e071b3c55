//! The embedded backend under kill -9, full disks, failed syncs and damaged files.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use store::backends::embedded::simulated_disk::{Faults, SimulatedDisk};
use store::backends::embedded::{self, Settings, Tuning, open_inline};
use store::contract::{Numbers, key};
use store::{
    Commit, Environment, Error, KeyRange, Mutation, Operation, PageRequest, Precondition,
    Provenance, Retention, Revision, Store, System,
};

const CHILD: &str = "SETPOINT_TEST_CHILD_DIRECTORY";

fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("setpoint-{name}-{:016x}", System.random()))
}

async fn open(directory: &Path) -> Result<Arc<dyn Store>, Error> {
    let settings = Settings { directory: directory.to_owned() };
    embedded::open(&settings, Retention::default(), Arc::new(System)).await
}

async fn put(store: &dyn Store, pairs: &[(String, Bytes)]) -> Result<Revision, Error> {
    let mut operations = Vec::new();
    for (name, value) in pairs {
        let entry = store.get(&key(name), None).await?;
        let when = entry.map_or(Precondition::Absent, |entry| Precondition::At(entry.modified));
        let mutation = Mutation::Put(value.clone());
        operations.push(Operation { key: key(name), mutation, when });
    }
    let provenance = Provenance::of(System.now(), "writer");
    Ok(store.commit(Commit { operations, epoch: None, provenance }).await?.revision)
}

fn child(test: &str, directory: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

const WRITERS: usize = 8;

/// What the killed process does: each writer counts up in two keys at once, and says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_that_counts() {
    let Some(directory) = std::env::var_os(CHILD) else { return };
    let store = open(Path::new(&directory)).await.unwrap();
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let store = store.clone();
        writers.spawn(async move {
            let names = [format!("a/{writer}"), format!("b/{writer}")];
            let entry = store.get(&key(&names[0]), None).await.unwrap();
            let mut count = entry.map_or(0, |entry| number(&entry.value));
            loop {
                count += 1;
                let value = Bytes::from(format!("{count} {}", "x".repeat(count as usize % 2_000)));
                let pairs = names.clone().map(|name| (name, value.clone()));
                put(&*store, &pairs).await.unwrap();
                println!("ack {writer} {count}");
            }
        });
    }
    writers.join_next().await.unwrap().unwrap();
}

fn number(value: &[u8]) -> u64 {
    let text = std::str::from_utf8(value).unwrap();
    text.split_once(' ').unwrap().0.parse().unwrap()
}

#[tokio::test]
async fn kill_9_under_load_loses_nothing_acknowledged() {
    let cycles = if std::env::var_os("SETPOINT_TEST_FULL").is_some() { 1_000 } else { 100 };
    let directory = temporary("kill");
    let mut numbers = Numbers::new(System.random());
    let mut acknowledged: BTreeMap<usize, u64> = BTreeMap::new();
    let mut last_revision = Revision::ZERO;
    let mut total = 0;
    for cycle in 0..cycles {
        let mut child = child("embedded_faults::child_that_counts", &directory);
        let output = BufReader::new(child.stdout.take().unwrap());
        let patience = Duration::from_millis(20 + numbers.below(120));
        let killer = std::thread::spawn(move || {
            std::thread::sleep(patience);
            child.kill().unwrap();
            child.wait().unwrap();
        });
        for line in output.lines() {
            let line = line.unwrap();
            // The test runner's own words, which end in no line, may stand before the first one.
            let Some((_, said)) = line.split_once("ack ") else { continue };
            // A line the kill cut short has no number.
            if let Some((writer, count)) = said.split_once(' ')
                && let (Ok(writer), Ok(count)) = (writer.parse(), count.parse::<u64>())
            {
                let seen = acknowledged.entry(writer).or_default();
                // The last line may have lost its last digits.
                *seen = count.max(*seen);
                total += 1;
            }
        }
        killer.join().unwrap();
        let store = open(&directory).await.unwrap_or_else(|error| panic!("cycle {cycle}: {error}"));
        assert!(store.revision() >= last_revision, "the store went back");
        last_revision = store.revision();
        for (writer, count) in &acknowledged {
            let a = store.get(&key(&format!("a/{writer}")), None).await.unwrap().unwrap();
            let b = store.get(&key(&format!("b/{writer}")), None).await.unwrap().unwrap();
            assert_eq!((&a.value, a.modified), (&b.value, b.modified), "torn in cycle {cycle}");
            let found = number(&a.value);
            assert!((*count..=count + 1).contains(&found), "cycle {cycle}: {found}, not {count}");
            assert_eq!(a.value.len(), format!("{found} ").len() + found as usize % 2_000);
        }
        // What was written but not acknowledged counts from here on.
        for (writer, count) in &mut acknowledged {
            let a = store.get(&key(&format!("a/{writer}")), None).await.unwrap().unwrap();
            *count = number(&a.value);
        }
        store.close().await;
    }
    println!("{cycles} cycles, {total} acknowledged writes");
    assert!(total > cycles as u64 * 10, "there was no load: {total}");
    std::fs::remove_dir_all(directory).unwrap();
}

async fn keys(store: &dyn Store) -> usize {
    store.list(&KeyRange::all(), PageRequest::all(), None).await.unwrap().entries.len()
}

fn simulated(disk: &SimulatedDisk) -> Arc<dyn Store> {
    let tuning = Tuning {
        segment_bytes_min: 16 << 10,
        segment_bytes_max: 16 << 10,
        snapshot_log_bytes_min: 1 << 20,
    };
    open_inline(Arc::new(disk.clone()), Retention::default(), Arc::new(System), tuning).unwrap()
}

#[tokio::test]
async fn a_full_disk_is_an_error_and_service_recovers_with_space() {
    let disk = SimulatedDisk::default();
    let store = simulated(&disk);
    disk.set_faults(Faults { full: true, ..Default::default() });
    let value = Bytes::from(vec![7; 1_000]);
    let mut written = 0;
    let error = loop {
        let pair = (format!("key-{written}"), value.clone());
        match put(&*store, &[pair]).await {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!(!error.is_terminal());
    assert_eq!(keys(&*store).await, written, "what failed was not written");
    for _ in 0..5 {
        assert!(put(&*store, &[("more".into(), value.clone())]).await.is_err());
    }
    disk.set_faults(Faults::default());
    put(&*store, &[("more".into(), value)]).await.unwrap();
    assert_eq!(keys(&*store).await, written + 1);
    store.close().await;
    assert_eq!(keys(&*simulated(&disk)).await, written + 1);
}

#[tokio::test]
async fn a_store_in_use_writes_a_segment_more_on_a_full_disk() {
    let disk = SimulatedDisk::default();
    let store = simulated(&disk);
    let value = Bytes::from(vec![7; 1_000]);
    // An eighth of the segment: the next one is prepared then.
    for number in 0..3 {
        put(&*store, &[(format!("before-{number}"), value.clone())]).await.unwrap();
    }
    disk.set_faults(Faults { full: true, ..Default::default() });
    let mut written = 0;
    while put(&*store, &[(format!("key-{written}"), value.clone())]).await.is_ok() {
        written += 1;
    }
    assert!(written >= 24, "only {written} writes of 1 kB fitted into segments of 16 KiB");
}

/// What the process on a small file system does: writes until there is no space, frees some, and
/// writes again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_on_a_small_disk() {
    let Some(directory) = std::env::var_os(CHILD) else { return };
    let directory = PathBuf::from(directory);
    // Takes up space that can be given back.
    std::fs::write(directory.join("ballast"), vec![1; 24 << 20]).unwrap();
    let store = open(&directory.join("store")).await.unwrap();
    let value = Bytes::from(vec![7; 256 << 10]);
    let mut written = 0;
    let error = loop {
        match put(&*store, &[(format!("key-{written:04}"), value.clone())]).await {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert_eq!(keys(&*store).await, written);
    std::fs::remove_file(directory.join("ballast")).unwrap();
    for _ in 0..20 {
        put(&*store, &[(format!("key-{written:04}"), value.clone())]).await.unwrap();
        written += 1;
    }
    store.close().await;
    let store = open(&directory.join("store")).await.unwrap();
    assert_eq!(keys(&*store).await, written);
    println!("small disk: {written} keys");
}

#[test]
fn a_real_file_system_that_is_full_loses_nothing() {
    let directory = temporary("full");
    std::fs::create_dir(&directory).unwrap();
    let test = std::env::current_exe().unwrap();
    let script = format!(
        "mount -t tmpfs -o size=64m none {0} && \
         exec {1} --exact embedded_faults::child_on_a_small_disk --nocapture",
        directory.display(),
        test.display()
    );
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
        .env(CHILD, &directory)
        .output()
        .expect("unshare (package util-linux) makes the small file system");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("small disk:"), "{text}{errors}");
    std::fs::remove_dir(&directory).unwrap();
}

#[tokio::test]
async fn a_failed_sync_refuses_writes_until_reopened_and_reads_go_on() {
    let disk = SimulatedDisk::default();
    let store = simulated(&disk);
    let value = Bytes::from("x");
    put(&*store, &[("before".into(), value.clone())]).await.unwrap();
    disk.set_faults(Faults { sync_fails: true, ..Default::default() });
    let failed = put(&*store, &[("during".into(), value.clone())]).await;
    assert!(matches!(failed, Err(Error::OutcomeUnknown { .. })), "{failed:?}");
    // The disk is well again, but what it holds is not known any more.
    disk.set_faults(Faults::default());
    let refused = put(&*store, &[("after".into(), value.clone())]).await;
    assert!(matches!(refused, Err(Error::Stopped { .. })), "{refused:?}");
    assert!(store.health().is_err());
    assert_eq!(keys(&*store).await, 1);
    store.close().await;
    let store = simulated(&disk);
    assert!(store.get(&key("before"), None).await.unwrap().is_some());
    put(&*store, &[("after".into(), value)]).await.unwrap();
}

/// A directory with a store of some commits in it.
async fn written_directory(name: &str) -> PathBuf {
    let directory = temporary(name);
    let store = open(&directory).await.unwrap();
    for number in 0..50 {
        put(&*store, &[(format!("k{number}"), Bytes::from(vec![3; 500]))]).await.unwrap();
    }
    store.close().await;
    directory
}

fn content(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

async fn expect_refused(directory: &Path, words: &[&str]) {
    let before = content(directory);
    let Err(error) = open(directory).await else { panic!("it must not open") };
    let text = error.to_string();
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
    assert!(!text.contains('\n'));
    assert!(content(directory) == before, "nothing may be changed");
    std::fs::remove_dir_all(directory).unwrap();
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn a_foreign_file_is_refused() {
    let directory = temporary("foreign");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("0000000001.log"), "not ours\n".repeat(100)).unwrap();
    expect_refused(&directory, &["0000000001.log is not a file of this store"]).await;
}

#[tokio::test]
async fn a_file_of_another_store_is_refused() {
    let (one, other) = (written_directory("one").await, written_directory("other").await);
    std::fs::copy(other.join("0000000001.log"), one.join("0000000002.log")).unwrap();
    expect_refused(&one, &["0000000002.log is not a file of this store"]).await;
    std::fs::remove_dir_all(other).unwrap();
}

#[tokio::test]
async fn a_newer_format_is_refused() {
    let directory = written_directory("newer").await;
    change(&directory.join("0000000001.log"), |bytes| bytes[8] = 9);
    expect_refused(&directory, &["format 9", "reads up to 1", "newer setpoint"]).await;
}

#[tokio::test]
async fn damage_in_the_middle_of_the_log_is_refused_with_its_place() {
    let directory = written_directory("damaged").await;
    change(&directory.join("0000000001.log"), |bytes| bytes[4_000] ^= 1);
    expect_refused(&directory, &["0000000001.log is damaged at byte", "backup"]).await;
}

#[tokio::test]
async fn a_torn_tail_is_cut() {
    let directory = written_directory("torn").await;
    let end = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0).unwrap();
    change(&directory.join("0000000001.log"), |bytes| {
        let end = end(bytes);
        bytes[end - 100..=end].fill(0);
    });
    let store = open(&directory).await.unwrap();
    assert_eq!(keys(&*store).await, 49);
    store.close().await;
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test]
async fn a_second_process_is_refused() {
    let directory = written_directory("locked").await;
    let store = open(&directory).await.unwrap();
    let Err(error) = open(&directory).await else { panic!("it must not open twice") };
    assert!(matches!(error, Error::Locked { .. }), "{error}");
    assert!(error.to_string().contains("in use by another process"));
    store.close().await;
    open(&directory).await.unwrap().close().await;
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test]
async fn files_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let directory = written_directory("modes").await;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory), 0o700);
    for path in content(&directory).keys() {
        assert_eq!(mode(path), 0o600, "{}", path.display());
    }
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test]
async fn old_history_leaves_the_disk() {
    let directory = temporary("window");
    let store = open(&directory).await.unwrap();
    let value = |number: usize| Bytes::from(vec![number as u8; 64 << 10]);
    // Files come and go while their sizes are added up.
    let size = || -> u64 {
        let entries = std::fs::read_dir(&directory).unwrap().flatten();
        entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
    };
    let mut largest = 0;
    for number in 0..1_600 {
        let revision = put(&*store, &[(format!("k{}", number % 20), value(number))]).await.unwrap();
        if number % 50 == 49 {
            store.compact(revision).await.unwrap();
            largest = largest.max(size());
        }
    }
    store.close().await;
    // A hundred megabytes were written; the live state is one and a half.
    assert!(size() < 150 << 20, "{} bytes are left", size());
    let store = open(&directory).await.unwrap();
    assert_eq!(keys(&*store).await, 20);
    println!("{} bytes at the end, {largest} at most", size());
    store.close().await;
    std::fs::remove_dir_all(directory).unwrap();
}
