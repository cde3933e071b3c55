//! How a watch begins: with what exists, from a revision, from now, after a restart.

use serde_json::Value;

use super::client::{BOTH, Version, brief, config_map, revision};
use super::cluster::{Choices, Cluster, new_directory};

const PLACE: &str = "/api/v1/namespaces/default/configmaps";
const END: &str = "k8s.io/initial-events-end";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn initial_events_end_with_a_bookmark_for_those_who_ask() {
    let cluster = Cluster::start().await;
    for (number, version) in BOTH.into_iter().enumerate() {
        let mut client = cluster.client(Version::Two).await;
        let created = client.done("POST", PLACE, config_map(&format!("a{number}"), "x")).await;
        let path = format!(
            "{PLACE}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
             &allowWatchBookmarks=true&resourceVersion={}",
            revision(&created)
        );
        let mut own = cluster.client(version).await;
        let mut events = own.watch(&path).await;
        for known in 0..=number {
            assert_eq!(brief(&events.some().await), format!("ADDED a{known}"));
        }
        let bookmark = events.some().await;
        assert_eq!(bookmark["type"], "BOOKMARK");
        assert_eq!(bookmark["object"]["kind"], "ConfigMap");
        assert_eq!(bookmark["object"]["metadata"]["annotations"][END], "true");
        assert!(revision(&bookmark["object"]) >= revision(&created));
        client.done("POST", PLACE, config_map(&format!("b{number}"), "x")).await;
        assert_eq!(brief(&events.some().await), format!("ADDED b{number}"));
        client.done("DELETE", &format!("{PLACE}/b{number}"), Value::Null).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_begins_where_it_is_told_to() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client(Version::Two).await;
    let old = client.done("POST", PLACE, config_map("old", "x")).await;
    let after = format!("&resourceVersion={}", revision(&old));
    let cases = [
        (String::new(), true),
        ("&resourceVersion=0".to_owned(), true),
        (after, false),
        ("&sendInitialEvents=false&resourceVersionMatch=NotOlderThan".to_owned(), false),
    ];
    let mut watches = Vec::new();
    for (options, has_old) in cases {
        let events = client.watch(&format!("{PLACE}?watch=1{options}")).await;
        watches.push((options, has_old, events));
    }
    client.done("POST", PLACE, config_map("young", "x")).await;
    for (options, has_old, mut events) in watches {
        if has_old {
            assert_eq!(brief(&events.some().await), "ADDED old", "{options}");
        }
        assert_eq!(brief(&events.some().await), "ADDED young", "{options}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contradictory_options_are_refused() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client(Version::One).await;
    for (options, code) in [
        ("sendInitialEvents=true", 422),
        ("resourceVersionMatch=NotOlderThan&resourceVersion=1", 422),
        ("resourceVersion=abc", 422),
        ("labelSelector=%3D%3D", 400),
        ("timeoutSeconds=x", 400),
    ] {
        let path = format!("{PLACE}?watch=1&{options}");
        let (answered, status) = client.json("GET", &path, Value::Null).await;
        assert_eq!((answered, &status["kind"]), (code, &"Status".into()), "{options}: {status}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_is_resumed_after_a_restart() {
    let directory = new_directory();
    let choices = || Choices { directory: Some(directory.clone()), ..Choices::default() };
    let cluster = Cluster::start_with(choices()).await;
    let mut client = cluster.client(Version::Two).await;
    let first = client.done("POST", PLACE, config_map("a", "1")).await;
    let path = format!("{PLACE}?watch=1&resourceVersion={}", revision(&first));
    let mut events = client.watch(&path).await;
    client.done("PUT", &format!("{PLACE}/a"), config_map("a", "2")).await;
    client.done("POST", PLACE, config_map("b", "1")).await;
    let seen = events.some().await;
    assert_eq!(brief(&seen), "MODIFIED a");
    drop(events);
    drop(client);
    cluster.stop().await;

    let cluster = Cluster::start_with(choices()).await;
    let mut client = cluster.client(Version::One).await;
    let path = format!("{PLACE}?watch=1&resourceVersion={}", revision(&seen["object"]));
    let mut events = client.watch(&path).await;
    assert_eq!(brief(&events.some().await), "ADDED b");
    let mut other = cluster.client(Version::Two).await;
    other.done("DELETE", &format!("{PLACE}/a"), Value::Null).await;
    assert_eq!(brief(&events.some().await), "DELETED a");
    drop((events, client, other));
    cluster.stop().await;
    std::fs::remove_dir_all(&directory).unwrap();
}
