//! What a watch promises, under concurrent writers: ordered, unique, whole, resumable.

use std::collections::BTreeMap;

use serde_json::Value;
use tokio::task::JoinSet;

use super::client::{BOTH, Client, Events, Version, config_map, revision};
use super::cluster::Cluster;

const WRITERS: usize = 6;
const ROUNDS: usize = 20;
const OF_DEFAULT: &str = "/api/v1/namespaces/default/configmaps";
const OF_SYSTEM: &str = "/api/v1/namespaces/kube-system/configmaps";

/// Creates, updates and deletes its own objects in two namespaces.
async fn write(mut client: Client, writer: usize) {
    for round in 0..ROUNDS {
        let place = if round % 2 == 0 { OF_DEFAULT } else { OF_SYSTEM };
        let name = format!("w{writer}-{}", round % 5);
        let path = format!("{place}/{name}");
        let value = format!("{}", round % 3);
        let (code, _) = client.json("GET", &path, Value::Null).await;
        match code {
            404 => drop(client.done("POST", place, config_map(&name, &value)).await),
            _ if round % 7 == 6 => drop(client.done("DELETE", &path, Value::Null).await),
            _ => drop(client.done("PUT", &path, config_map(&name, &value)).await),
        }
    }
}

fn key(object: &Value) -> (String, String) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}

/// The state that a list and the events after it add up to; checks that they are ordered and fit.
fn replay(mut state: BTreeMap<(String, String), Value>, events: &[Value]) -> Vec<Value> {
    let mut last = 0;
    for event in events {
        let object = &event["object"];
        assert!(revision(object) > last, "events come in order and once: {event}");
        last = revision(object);
        let known = state.contains_key(&key(object));
        match event["type"].as_str().unwrap() {
            "ADDED" => assert!(!known, "it was there already: {event}"),
            "MODIFIED" | "DELETED" => assert!(known, "it was not there: {event}"),
            other => panic!("an unexpected {other}"),
        }
        if event["type"] == "DELETED" {
            state.remove(&key(object));
        } else {
            state.insert(key(object), object.clone());
        }
    }
    state.into_values().collect()
}

fn items(list: &Value) -> Vec<Value> {
    list["items"].as_array().unwrap().clone()
}

fn state_of(list: &Value) -> BTreeMap<(String, String), Value> {
    items(list).into_iter().map(|item| (key(&item), item)).collect()
}

async fn read_to_end(mut events: Events) -> Vec<Value> {
    events.until("zz-end").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_and_the_events_after_it_are_the_state_whoever_writes() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client(Version::Two).await;
    let places = ["/api/v1/configmaps", OF_DEFAULT, OF_SYSTEM];
    let mut watches = Vec::new();
    for place in places {
        for version in BOTH {
            let list = client.done("GET", place, Value::Null).await;
            let mut own = cluster.client(version).await;
            let path = format!("{place}?watch=1&resourceVersion={}", revision(&list));
            watches.push((place, list, own.watch(&path).await, own));
        }
    }
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let client = cluster.client(BOTH[writer % 2]).await;
        writers.spawn(write(client, writer));
    }
    while let Some(written) = writers.join_next().await {
        written.unwrap();
    }
    client.done("POST", OF_SYSTEM, config_map("zz-end", "x")).await;
    client.done("POST", OF_DEFAULT, config_map("zz-end", "x")).await;
    for (place, list, mut events, _client) in watches {
        let mut seen = events.until("zz-end").await;
        if place == places[0] {
            seen.extend(events.until("zz-end").await);
        }
        let now = client.done("GET", place, Value::Null).await;
        assert_eq!(replay(state_of(&list), &seen), items(&now), "{place}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_can_be_resumed_at_every_revision_it_has_seen() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client(Version::Two).await;
    let list = client.done("GET", OF_DEFAULT, Value::Null).await;
    write(cluster.client(Version::One).await, 0).await;
    client.done("POST", OF_DEFAULT, config_map("zz-end", "x")).await;
    let path = |after: u64| format!("{OF_DEFAULT}?watch=1&resourceVersion={after}");
    let all = read_to_end(client.watch(&path(revision(&list))).await).await;
    assert!(all.len() > 5);
    for (position, event) in all.iter().enumerate().take(all.len() - 1) {
        let after = revision(&event["object"]);
        let rest = read_to_end(client.watch(&path(after)).await).await;
        assert_eq!(rest, all[position + 1..], "after {after}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_selects_sees_objects_come_and_go() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client(Version::Two).await;
    let selected = format!("{OF_DEFAULT}?watch=1&labelSelector=value%3D1");
    let mut by_label = client.watch(&selected).await;
    let named = format!("{OF_DEFAULT}?watch=1&fieldSelector=metadata.name%3Db");
    let mut by_name = client.watch(&named).await;
    client.done("POST", OF_DEFAULT, config_map("a", "0")).await;
    let path = format!("{OF_DEFAULT}/a");
    client.done("PUT", &path, config_map("a", "1")).await;
    let mut object = config_map("a", "1");
    object["data"]["round"] = "again".into();
    client.done("PUT", &path, object).await;
    let left = client.done("PUT", &path, config_map("a", "2")).await;
    client.done("POST", OF_DEFAULT, config_map("b", "1")).await;
    let gone = client.done("DELETE", &format!("{OF_DEFAULT}/b"), Value::Null).await;
    assert_eq!(gone["status"], "Success");
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.push(by_label.some().await);
    }
    let kinds: Vec<_> = seen.iter().map(super::client::brief).collect();
    assert_eq!(kinds, ["ADDED a", "MODIFIED a", "DELETED a", "ADDED b", "DELETED b"]);
    // Who loses sight of an object is shown it as it was, at the revision that took it away.
    assert_eq!(seen[2]["object"]["metadata"]["labels"]["value"], "1");
    assert_eq!(revision(&seen[2]["object"]), revision(&left));
    assert!(revision(&seen[4]["object"]) > revision(&seen[3]["object"]));
    let mut names = Vec::new();
    for _ in 0..2 {
        names.push(super::client::brief(&by_name.some().await));
    }
    assert_eq!(names, ["ADDED b", "DELETED b"]);
}
