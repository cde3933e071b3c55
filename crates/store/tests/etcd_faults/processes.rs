//! Two processes on one server see each other's writes once and in order.
//!
//! The second process is this test program again, told by a variable what to do.

use std::process::Stdio;
use std::time::Duration;

use servers::Etcd;
use store::{Environment, Error, KeyRange, Revision, Store, System};

use crate::world::*;

const SERVER: &str = "SETPOINT_TEST_SECOND_PROCESS";
const WRITES: usize = 300;

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_see_each_others_writes_once_and_in_order() {
    let server = Etcd::start().unwrap();
    let store = open(&settings(server.endpoint())).await;
    let child = tokio::task::spawn_blocking({
        let endpoint = server.endpoint();
        move || {
            std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "processes::second_process", "--nocapture"])
                .env(SERVER, endpoint)
                .stdout(Stdio::piped())
                .output()
                .unwrap()
        }
    });
    let mine = spawn({
        let store = store.clone();
        async move { exchange(&*store, "first", "second").await }
    });
    let output = within("the second process to end", child).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let mut latencies = within("the first process to end", mine).await.unwrap();
    latencies.sort();
    let at = |percent: usize| latencies[latencies.len() * percent / 100];
    eprintln!("write to event in the other process: p50 {} us, p99 {} us", at(50), at(99));
    let all = store.changes(&KeyRange::all(), Revision::ZERO, store.revision()).await.unwrap();
    check_chain(&all.batches);
}

#[tokio::test(flavor = "multi_thread")]
async fn second_process() {
    let Ok(endpoint) = std::env::var(SERVER) else { return };
    let store = open(&settings(endpoint)).await;
    within("the exchange", exchange(&*store, "second", "first")).await;
}

/// Writes under one name and watches another, whose values must come one after the other. How long
/// each took from before its commit until here, in microseconds.
async fn exchange(store: &dyn Store, mine: &str, other: &str) -> Vec<i64> {
    let mut watch = store.watch(KeyRange::prefix(other), Revision::ZERO).await.unwrap();
    let write_all = async {
        let mut at = None;
        for number in 0..WRITES {
            let value = format!("{number} {}", System.now().0);
            at = Some(write(store, put(mine, value, at)).await.unwrap().revision);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let read_all = async {
        let mut latencies = Vec::new();
        for expected in 0..WRITES {
            let batch = watch.next().await.unwrap();
            let now = System.now().0;
            let entry = batch.changes[0].entry.as_ref().unwrap();
            let value = String::from_utf8(entry.value.to_vec()).unwrap();
            let (number, time) = value.split_once(' ').unwrap();
            assert_eq!(number.parse::<usize>().unwrap(), expected);
            latencies.push(now - time.parse::<i64>().unwrap());
        }
        latencies
    };
    let ((), latencies) = tokio::join!(write_all, read_all);
    latencies
}

#[tokio::test(flavor = "multi_thread")]
async fn of_racing_writers_in_two_stores_exactly_one_wins() {
    let server = Etcd::start().unwrap();
    let one = open(&settings(server.endpoint())).await;
    let two = open(&settings(server.endpoint())).await;
    let mut at = write(&*one, put("a", "start", None)).await.unwrap().revision;
    for round in 0..rounds(50, 500) {
        let (first, second) = tokio::join!(
            write(&*one, put("a", format!("one {round}"), Some(at))),
            write(&*two, put("a", format!("two {round}"), Some(at))),
        );
        let (won, lost) = match (first, second) {
            (Ok(won), Err(lost)) | (Err(lost), Ok(won)) => (won.revision, lost),
            other => panic!("{other:?}"),
        };
        match lost {
            Error::Conflict { expected, current, .. } => {
                assert_eq!((expected, current), (Some(at), Some(won)));
            }
            other => panic!("{other}"),
        }
        // A read in either store shows it.
        for store in [&one, &two] {
            assert_eq!(store.get(&key("a"), None).await.unwrap().unwrap().modified, won);
        }
        at = won;
    }
}
