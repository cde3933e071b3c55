//! Several processes on one database.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use store::backends::mysql::Settings;
use store::{Environment, Error, KeyRange, Revision, Store, System};

use crate::oracle::{self, Load, check, check_watch, watch_to};
use crate::support::{delete, eventually, key, open, put, rounds, settings_at, shared};

/// How many commits a process makes.
const COMMITS: usize = 120;

/// Prints how old writes were when they were seen, the time of the commit included.
///
/// The aim is 50 ms for 99 of 100 on a machine that has nothing else to do. Tests run beside each
/// other, so only the median is held to it here.
fn check_latencies(what: &str, mut micros: Vec<i64>) {
    micros.sort_unstable();
    let at = |part: usize| micros[(micros.len() - 1) * part / 100] as f64 / 1_000.0;
    println!("{what}: p50 {} ms, p99 {} ms, max {} ms", at(50), at(99), at(100));
    assert!(at(50) < 50.0, "another process must see a write soon");
}

/// Writes the time, at a pace that leaves the other side idle in between.
async fn write_times(store: &dyn Store, name: &str, pause: std::time::Duration) {
    let mut at = None;
    for _ in 0..COMMITS {
        let now = System.now().0.to_string();
        at = Some(store.commit(put(name, now, at)).await.unwrap().revision);
        tokio::time::sleep(pause).await;
    }
}

/// How old each write was when the watch told of it.
async fn read_times(store: &dyn Store, name: &str) -> Vec<i64> {
    let mut watch = store.watch(KeyRange::single(&key(name)), Revision::ZERO).await.unwrap();
    let mut ages = Vec::new();
    while ages.len() < COMMITS {
        let batch = watch.next().await.unwrap();
        let entry = batch.changes[0].entry.as_ref().unwrap();
        let written: i64 = std::str::from_utf8(&entry.value).unwrap().parse().unwrap();
        ages.push(System.now().0 - written);
    }
    ages
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_stores_see_each_others_writes_once_and_in_order() {
    let settings = shared();
    let stores = [open(&settings).await, open(&settings).await];
    let (stop, stopped) = tokio::sync::watch::channel(None);
    let mut watchers = tokio::task::JoinSet::new();
    for store in &stores {
        let mut stopped = stopped.clone();
        let to = async move { stopped.wait_for(Option::is_some).await.unwrap().unwrap() };
        watchers.spawn(watch_to(store.clone(), to));
    }
    let load = Load::start(&stores, 8, "w");
    let enough = 1_000 * rounds(1, 10);
    eventually("many writes", async || load.acknowledged.load(Ordering::SeqCst) > enough).await;
    let attempts = load.finish().await;
    let log = oracle::log(&*open(&settings).await).await;
    check(&log, &attempts);
    stop.send(Some(Revision(log.len() as u64))).unwrap();
    while let Some(seen) = watchers.join_next().await {
        check_watch(&seen.unwrap(), &log);
    }
    println!("{} attempts, {} revisions", attempts.len(), log.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_store_sees_a_write_soon() {
    let settings = shared();
    let (writer, reader) = (open(&settings).await, open(&settings).await);
    for (what, pause) in [("a write after idle", 160), ("a write in a stream", 3)] {
        let name = format!("times/{pause}");
        let commits = write_times(&*writer, &name, std::time::Duration::from_millis(pause));
        let ((), ages) = tokio::join!(commits, read_times(&*reader, &name));
        check_latencies(what, ages);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_after_a_write_elsewhere_sees_it() {
    let settings = shared();
    let (writer, reader) = (open(&settings).await, open(&settings).await);
    let mut at = None;
    for number in 0..300 {
        let revision = writer.commit(put("a", number.to_string(), at)).await.unwrap().revision;
        let found = reader.get(&key("a"), None).await.unwrap().unwrap();
        assert_eq!((found.modified, &found.value[..]), (revision, number.to_string().as_bytes()));
        at = Some(revision);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compaction_is_seen_by_the_other_and_deletes_rows() {
    use mysql_async::prelude::Queryable;

    let settings = shared();
    let (one, two) = (open(&settings).await, open(&settings).await);
    let mut at = None;
    for number in 0..2_500 {
        at = Some(one.commit(put("a", number.to_string(), at)).await.unwrap().revision);
    }
    let gone = one.commit(put("b", "1", None)).await.unwrap().revision;
    let gone = one.commit(delete("b", gone)).await.unwrap().revision;
    one.commit(put("c", "1", None)).await.unwrap();
    one.compact(gone).await.unwrap();
    eventually("the other store notices", async || two.compacted() == gone).await;
    for store in [&one, &two] {
        let old = store.get(&key("a"), Some(Revision(gone.0 - 1))).await;
        assert!(matches!(old, Err(Error::Compacted { oldest, .. }) if oldest == gone), "{old:?}");
        // The tombstone at the compacted revision still tells of what it deleted.
        let mut watch = store.watch(KeyRange::all(), gone.before()).await.unwrap();
        let batch = watch.next().await.unwrap();
        assert_eq!((batch.revision, &batch.changes[0].entry), (gone, &None));
        assert_eq!(&batch.changes[0].previous.as_ref().unwrap().value[..], b"1");
    }
    let mut conn = crate::support::connect(&settings).await;
    eventually("the rows are deleted", async || {
        let rows: Option<(u64, u64)> = conn
            .query_first(
                "SELECT (SELECT COUNT(*) FROM setpoint_log), \
                 (SELECT COUNT(*) FROM setpoint_commit)",
            )
            .await
            .unwrap();
        // The live `a`, the deleted `b` and its tombstone, and `c`.
        rows == Some((4, 2))
    })
    .await;
    let fresh = open(&settings).await;
    let changes = fresh.changes(&KeyRange::all(), gone.before(), fresh.revision()).await.unwrap();
    assert_eq!(changes.batches.len(), 2);
    assert_eq!(&changes.batches[0].changes[0].previous.as_ref().unwrap().value[..], b"1");
}

const DATABASE: &str = "SETPOINT_TEST_MYSQL_DATABASE";
const ADDRESS: &str = "SETPOINT_TEST_MYSQL_ADDRESS";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_see_each_others_writes_once_and_in_order() {
    let settings = shared();
    let store = open(&settings).await;
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let mut watcher = tokio::task::JoinSet::new();
    watcher.spawn(watch_to(store.clone(), async { stopped.await.unwrap() }));
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::the_other_process", "--nocapture"])
        .env(DATABASE, &settings.database)
        .env(ADDRESS, format!("{}:{}", settings.host, settings.port))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let load = Load::start(std::slice::from_ref(&store), 2, "parent");
    let ages = read_times(&*store, "child").await;
    let attempts = load.finish().await;
    let output = tokio::task::spawn_blocking(|| child.wait_with_output().unwrap()).await.unwrap();
    assert!(output.status.success());
    check_latencies("a write of another process", ages);
    let log = oracle::log(&*store).await;
    check(&log, &attempts);
    stop.send(store.revision()).unwrap();
    check_watch(&watcher.join_next().await.unwrap().unwrap(), &log);
    // The child printed the revisions it saw: a prefix of the log, without gap.
    let seen: Vec<u64> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .filter_map(|line| line.strip_prefix("saw ")?.parse().ok())
        .collect();
    assert!(seen.len() >= COMMITS);
    assert_eq!(seen, (1..=seen.len() as u64).collect::<Vec<_>>());
}

/// Run by the test above in a process of its own; does nothing otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_other_process() {
    let (Ok(database), Ok(address)) = (std::env::var(DATABASE), std::env::var(ADDRESS)) else {
        return;
    };
    let (host, port) = address.rsplit_once(':').unwrap();
    let settings = settings_at(port.parse().unwrap());
    let settings = Settings { host: host.into(), database, ..settings };
    let store: Arc<dyn Store> = open(&settings).await;
    write_times(&*store, "child", std::time::Duration::from_millis(5)).await;
    let head = store.revision();
    for batch in watch_to(store, async { head }).await {
        println!("saw {}", batch.revision);
    }
}
