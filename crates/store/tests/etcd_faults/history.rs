//! Our own history: it outlives etcd's, a restart, and parts that had to be put aside.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use servers::Etcd;
use store::backends::etcd;
use store::{Error, KeyRange, Retention, Revision, Store, System};

use crate::world::*;

type State = BTreeMap<String, (String, u64)>;

/// Writes some keys over and over; what the store held after each revision.
async fn busy(store: &dyn Store, commits: usize) -> Vec<(Revision, State)> {
    let mut state = State::new();
    let mut states = Vec::new();
    for number in 0..commits {
        let name = format!("key/{}", number * 7 % 5);
        let at = state.get(&name).map(|(_, revision)| Revision(*revision));
        let operation = match at {
            Some(at) if number % 4 == 3 => delete(&name, at),
            at => put(&name, format!("value {number}"), at),
        };
        let revision = write(store, operation.clone()).await.unwrap().revision;
        match operation.mutation {
            store::Mutation::Delete => state.remove(&name),
            _ => state.insert(name, (format!("value {number}"), revision.0)),
        };
        states.push((revision, state.clone()));
    }
    states
}

async fn check_states(store: &dyn Store, states: &[(Revision, State)]) {
    for (revision, state) in states {
        let page = list(store, Some(*revision)).await;
        let found: State = page.into_iter().map(|(k, v, r)| (k, (v, r))).collect();
        assert_eq!(&found, state, "at {revision}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn history_outlives_the_servers_own_and_a_restart() {
    let server = Etcd::start().unwrap();
    let endpoint = server.endpoint();
    let store = open(&settings(&endpoint)).await;
    let states = busy(&*store, 60).await;
    let before = Witness::after(&store, Revision::ZERO).await;
    let seen = before.through(states.last().unwrap().0).await;
    etcdctl(&endpoint, &["compact", &server_revision(&endpoint).to_string()]);
    check_states(&*store, &states).await;
    store.close().await;

    let store = open(&settings(&endpoint)).await;
    check_states(&*store, &states).await;
    let last = states.last().unwrap().0;
    let changes = store.changes(&KeyRange::all(), Revision::ZERO, last).await.unwrap();
    assert_eq!(changes.through, last);
    assert_eq!(changes.batches, seen);
    let replay = Witness::after(&store, states[10].0).await;
    assert_eq!(replay.through(last).await, seen[11..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn compaction_is_for_all_processes_and_deletes_the_log() {
    let server = Etcd::start().unwrap();
    let endpoint = server.endpoint();
    let store = open(&settings(&endpoint)).await;
    let other = open(&settings(&endpoint)).await;
    let states = busy(&*store, 40).await;
    let (cut, _) = states[20];
    store.compact(cut).await.unwrap();
    within("the other process to learn of it", async {
        while other.compacted() < cut {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    within("the log to become short", async {
        let count = || etcdctl(&endpoint, &["get", "--prefix", "/setpoint/log/", "--keys-only"]);
        while count().lines().filter(|line| !line.is_empty()).count() > 20 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let fresh = open(&settings(&endpoint)).await;
    for store in [&store, &other, &fresh] {
        assert_eq!(store.compacted(), cut);
        check_states(&**store, &states[20..]).await;
        let old = store.list(&KeyRange::all(), Default::default(), Some(states[19].0)).await;
        assert!(matches!(old, Err(Error::Compacted { .. })));
        let gone = store.watch(KeyRange::all(), states[18].0).await;
        assert!(matches!(gone, Err(Error::Compacted { .. })));
        let last = states.last().unwrap().0;
        let rest = store.changes(&KeyRange::all(), states[19].0, last).await.unwrap();
        assert_eq!(rest.batches.len(), 20);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_beyond_the_window_is_forgotten_in_the_background() {
    let server = Etcd::start().unwrap();
    let settings = settings(server.endpoint());
    let retention =
        Retention { bytes_max: 2_000, interval: Duration::from_millis(50), ..Retention::default() };
    let store = etcd::open(&settings, retention, Arc::new(System)).await.unwrap();
    let states = busy(&*store, 60).await;
    within("the window to move", async {
        while store.compacted() < states[10].0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let (last, state) = states.last().unwrap();
    check_states(&*store, &[(*last, state.clone())]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_that_left_memory_come_from_the_log() {
    let server = Etcd::start().unwrap();
    let settings = settings(server.endpoint());
    let retention = Retention { recent_bytes_max: 1_000, ..Retention::default() };
    let store = etcd::open(&settings, retention, Arc::new(System)).await.unwrap();
    let states = busy(&*store, 60).await;
    check_states(&*store, &states).await;
    let replay = Witness::after(&store, Revision::ZERO).await;
    assert_eq!(replay.through(states.last().unwrap().0).await.len(), 60);
}
