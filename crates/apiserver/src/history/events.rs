//! `events/{path}`: the events of an object, also those that have ended, oldest first.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use store::{Entry, Key, KeyRange, PageRequest};

use super::place::Place;
use super::{Asked, moment};
use crate::answer::Answer;
use crate::persist::stored;
use crate::rbac::Attributes;
use crate::server::{Server, store_failure};
use crate::status::Error;

/// Events that are told at once: the newest.
const EVENTS_MAX: usize = 5_000;
/// Where events of what is in no namespace are.
const DEFAULT_NAMESPACE: &str = "default";

pub async fn answer(server: &Arc<Server>, rest: &str, asked: &Asked) -> Result<Answer, Error> {
    let place = Place::one(server, rest)?;
    place.authorize(server, &asked.user, "get")?;
    place.authorize_question(server, asked, ("get", "events"))?;
    let namespace = namespace_of(&place);
    let attributes =
        Attributes { verb: "list", resource: "events", namespace, ..Default::default() };
    server.decide(&asked.user, &attributes)?;
    let since = place.since(server, &asked.user, "get").await?;
    let range = KeyRange::prefix(&format!("events/{namespace}/"));
    let mut all: BTreeMap<Key, Arc<Entry>> = BTreeMap::new();
    let (oldest, _) = moment::window(&*server.store);
    let newest = asked.until(server).await?;
    if asked.is_of_the_past() {
        place.refuse_before(since, newest)?;
    }
    let begin = oldest.max(since);
    // What is older than the window and still there was never changed in it.
    let page = server.store.list(&range, PageRequest::all(), Some(begin.min(newest))).await;
    for entry in page.map_err(store_failure)?.entries {
        if entry.created >= since && is_about(&place, &entry) {
            all.insert(entry.key.clone(), entry);
        }
    }
    let mut after = begin;
    while after < newest {
        let changes = server.store.changes(&range, after, newest).await.map_err(store_failure)?;
        after = changes.through;
        for change in changes.batches.iter().flat_map(|batch| &batch.changes) {
            let Some(entry) = &change.entry else { continue };
            if is_about(&place, entry) {
                all.insert(change.key.clone(), entry.clone());
            }
        }
    }
    let mut events: Vec<Value> =
        all.values().map(|entry| stored(entry).object(entry.modified)).collect();
    events.sort_by_key(moment_of);
    let surplus = events.len().saturating_sub(EVENTS_MAX);
    events.drain(..surplus);
    let metadata = json!({"resourceVersion": newest.to_string()});
    let list =
        json!({"kind": "EventList", "apiVersion": "v1", "metadata": metadata, "items": events});
    Ok(Answer::value(200, &list))
}

fn namespace_of(place: &Place) -> &str {
    match place.resource.namespaced {
        true => &place.target.namespace,
        false => DEFAULT_NAMESPACE,
    }
}

/// What an event is about, without the rest of it.
#[derive(serde::Deserialize)]
pub struct Head<'a> {
    #[serde(rename = "involvedObject", borrow, default)]
    pub involved: Involved<'a>,
}

#[derive(serde::Deserialize, Default)]
pub struct Involved<'a> {
    #[serde(borrow, default)]
    pub uid: std::borrow::Cow<'a, str>,
    #[serde(borrow, default)]
    pub name: std::borrow::Cow<'a, str>,
    #[serde(borrow, default)]
    pub kind: std::borrow::Cow<'a, str>,
}

fn is_about(place: &Place, entry: &Entry) -> bool {
    let head: Result<Head<'_>, _> = serde_json::from_slice(stored(entry).text());
    head.is_ok_and(|head| {
        head.involved.name == place.target.name.as_str()
            && head.involved.kind == place.resource.kind.as_str()
    })
}

/// When an event was seen last, for sorting: all forms of times sort as texts.
fn moment_of(event: &Value) -> String {
    let times = [
        &event["series"]["lastObservedTime"],
        &event["lastTimestamp"],
        &event["eventTime"],
        &event["firstTimestamp"],
        &event["metadata"]["creationTimestamp"],
    ];
    times.into_iter().find_map(Value::as_str).unwrap_or_default().to_owned()
}
