//! Connections cut in the middle of an answer, at many places.

use std::sync::Arc;
use std::time::Duration;

use servers::{Admit, Cutter, Etcd};
use store::backends::etcd;
use store::{Error, Retention, Revision, System};

use crate::world::*;

#[tokio::test(flavor = "multi_thread")]
async fn commits_whose_answers_are_cut_happen_once_or_not_at_all() {
    let server = Etcd::start().unwrap();
    let cutter = Cutter::start(server.port()).unwrap();
    let store = open(&settings(local(cutter.port()))).await;
    let direct = open(&settings(server.endpoint())).await;
    let witness = Witness::after(&store, Revision::ZERO).await;
    let load = Load::start(&[store.clone(), direct.clone()], 4);
    let near = (0..500).step_by(rounds(11, 1));
    let far = (500..20_000).step_by(rounds(487, 37));
    for offset in near.chain(far) {
        let before = cutter.cuts();
        cutter.cut_after(offset);
        within("a cut", async {
            while cutter.cuts() == before {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
    }
    let ledger = load.finish().await;
    let last = ledger.acknowledged.iter().map(|(_, _, revision)| *revision).max().unwrap();
    ledger.check(&witness.through(last).await);
    assert_eq!(list(&*store, None).await, list(&*direct, None).await);
    eprintln!(
        "{} cuts, {} writes, {} conflicts, {} refused, {} unknown",
        cutter.cuts(),
        ledger.acknowledged.len(),
        ledger.conflicts.len(),
        ledger.refused.len(),
        ledger.unknown.len()
    );
    assert!(ledger.unknown.is_empty(), "the server was there all the time");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_is_cut_is_never_short() {
    let server = Etcd::start().unwrap();
    let direct = open(&settings(server.endpoint())).await;
    for group in 0..10 {
        let operation = |number| put(&format!("{group}/{number:02}"), vec![b'x'; 1_000], None);
        direct.commit(all((0..50).map(operation).collect())).await.unwrap();
    }
    let expected = list(&*direct, None).await;
    assert_eq!(expected.len(), 500);
    let cutter = Cutter::start(server.port()).unwrap();
    let mut opened = 0;
    for offset in (0..700_000).step_by(rounds(23_456, 1_234)) {
        cutter.cut_after(offset);
        let settings = settings(local(cutter.port()));
        match etcd::open(&settings, Retention::default(), Arc::new(System)).await {
            Ok(store) => {
                assert_eq!(list(&*store, None).await, expected, "cut after {offset}");
                opened += 1;
            }
            Err(Error::Connect { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert!(opened > 10, "only {opened} stores could be opened");
}

#[tokio::test(flavor = "multi_thread")]
async fn history_that_is_cut_is_never_short() {
    let server = Etcd::start().unwrap();
    let cutter = Cutter::start(server.port()).unwrap();
    let writer = open(&settings(server.endpoint())).await;
    let mut at = None;
    for number in 0..300 {
        let value = format!("{number:0400}");
        at = Some(write(&*writer, put("a", value, at)).await.unwrap().revision);
    }
    let store = open(&settings(local(cutter.port()))).await;
    let last = at.unwrap();
    for offset in (0..150_000).step_by(rounds(9_876, 777)) {
        cutter.cut_after(offset);
        let changes = within("history", async {
            loop {
                match store.changes(&store::KeyRange::all(), Revision::ZERO, last).await {
                    Ok(changes) => return changes,
                    Err(Error::Unavailable { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        })
        .await;
        assert_eq!((changes.batches.len(), changes.through), (300, last));
        check_chain(&changes.batches);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_made_while_the_watch_was_away_are_seen_once() {
    let server = Etcd::start().unwrap();
    let cutter = Cutter::start(server.port()).unwrap();
    let store = open(&settings(local(cutter.port()))).await;
    let direct = open(&settings(server.endpoint())).await;
    let witness = Witness::after(&store, Revision::ZERO).await;
    for round in 0..rounds(5, 50) {
        cutter.admit(Admit::None);
        cutter.cut_all();
        let mut last = Revision::ZERO;
        for number in 0..20 {
            let name = format!("{round}/{number}");
            last = write(&*direct, put(&name, "x", None)).await.unwrap().revision;
        }
        cutter.admit(Admit::All);
        assert_eq!(witness.through(last).await.len(), (round + 1) * 20);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_endpoint_takes_over() {
    let server = Etcd::start().unwrap();
    let first = Cutter::start(server.port()).unwrap();
    let second = Cutter::start(server.port()).unwrap();
    let endpoints = vec![local(first.port()), local(second.port())];
    let store = open(&etcd::Settings { endpoints, ..Default::default() }).await;
    let mut at = write(&*store, put("a", "0", None)).await.unwrap().revision;
    for (round, cutter) in [&first, &second, &first].into_iter().enumerate() {
        cutter.admit(Admit::None);
        cutter.cut_all();
        at = write(&*store, put("a", format!("{round}"), Some(at))).await.unwrap().revision;
        assert_eq!(store.get(&key("a"), None).await.unwrap().unwrap().modified, at);
        cutter.admit(Admit::All);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_caller_leaves_a_whole_write_or_none() {
    let server = Etcd::start().unwrap();
    let store = open(&settings(server.endpoint())).await;
    for number in 0..rounds(60, 600) {
        let names = ["left", "right"].map(|side| format!("{number}/{side}"));
        let commit = all(names.iter().map(|name| put(name, "x", None)).collect());
        let task = spawn({
            let store = store.clone();
            async move { store.commit(commit).await }
        });
        tokio::time::sleep(Duration::from_micros(number as u64 * 50)).await;
        task.abort();
    }
    // The commits run to their end.
    store.close().await;
    let store = open(&settings(server.endpoint())).await;
    let mut halves = std::collections::BTreeMap::new();
    for (name, _, _) in list(&*store, None).await {
        *halves.entry(name.split_once('/').unwrap().0.to_owned()).or_insert(0) += 1;
    }
    assert!(halves.values().all(|count| *count == 2), "{halves:?}");
    assert!(!halves.is_empty());
}
