//! What a client saw then is what it is told now.

use std::collections::BTreeMap;
use std::time::Duration;

use http_body_util::BodyExt;
use serde_json::{Value, json};
use store::{Commit, Environment, Key, KeyRange, Mutation, Operation, Precondition, Provenance};
use store::{Retention, Thinning};

use crate::api::{ADMIN, Api, pod};
use crate::{PODS, ROOT, SETS, deployment, revision};

/// Reads events of a watch until one with a revision that is large enough.
async fn record(api: &Api, until: u64) -> Vec<(u64, String, Value)> {
    let path = format!("{PODS}?watch=true&resourceVersion=1&allowWatchBookmarks=true");
    let mut body = api.stream(ADMIN, &path).await;
    let mut seen = Vec::new();
    let mut rest = Vec::new();
    loop {
        let frame = body.frame().await.unwrap().unwrap();
        rest.extend_from_slice(frame.data_ref().unwrap());
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            let event: Value = serde_json::from_slice(&line).unwrap();
            let at = revision(&event["object"]);
            seen.push((at, event["type"].as_str().unwrap().to_owned(), event["object"].clone()));
            if at >= until {
                return seen;
            }
        }
    }
}

#[tokio::test]
async fn reads_at_every_past_revision_are_what_a_client_saw_then() {
    let (api, _scratch) = Api::start().await;
    let mut last = 0;
    for round in 0..40_u64 {
        let name = format!("p{}", round % 7);
        let path = format!("{PODS}/{name}");
        let (code, current) = api.ask(ADMIN, &format!("GET {path}"), &Value::Null).await;
        let answer = match (code, round % 5) {
            (404, _) => api.admin(&format!("POST {PODS}"), pod(&name, json!({}))).await,
            (_, 4) => {
                let now = json!({"gracePeriodSeconds": 0});
                api.admin(&format!("DELETE {path}"), now).await;
                continue;
            }
            _ => {
                let labels = json!({"metadata": {"labels": {"round": round.to_string()}}});
                assert!(current["metadata"]["uid"].is_string());
                api.admin(&format!("PATCH {path}"), labels).await
            }
        };
        last = revision(&answer);
    }
    let seen = record(&api, last).await;
    let mut world: BTreeMap<String, Value> = BTreeMap::new();
    let mut checked = 0;
    let mut events = seen.iter().peekable();
    for at in seen[0].0..=last {
        while let Some((_, kind, object)) = events.next_if(|(revision, ..)| *revision <= at) {
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            match kind.as_str() {
                "DELETED" => drop(world.remove(&name)),
                "ADDED" | "MODIFIED" => drop(world.insert(name, object.clone())),
                other => panic!("{other}"),
            }
        }
        let list = api.admin(&format!("GET {ROOT}/at/{at}{PODS}"), Value::Null).await;
        assert_eq!(list["metadata"]["resourceVersion"], at.to_string());
        let strip = |object: &Value| {
            let mut object = object.clone();
            object.as_object_mut().unwrap().remove("kind");
            object.as_object_mut().unwrap().remove("apiVersion");
            object
        };
        let found: Vec<Value> = list["items"].as_array().unwrap().iter().map(strip).collect();
        let expected: Vec<Value> = world.values().map(strip).collect();
        assert_eq!(found, expected, "at {at}");
        if let Some((name, object)) = world.first_key_value() {
            let one = api.admin(&format!("GET {ROOT}/at/{at}{PODS}/{name}"), Value::Null).await;
            assert_eq!(&one, object);
            checked += 1;
        }
    }
    assert!(checked > 20);
}

#[tokio::test]
async fn lists_of_the_past_are_selected_paged_and_told_as_tables() {
    let (api, _scratch) = Api::start().await;
    for name in ["a", "b", "c"] {
        let mut one = pod(name, json!({}));
        one["metadata"]["labels"] = json!({"of": if name == "b" { "x" } else { "y" }});
        api.admin(&format!("POST {PODS}"), one).await;
    }
    let made = api.admin(&format!("GET {PODS}"), Value::Null).await;
    let at = revision(&made);
    for name in ["a", "b", "c"] {
        api.admin(&format!("DELETE {PODS}/{name}"), json!({"gracePeriodSeconds": 0})).await;
    }
    let ask = async |query: &str| {
        let list = api.admin(&format!("GET {ROOT}/at/{at}{PODS}?{query}"), Value::Null).await;
        let names = list["items"].as_array().unwrap().iter();
        let names: Vec<String> =
            names.map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()).collect();
        (names.join(","), list["metadata"]["continue"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(ask("labelSelector=of%3Dy").await.0, "a,c");
    assert_eq!(ask("fieldSelector=metadata.name%3Db").await.0, "b");
    let (first, go_on) = ask("limit=2").await;
    assert_eq!(first, "a,b");
    assert_eq!(ask(&format!("limit=2&continue={go_on}")).await.0, "c");
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let line = format!("GET {ROOT}/at/{at}{PODS}");
    let (code, table) = api.ask_saying(&line, &table, &Value::Null).await;
    assert_eq!((code, table["kind"].as_str()), (200, Some("Table")));
    assert_eq!(table["rows"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn moments_are_revisions_times_or_ages_and_bad_ones_are_refused() {
    let (api, _scratch) = Api::start().await;
    let made = api.admin(&format!("POST {SETS}"), deployment("web", 1, "a")).await;
    let told = api.admin(&format!("GET {ROOT}/revisions{SETS}/web"), Value::Null).await;
    let time = told["items"][0]["time"].as_str().unwrap().to_owned();
    let change = json!({"spec": {"replicas": 3}});
    let later = api.admin(&format!("PATCH {SETS}/web"), change).await;
    let at = async |moment: &str| {
        api.ask(ADMIN, &format!("GET {ROOT}/at/{moment}{SETS}/web"), &Value::Null).await
    };
    let replicas = |answer: (u16, Value)| answer.1["spec"]["replicas"].clone();
    assert_eq!(replicas(at(&time).await), 1);
    assert_eq!(replicas(at(&revision(&made).to_string()).await), 1);
    assert_eq!(replicas(at(&revision(&later).to_string()).await), 3);
    assert_eq!(replicas(at("-0s").await), 3);
    for (moment, code, word) in [
        ("-5000d", 404, "this cluster began later"),
        ("1999-01-01T00:00:00Z", 404, "this cluster began later"),
        ("2199-01-01T00:00:00Z", 400, "future"),
        ("9999999", 400, "does not exist"),
        ("yesterday", 400, "expected a revision"),
    ] {
        let (found, answer) = at(moment).await;
        let message = answer["message"].as_str().unwrap();
        assert!(found == code && message.contains(word), "{moment} {found} {message}");
    }
    for path in ["at/5", "at/5/version", "at/5/api/v1/namespaces/default/pods/x/log", "revisions/x"]
    {
        let (code, answer) = api.ask(ADMIN, &format!("GET {ROOT}/{path}"), &Value::Null).await;
        assert!(code == 400 || code == 404, "{path} {code} {answer}");
    }
    let (code, _) = api.ask(ADMIN, &format!("DELETE {ROOT}/timeline"), &Value::Null).await;
    assert_eq!(code, 405);
    let timeline = api.admin(&format!("GET {ROOT}/timeline"), Value::Null).await;
    assert_eq!(timeline["newest"]["revision"], revision(&later));
    assert!(timeline["oldest"]["time"].is_string() && timeline["at"].is_null());
    // When a revision was is told to everybody: it names nothing.
    let at = revision(&later);
    let line = format!("GET {ROOT}/timeline?at={at}");
    let (code, told) = api.ask("nobody", &line, &Value::Null).await;
    assert_eq!((code, &told["at"]), (200, &timeline["newest"]), "{told}");
    let line = format!("GET {ROOT}/timeline?at={}", at + 1_000);
    assert_eq!(api.ask(ADMIN, &line, &Value::Null).await.0, 400);
}

#[tokio::test]
async fn pages_of_a_list_are_of_one_revision_when_the_moment_is_told_from_now() {
    let (api, _scratch) = Api::start().await;
    for name in ["a", "b"] {
        api.admin(&format!("POST {PODS}"), pod(name, json!({}))).await;
    }
    let first = api.admin(&format!("GET {ROOT}/at/-0s{PODS}?limit=1"), Value::Null).await;
    api.admin(&format!("POST {PODS}"), pod("c", json!({}))).await;
    let go_on = first["metadata"]["continue"].as_str().unwrap();
    let line = format!("GET {ROOT}/at/-0s{PODS}?continue={go_on}");
    let second = api.admin(&line, Value::Null).await;
    assert_eq!(revision(&second), revision(&first));
    let names: Vec<&str> = second["items"].as_array().unwrap().iter().map(name_of).collect();
    assert_eq!(names, ["b"]);
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

#[tokio::test]
async fn a_time_before_much_that_was_thinned_out_is_not_taken_for_a_later_one() {
    let hour = Duration::from_secs(3_600);
    let is_churn =
        |key: &Key, _: &bytes::Bytes, _: &bytes::Bytes| key.as_str().starts_with("churn/");
    let thinning = Some(Thinning { after: hour, interval: hour, is_churn });
    let interval = Duration::from_millis(20);
    let (api, clock, _scratch) =
        Api::with_clock(Retention { interval, thinning, ..Retention::default() }).await;
    api.admin(&format!("POST {SETS}"), deployment("web", 1, "a")).await;
    clock.forward(Duration::from_secs(60));
    let (seconds, micros) = (clock.now().0 / 1_000_000, 0);
    let then = apiserver::timestamp::format_micro(seconds, micros);
    clock.forward(Duration::from_secs(60));
    api.admin(&format!("PATCH {SETS}/web"), json!({"spec": {"replicas": 3}})).await;
    let store = &api.server.store;
    let begin = store.revision();
    let mut when = Precondition::Absent;
    for number in 0..12_000_u32 {
        let key = Key::new("churn/x").unwrap();
        let mutation = Mutation::Put(number.to_string().into());
        let operations = vec![Operation { key, mutation, when }];
        let provenance = Provenance::of(clock.now(), "test");
        let commit = Commit { operations, epoch: None, provenance };
        when = Precondition::At(store.commit(commit).await.unwrap().revision);
    }
    let end = store.revision();
    clock.forward(3 * hour);
    let left = async || {
        let (mut after, mut count) = (begin, 0);
        while after < end {
            let changes = store.changes(&KeyRange::prefix("churn/"), after, end).await.unwrap();
            after = changes.through;
            count += changes.batches.len();
        }
        count
    };
    while left().await > 10 {
        tokio::task::yield_now().await;
    }
    let line = format!("GET {ROOT}/at/{then}{SETS}/web");
    assert_eq!(api.admin(&line, Value::Null).await["spec"]["replicas"], 1);
}

#[tokio::test]
async fn the_group_is_discovered() {
    let (api, _scratch) = Api::start().await;
    let found = api.admin(&format!("GET {ROOT}"), Value::Null).await;
    let names = found["resources"].as_array().unwrap().iter();
    let names: Vec<&str> = names.map(|one| one["name"].as_str().unwrap()).collect();
    let expected =
        ["at", "changes", "events", "imported", "plan", "revisions", "timeline", "undo", "why"];
    assert_eq!(names, expected);
    let groups = api.admin("GET /apis", Value::Null).await.to_string();
    assert!(groups.contains("history.setpoint.dev"));
}
