//! Ten thousand events at once, for readers of every speed.

use serde_json::Value;
use tokio::task::JoinSet;

use super::client::{BOTH, Events, Version, config_map, revision};
use super::cluster::Cluster;

const EVENTS: usize = 10_000;
const WRITERS: usize = 8;
const FAST: usize = 6;
const SLOW: usize = 4;
const PLACE: &str = "/api/v1/namespaces/default/configmaps";

async fn read(mut events: Events) -> Vec<u64> {
    let mut revisions = Vec::with_capacity(EVENTS);
    while revisions.len() < EVENTS {
        revisions.push(revision(&events.some().await["object"]));
    }
    revisions
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_reaches_fast_and_slow_watchers_whole() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client(Version::Two).await;
    let list = client.done("GET", PLACE, Value::Null).await;
    let path = format!("{PLACE}?watch=1&resourceVersion={}", revision(&list));
    let mut clients = Vec::new();
    let (mut fast, mut slow) = (JoinSet::new(), Vec::new());
    for number in 0..FAST + SLOW {
        let mut own = cluster.client(BOTH[number % 2]).await;
        let events = own.watch(&path).await;
        clients.push(own);
        if number < FAST {
            fast.spawn(read(events));
        } else {
            slow.push(events);
        }
    }
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let mut client = cluster.client(Version::Two).await;
        writers.spawn(async move {
            for number in 0..EVENTS / WRITERS {
                let object = config_map(&format!("c{writer}-{number}"), "x");
                client.done("POST", PLACE, object).await;
            }
        });
    }
    while let Some(written) = writers.join_next().await {
        written.unwrap();
    }
    let list = client.done("GET", PLACE, Value::Null).await;
    let mut expected: Vec<u64> = list["items"].as_array().unwrap().iter().map(revision).collect();
    expected.sort_unstable();
    assert_eq!(expected.len(), EVENTS);
    while let Some(read) = fast.join_next().await {
        assert!(read.unwrap() == expected, "a fast watcher must see everything in order");
    }
    // The slow ones begin to read only here.
    for events in slow {
        assert!(read(events).await == expected, "a slow watcher must see everything in order");
    }
}
