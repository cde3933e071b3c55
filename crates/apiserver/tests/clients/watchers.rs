//! What programs are made of with kube-rs: watcher, reflector and controller, on both ways in.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, future};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent};
use kube::api::{ObjectMeta, WatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::wait::await_condition;
use kube::runtime::watcher::{Event, InitialListStrategy};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Client, Resource, ResourceExt};
use serde_json::json;
use tokio::task::JoinSet;

use super::cluster::{Cluster, PATIENCE};
use super::local::config_map;

async fn make_space(client: &Client, name: &str) {
    let spaces: Api<Namespace> = Api::all(client.clone());
    let space = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    spaces.create(&PostParams::default(), &space).await.unwrap();
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it happens in time")
}

fn data(map: &ConfigMap) -> &str {
    map.data.as_ref().and_then(|data| data.get("a")).map_or("", String::as_str)
}

#[tokio::test]
async fn a_watcher_sees_what_is_there_and_then_what_happens() {
    let cluster = Cluster::start().await;
    for (space, client) in cluster.admins().await {
        for strategy in [InitialListStrategy::ListWatch, InitialListStrategy::StreamingList] {
            let space = format!("{space}-{strategy:?}").to_lowercase();
            make_space(&client, &space).await;
            let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &space);
            maps.create(&PostParams::default(), &config_map("old")).await.unwrap();
            let config = watcher::Config {
                initial_list_strategy: strategy,
                ..watcher::Config::default().labels("app in (old, new)")
            };
            let mut events = pin!(watcher(maps.clone(), config));
            let mut next = async || match within(events.try_next()).await.unwrap().unwrap() {
                Event::Init => "init".to_owned(),
                Event::InitApply(map) => format!("init {}", map.name_any()),
                Event::InitDone => "done".to_owned(),
                Event::Apply(map) => format!("apply {} {}", map.name_any(), data(&map)),
                Event::Delete(map) => format!("delete {}", map.name_any()),
            };
            let mut seen = vec![next().await, next().await, next().await];
            maps.create(&PostParams::default(), &config_map("new")).await.unwrap();
            maps.create(&PostParams::default(), &config_map("other")).await.unwrap();
            let patch = Patch::Merge(json!({"data": {"a": "2"}}));
            maps.patch("new", &PatchParams::default(), &patch).await.unwrap();
            maps.delete("old", &DeleteParams::default()).await.unwrap();
            seen.extend([next().await, next().await, next().await]);
            let expected = ["init", "init old", "done", "apply new 1", "apply new 2", "delete old"];
            assert_eq!(seen, expected, "{space}");
        }
    }
}

/// The watch ends after a second, and what it then asks for is forgotten: it begins anew.
#[tokio::test]
async fn a_watcher_begins_anew_after_the_history_was_compacted() {
    let cluster = Cluster::start().await;
    for (space, client) in cluster.admins().await {
        make_space(&client, space).await;
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), space);
        let config = watcher::Config { bookmarks: false, ..watcher::Config::default().timeout(1) };
        maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
        let events = watcher(maps.clone(), config).default_backoff();
        let mut events = pin!(events);
        let mut inits = 0;
        while inits < 2 {
            match within(events.next()).await.unwrap() {
                Ok(Event::Init) => inits += 1,
                Ok(Event::InitDone) if inits == 1 => {
                    // Somewhere else, so that this watch does not hear of it.
                    let others: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
                    others.create(&PostParams::default(), &config_map(space)).await.unwrap();
                    others.delete(space, &DeleteParams::default()).await.unwrap();
                    let newest = cluster.server.store.revision();
                    cluster.server.store.compact(newest).await.unwrap();
                }
                // That the history is gone is told before the new beginning.
                Ok(_) | Err(_) => {}
            }
        }
        let first = maps.watch(&WatchParams::default(), "1").await.unwrap();
        match within(first.boxed().next()).await.unwrap() {
            Ok(WatchEvent::Error(status)) => {
                assert_eq!((status.code, status.reason.as_str()), (410, "Expired"), "{space}");
            }
            other => panic!("{space}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_reflector_holds_the_state() {
    let cluster = Cluster::start().await;
    for (space, client) in cluster.admins().await {
        make_space(&client, space).await;
        let maps: Api<ConfigMap> = Api::namespaced(client, space);
        maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
        let (store, writer) = reflector::store();
        let stream = watcher(maps.clone(), watcher::Config::default().timeout(1));
        let stream = reflector(writer, stream).default_backoff();
        let mut stream = pin!(stream);
        let names = || {
            let mut names: Vec<String> = store.state().iter().map(|map| map.name_any()).collect();
            names.sort();
            names
        };
        let mut until = async |expected: &[&str]| {
            while names() != expected {
                within(stream.next()).await.unwrap().unwrap();
            }
        };
        until(&["a"]).await;
        maps.create(&PostParams::default(), &config_map("b")).await.unwrap();
        until(&["a", "b"]).await;
        maps.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
        until(&[]).await;
    }
}

/// Keeps a Secret of the same name for each ConfigMap.
async fn reconcile(map: Arc<ConfigMap>, client: Arc<Client>) -> Result<Action, kube::Error> {
    let space = map.namespace().unwrap_or_default();
    let secrets: Api<Secret> = Api::namespaced(Client::clone(&client), &space);
    let wanted = BTreeMap::from([("a".to_owned(), ByteString(data(&map).as_bytes().to_vec()))]);
    let secret = Secret {
        metadata: ObjectMeta {
            name: map.metadata.name.clone(),
            owner_references: map.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some(wanted),
        ..Secret::default()
    };
    match secrets.get_opt(&map.name_any()).await? {
        None => secrets.create(&PostParams::default(), &secret).await?,
        Some(found) if found.data == secret.data => found,
        Some(_) => {
            let patch = Patch::Merge(json!({"data": secret.data}));
            secrets.patch(&map.name_any(), &PatchParams::default(), &patch).await?
        }
    };
    Ok(Action::await_change())
}

#[tokio::test]
async fn a_controller_keeps_what_it_owns() {
    let cluster = Cluster::start().await;
    for (space, client) in cluster.admins().await {
        make_space(&client, space).await;
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), space);
        let secrets: Api<Secret> = Api::namespaced(client.clone(), space);
        let controller = Controller::new(maps.clone(), watcher::Config::default())
            .owns(secrets.clone(), watcher::Config::default())
            .run(
                reconcile,
                |_, _, _| Action::requeue(Duration::from_millis(50)),
                Arc::new(client.clone()),
            )
            .for_each(|_| future::ready(()));
        let mut tasks = JoinSet::new();
        tasks.spawn(controller);

        let holds = |value: &'static str| {
            let condition = move |secret: Option<&Secret>| {
                let bytes = secret.and_then(|secret| secret.data.as_ref()?.get("a"));
                bytes.is_some_and(|bytes| bytes.0 == value.as_bytes())
            };
            within(await_condition(secrets.clone(), "a", condition))
        };
        let map = maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
        holds("1").await.unwrap();
        let owners = secrets.get("a").await.unwrap().metadata.owner_references.unwrap();
        assert_eq!(owners[0].uid, map.uid().unwrap(), "{space}");
        let patch = Patch::Merge(json!({"data": {"a": "2"}}));
        maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
        holds("2").await.unwrap();
        // What is taken away comes back.
        secrets.delete("a", &DeleteParams::default()).await.unwrap();
        holds("2").await.unwrap();
        let spoiled = Patch::Merge(json!({"data": {"a": "MTIz"}}));
        secrets.patch("a", &PatchParams::default(), &spoiled).await.unwrap();
        holds("2").await.unwrap();
    }
}
