//! How a watch ends: in time, with its revision gone, with the server.

use serde_json::Value;
use store::Revision;

use super::client::{BOTH, Version, brief, config_map, revision};
use super::cluster::Cluster;

const PLACE: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_ends_in_time_and_says_before_how_far_it_was() {
    let cluster = Cluster::start().await;
    for version in BOTH {
        let mut client = cluster.client(version).await;
        let mut writer = cluster.client(Version::Two).await;
        let path = format!(
            "{PLACE}?watch=1&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion={}",
            cluster.server.store.revision()
        );
        let mut events = client.watch(&path).await;
        // What happens elsewhere moves the bookmark, but is no event.
        let elsewhere = "/api/v1/namespaces/kube-system/configmaps";
        let name = format!("{version:?}").to_lowercase();
        writer.done("POST", elsewhere, config_map(&name, "x")).await;
        let mut bookmarks = 0;
        while let Some(event) = events.next().await {
            assert_eq!(event["type"], "BOOKMARK");
            assert_eq!(event["object"]["metadata"]["annotations"], Value::Null);
            bookmarks += 1;
        }
        assert_eq!(bookmarks, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revision_that_is_gone_ends_the_stream_and_not_the_request() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client(Version::One).await;
    for number in 0..5 {
        client.done("POST", PLACE, config_map(&format!("a{number}"), "x")).await;
    }
    let head = cluster.server.store.revision();
    cluster.server.store.compact(head).await.unwrap();
    let old = head.0 - 3;
    let mut events = client.watch(&format!("{PLACE}?watch=1&resourceVersion={old}")).await;
    let event = events.some().await;
    assert_eq!(event["type"], "ERROR");
    let status = &event["object"];
    assert_eq!((&status["code"], &status["reason"]), (&410.into(), &"Expired".into()));
    let text = format!("too old resource version: {old} ({head})");
    assert_eq!(status["message"], text.as_str());
    assert_eq!(events.next().await, None);
    assert_eq!(events.lines, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_continue_token_that_is_too_old_is_refused_with_another() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client(Version::Two).await;
    for number in 0..5 {
        client.done("POST", PLACE, config_map(&format!("a{number}"), "x")).await;
    }
    let page = client.done("GET", &format!("{PLACE}?limit=2"), Value::Null).await;
    let token = page["metadata"]["continue"].as_str().unwrap().to_owned();
    assert_eq!(page["metadata"]["remainingItemCount"], 3);
    client.done("POST", PLACE, config_map("a5", "x")).await;
    let head = cluster.server.store.revision();
    cluster.server.store.compact(Revision(head.0)).await.unwrap();
    let path = |token: &str| format!("{PLACE}?limit=2&continue={token}");
    let (code, status) = client.json("GET", &path(&token), Value::Null).await;
    assert_eq!((code, &status["reason"]), (410, &"Expired".into()));
    let text = "The provided continue parameter is too old to display a consistent list result. \
                You can start a new list without the continue parameter, or use the continue token \
                in this response to retrieve the remainder of the results. Continuing with the \
                provided token results in an inconsistent list - objects that were created, \
                modified, or deleted between the time the first chunk was returned and now may \
                show up in the list.";
    assert_eq!(status["message"], text);
    let token = status["metadata"]["continue"].as_str().unwrap();
    let rest = client.done("GET", &path(token), Value::Null).await;
    assert_eq!(rest["items"][0]["metadata"]["name"], "a2");
    assert_eq!(revision(&rest), head.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_ends_its_watches_cleanly() {
    let cluster = Cluster::start().await;
    let mut watches = Vec::new();
    for version in BOTH {
        let mut client = cluster.client(version).await;
        let events = client.watch(&format!("{PLACE}?watch=1")).await;
        watches.push((client, events));
    }
    let mut client = cluster.client(Version::Two).await;
    client.done("POST", PLACE, config_map("a", "x")).await;
    for (_, events) in &mut watches {
        assert_eq!(brief(&events.some().await), "ADDED a");
    }
    cluster.begin_stop();
    for (_client, mut events) in watches {
        assert_eq!(events.next().await, None);
    }
    cluster.stop().await;
}
