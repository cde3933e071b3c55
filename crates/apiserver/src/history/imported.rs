//! `imported/{path}`: what happened to an object in the cluster that it was brought from.
//!
//! An import tells it once; it is kept beside the object, not among the revisions of this cluster,
//! whose numbers and times are its own. It is told behind them, and it goes with the object.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use store::{
    Commit, Entry, Key, KeyRange, Mutation, Operation, PageRequest, Precondition, Provenance,
};

use super::place::Place;
use super::redact;
use super::{Asked, GROUP, VERSION};
use crate::answer::Answer;
use crate::object;
use crate::persist::stored;
use crate::server::{Server, store_failure};
use crate::status::Error;

/// Where they are kept; what follows is the key of the object.
const PREFIX: &str = "history.setpoint.dev/imported/";
/// Changes of one object that are kept, the newest, and how large they may be together.
const ITEMS_MAX: usize = 500;
const BYTES_MAX: usize = 512 << 10;
/// What is kept of a change, besides what it changed.
const TEXTS: [&str; 6] = ["time", "type", "user", "manager", "request", "reconcile"];
const TYPES: [&str; 3] = ["Created", "Changed", "Deleted"];

/// Keeps what an import tells of an object that is there.
pub async fn answer(server: &Arc<Server>, rest: &str, asked: &Asked) -> Result<Answer, Error> {
    let place = Place::one(server, rest)?;
    place.authorize(server, &asked.user, "update")?;
    place.authorize_question(server, asked, ("create", "imported"))?;
    let entry = server.store.get(&place.key()?, None).await.map_err(store_failure)?;
    let Some(entry) = entry else {
        return Err(Error::not_found(place.resource.about(), &place.target.name));
    };
    let told: Value = serde_json::from_slice(&asked.body)
        .map_err(|error| Error::bad_request(format!("the body is no JSON: {error}")))?;
    let items = read(&place, &told)?;
    let count = items.len();
    let kept = json!({"uid": uid_of(&entry), "items": items}).to_string();
    let key = key(&place)?;
    let current = server.store.get(&key, None).await.map_err(store_failure)?;
    let when = match &current {
        Some(current) => Precondition::At(current.modified),
        None => Precondition::Absent,
    };
    let mut operations = orphans(server, &key).await?;
    operations.push(Operation { key, mutation: Mutation::Put(kept.into()), when });
    let provenance = Provenance::of(server.environment.now(), asked.user.name.clone());
    let commit = Commit { operations, epoch: None, provenance };
    server.store.commit(commit).await.map_err(store_failure)?;
    let answer = json!({"kind": "Imported", "apiVersion": format!("{GROUP}/{VERSION}"),
        "items": count});
    Ok(Answer::value(201, &answer))
}

/// What is kept of an object, newest first; nothing where it is another of the name.
pub async fn of(server: &Server, place: &Place) -> Result<Vec<Value>, Error> {
    let kept = server.store.get(&key(place)?, None).await.map_err(store_failure)?;
    let Some(kept) = kept else { return Ok(Vec::new()) };
    let mut kept: Value = serde_json::from_slice(&kept.value).unwrap_or_default();
    let live = server.store.get(&place.key()?, None).await.map_err(store_failure)?;
    match live {
        Some(entry) if kept["uid"] == uid_of(&entry).as_str() => {
            Ok(kept["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
        }
        _ => Ok(Vec::new()),
    }
}

fn key(place: &Place) -> Result<Key, Error> {
    let key = Key::new(format!("{PREFIX}{}", place.key()?));
    key.map_err(|error| Error::bad_request(error.to_string()))
}

fn uid_of(entry: &Entry) -> String {
    object::uid(&stored(entry).object(entry.modified)).to_owned()
}

/// Deletes what is kept of objects that have gone.
async fn orphans(server: &Server, but: &Key) -> Result<Vec<Operation>, Error> {
    /// Of more, the next import takes the rest.
    const ORPHANS_MAX: usize = 50;
    let page = server.store.list(&KeyRange::prefix(PREFIX), PageRequest::all(), None).await;
    let mut operations = Vec::new();
    for entry in page.map_err(store_failure)?.entries {
        let Ok(object) = Key::new(&entry.key.as_str()[PREFIX.len()..]) else { continue };
        let is_there = server.store.get(&object, None).await.map_err(store_failure)?.is_some();
        if is_there || entry.key == *but || operations.len() >= ORPHANS_MAX {
            continue;
        }
        let (key, when) = (entry.key.clone(), Precondition::At(entry.modified));
        operations.push(Operation { key, mutation: Mutation::Delete, when });
    }
    Ok(operations)
}

/// The changes that are told, as far as they are ours to keep.
fn read(place: &Place, told: &Value) -> Result<Vec<Value>, Error> {
    let wrong = |what: &str| Error::bad_request(format!("the imported history {what}"));
    let items = told["items"].as_array().ok_or_else(|| wrong("has no list of items"))?;
    let fields = redact::fields(&place.resource);
    let mut kept = Vec::new();
    let mut bytes = 0;
    for item in items.iter().take(ITEMS_MAX) {
        let mut one = Map::new();
        for field in TEXTS {
            one.insert(field.to_owned(), json!(item[field].as_str().unwrap_or_default()));
        }
        if !TYPES.iter().any(|known| item["type"] == *known) || one["time"] == "" {
            return Err(wrong("has an item without a time, or of an unknown type"));
        }
        let source = item["revision"].as_u64().or(item["source"]["revision"].as_u64());
        one.insert("revision".to_owned(), Value::Null);
        one.insert("source".to_owned(), json!({"revision": source.unwrap_or_default()}));
        let changes = item["changes"].as_array().into_iter().flatten();
        let changes = changes.map(|change| {
            let path = change["path"].as_str().unwrap_or_default();
            // Exports have no confidential values; a file that was edited may.
            let (mut from, mut to) = (change["from"].clone(), change["to"].clone());
            redact::hide_change(fields, path, [&mut from, &mut to]);
            json!({"path": path, "from": from, "to": to})
        });
        one.insert("changes".to_owned(), changes.collect());
        let one = Value::Object(one);
        bytes += one.to_string().len();
        if bytes > BYTES_MAX {
            break;
        }
        kept.push(one);
    }
    Ok(kept)
}
