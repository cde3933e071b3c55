//! Connections that break in the middle of an answer.
//!
//! The server stays up, so every lost reply can be resolved: no outcome may stay unknown.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use servers::{Admit, Cutter};
use store::backends::mysql::{self, Settings};
use store::{Error, KeyRange, Retention, Revision, System};
use tokio::task::JoinSet;

use crate::oracle::{self, Load, Told, check, check_watch, count, watch_to};
use crate::support::{connect, contents, eventually, key, open, put, rounds, shared};

/// The settings of a store, with a proxy in its way.
fn through(cutter: &Cutter, settings: &Settings) -> Settings {
    Settings { host: "127.0.0.1".into(), port: cutter.port(), ..settings.clone() }
}

/// Byte counts at which answers break: every one of the first, then further apart.
fn offsets(dense: u64, sparse: &[u64]) -> Vec<u64> {
    (0..dense).chain(sparse.iter().copied()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_that_are_cut_happen_once_or_not_at_all() {
    let settings = shared();
    let cutter = Cutter::start(settings.port).unwrap();
    let store = open(&through(&cutter, &settings)).await;
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let mut watcher = JoinSet::new();
    watcher.spawn(watch_to(store.clone(), async { stopped.await.unwrap() }));
    let load = Load::start(std::slice::from_ref(&store), 8, "w");
    for _ in 0..rounds(1, 10) {
        for offset in offsets(24, &[30, 40, 55, 70, 90, 120, 160, 200, 260, 350, 500, 800, 2_000]) {
            let (cuts, written) = (cutter.cuts(), load.acknowledged.load(Ordering::SeqCst));
            cutter.cut_after(offset);
            eventually("the cut", async || cutter.cuts() > cuts).await;
            let more = || load.acknowledged.load(Ordering::SeqCst) > written + 3;
            eventually("writes go on", async || more()).await;
        }
    }
    let attempts = load.finish().await;
    println!("{} cuts, {} attempts", cutter.cuts(), attempts.len());
    assert_eq!(count(&attempts, |told| matches!(told, Told::Unknown)), 0);

    let direct = open(&settings).await;
    let log = oracle::log(&*direct).await;
    check(&log, &attempts);
    stop.send(direct.revision()).unwrap();
    check_watch(&watcher.join_next().await.unwrap().unwrap(), &log);
    store.close().await;
    direct.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opening_never_takes_a_short_list_for_a_whole_one() {
    let settings = shared();
    let direct = open(&settings).await;
    for number in 0..200 {
        let value = "v".repeat(number % 50);
        direct.commit(put(&format!("key/{number:03}"), value, None)).await.unwrap();
    }
    let expected = contents(&*direct).await;
    let cutter = Cutter::start(settings.port).unwrap();
    let settings = through(&cutter, &settings);
    let step = 1_000 / rounds(1, 20);
    for offset in (0..14_000).step_by(step + 37) {
        cutter.cut_after(offset as u64);
        let store = open(&settings).await;
        assert_eq!(contents(&*store).await, expected, "cut after {offset}");
        store.close().await;
    }
    assert!(cutter.cuts() > 5, "{} cuts", cutter.cuts());
    direct.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_is_cut_skips_nothing() {
    let settings = shared();
    let cutter = Cutter::start(settings.port).unwrap();
    let writer = open(&settings).await;
    let follower = open(&through(&cutter, &settings)).await;
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let mut watcher = JoinSet::new();
    watcher.spawn(watch_to(follower.clone(), async { stopped.await.unwrap() }));
    let load = Load::start(std::slice::from_ref(&writer), 2, "w");
    for _ in 0..rounds(1, 10) {
        for offset in offsets(20, &[30, 60, 100, 150, 180, 230, 300, 400, 600, 900]) {
            let cuts = cutter.cuts();
            cutter.cut_after(offset);
            eventually("the cut", async || cutter.cuts() > cuts).await;
        }
    }
    let attempts = load.finish().await;
    let log = oracle::log(&*writer).await;
    check(&log, &attempts);
    stop.send(writer.revision()).unwrap();
    check_watch(&watcher.join_next().await.unwrap().unwrap(), &log);
    println!("{} revisions followed over {} cuts", log.len(), cutter.cuts());
    writer.close().await;
    follower.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_that_is_cut_is_an_error_or_whole() {
    let settings = shared();
    let direct = open(&settings).await;
    let mut at = None;
    for number in 0..60 {
        let commit = put("a", format!("value {number}"), at);
        at = Some(direct.commit(commit).await.unwrap().revision);
    }
    let cutter = Cutter::start(settings.port).unwrap();
    // Nothing is kept in memory, so that all history is read from the server.
    let retention = Retention { recent_bytes_max: 0, ..Retention::default() };
    let settings = through(&cutter, &settings);
    let store = mysql::open(&settings, retention, Arc::new(System)).await.unwrap();
    let expected = oracle::log(&*direct).await;
    let (mut whole, mut failed) = (0, 0);
    for offset in (0..9_000).step_by(300) {
        cutter.cut_after(offset);
        let changes = store.changes(&KeyRange::all(), Revision::ZERO, Revision(60)).await;
        match changes {
            Ok(changes) => {
                assert_eq!(changes.through, Revision(60));
                assert_eq!(changes.batches, expected);
                whole += 1;
            }
            Err(Error::Unavailable { .. }) => failed += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(whole > 0 && failed > 0, "{whole} whole, {failed} failed");
    store.close().await;
    direct.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_out_of_reach_is_an_error_and_never_an_old_answer() {
    let settings = shared();
    let cutter = Cutter::start(settings.port).unwrap();
    let direct = open(&settings).await;
    let store = open(&through(&cutter, &settings)).await;
    let first = store.commit(put("a", "1", None)).await.unwrap().revision;
    cutter.admit(Admit::None);
    cutter.cut_all();
    direct.commit(put("a", "2", Some(first))).await.unwrap();

    let begun = tokio::time::Instant::now();
    let a = key("a");
    let (read, written) = tokio::join!(store.get(&a, None), store.commit(put("b", "1", None)),);
    assert!(matches!(read, Err(Error::Unavailable { .. })), "{read:?}");
    assert!(matches!(written, Err(Error::Unavailable { .. })), "{written:?}");
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    eventually("an outage shows", async || store.health().is_err()).await;

    cutter.admit(Admit::All);
    eventually("the outage ends", async || store.health().is_ok()).await;
    assert_eq!(&store.get(&key("a"), None).await.unwrap().unwrap().value[..], b"2");
    store.commit(put("b", "1", None)).await.unwrap();
    assert_eq!(contents(&*direct).await.len(), 2);
    store.close().await;
    direct.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_is_cut_at_any_byte_of_its_answers_is_acknowledged_truly() {
    let settings = shared();
    let cutter = Cutter::start(settings.port).unwrap();
    let store = open(&through(&cutter, &settings)).await;
    let mut at = None;
    let step = 9 / rounds(1, 9) as u64;
    for (number, offset) in (0..700).step_by(step as usize).enumerate() {
        cutter.cut_after(offset);
        let committed = store.commit(put("a", offset.to_string(), at)).await.unwrap();
        assert_eq!(committed.revision, Revision(number as u64 + 1), "cut after {offset}");
        let found = store.get(&key("a"), None).await.unwrap().unwrap();
        assert_eq!(
            (found.modified, &found.value[..]),
            (committed.revision, offset.to_string().as_bytes())
        );
        at = Some(committed.revision);
    }
    println!("{} cuts", cutter.cuts());
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_missed_a_compaction_starts_over_and_ends_its_watches() {
    let settings = shared();
    let cutter = Cutter::start(settings.port).unwrap();
    let direct = open(&settings).await;
    let store = open(&through(&cutter, &settings)).await;
    let mut at = store.commit(put("a", "0", None)).await.unwrap().revision;
    let mut watch = store.watch(KeyRange::all(), at).await.unwrap();
    cutter.admit(Admit::None);
    cutter.cut_all();
    for number in 1..20 {
        at = direct.commit(put("a", number.to_string(), Some(at))).await.unwrap().revision;
    }
    direct.compact(at).await.unwrap();
    cutter.admit(Admit::All);
    let ended = watch.next().await;
    assert!(matches!(ended, Err(Error::Compacted { .. })), "{ended:?}");
    assert_eq!(contents(&*store).await, [("a".to_owned(), "19".to_owned())]);
    let mut watch = store.watch(KeyRange::all(), store.revision()).await.unwrap();
    let next = direct.commit(put("b", "1", None)).await.unwrap().revision;
    assert_eq!(watch.next().await.unwrap().revision, next);
    store.close().await;
    direct.close().await;
}

/// As a process does that is stopped between the two halves of a commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_falls_silent_with_the_lock_holds_nobody_up() {
    let settings = shared();
    let cutter = Cutter::start(settings.port).unwrap();
    let direct = open(&settings).await;
    let store = open(&through(&cutter, &settings)).await;
    store.commit(put("a", "1", None)).await.unwrap();
    let mut looking = connect(&settings).await;
    // Who commits locks that row first.
    let free = "SELECT id FROM setpoint_revision WHERE id = 1 FOR UPDATE SKIP LOCKED";
    cutter.stall();
    let silent = store.clone();
    let mut writers = JoinSet::new();
    writers.spawn(async move { silent.commit(put("b", "1", None)).await });
    eventually("the lock is held", async || {
        looking.query_first::<u64, _>(free).await.unwrap().is_none()
    })
    .await;
    direct.commit(put("c", "1", None)).await.unwrap();
    cutter.resume();
    let told = writers.join_next().await.unwrap().unwrap();
    assert!(!matches!(told, Err(Error::OutcomeUnknown { .. })), "{told:?}");
    let keys = contents(&*direct).await.into_iter().map(|(key, _)| key);
    let keys: Vec<String> = keys.collect();
    assert_eq!(keys.contains(&"b".to_owned()), told.is_ok(), "{told:?}");
    assert!(keys.contains(&"c".to_owned()));
    store.close().await;
    direct.close().await;
}
